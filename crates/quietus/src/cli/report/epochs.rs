//! Reports about epochs.

use super::{Report, bytes};
use crate::disk::epochs::HoldOf;
use crate::epochs::At;
use crate::front::control::{
    BlocksForgotten, BlocksWeighed, Closed, Forgotten, Held, Released, VersionLine, Versions, Weighed,
};
use quietus_core::base::units::EpochRange;
use std::fmt::Write;

impl Report {
    /// Reports an epoch that has closed.
    pub(crate) fn epoch_closed(&self, it: &Closed) {
        self.say(it, |out| match &it.name {
            Some(name) => write!(out, "epoch {} is kept, as {name}", it.epoch),
            None => write!(out, "epoch {} is kept", it.epoch),
        });
    }

    /// Lists epochs.
    pub(crate) fn versions(&self, answer: &Versions) {
        self.say(answer, |out| {
            let versions = &answer.versions;
            let has_unique = versions.first().is_some_and(|it| it.unique_bytes.is_some());
            let unique = if has_unique { "      unique" } else { "" };
            match versions.is_empty() {
                true => writeln!(out, "no epoch is kept")?,
                false => writeln!(out, "{:>12}  {:<20}  {:>10}{unique}  name", "epoch", "closed", "changed")?,
            }
            versions.iter().try_for_each(|it| version(out, it))?;
            if let Some(last) = versions.last().filter(|_| answer.more) {
                writeln!(out, "there are more: --from {}", last.epoch + 1)?;
            }
            answer.holds.iter().try_for_each(|(name, hold)| {
                let HoldOf { from, to, who, why, .. } = hold;
                writeln!(out, "hold {name}: epochs {from} to {to}, by {who}: {why}")
            })
        });
    }

    /// Reports a forget.
    pub(crate) fn forgotten(&self, it: &Forgotten) {
        self.say(it, |out| {
            let Forgotten { from, to, done } = it;
            let epochs = if from == to { format!("epoch {from}") } else { format!("epochs {from} to {to}") };
            write!(out, "{epochs}: forgotten; content that only they showed {}", destroyed(*done))
        });
    }

    /// Reports what a forget would destroy.
    pub(crate) fn weighed(&self, it: &Weighed) {
        self.say(it, |out| {
            let (from, to, blocks, kept) = (it.from, it.to, it.dies_blocks, it.epochs);
            writeln!(out, "epochs {from} to {to}, {kept} of them kept: nothing was changed")?;
            writeln!(out, "dies   {:>12}  in {blocks} blocks, which only they show", bytes(it.dies_bytes))?;
            if let Some(before) = it.before {
                let stays = bytes(it.stays_before_bytes);
                writeln!(out, "stays  {stays:>12}  which epoch {before} shows, too, and no later one")?;
            }
            let after = it.after.map_or("the current state".into(), |after| format!("epoch {after}"));
            writeln!(out, "stays  all else that they show: {after} shows it, too")?;
            held(out, it.held.as_deref())
        });
    }

    /// Reports a forget of blocks.
    pub(crate) fn blocks_forgotten(&self, it: &BlocksForgotten) {
        self.say(it, |out| {
            let all = it.ranges.iter().map(|range| format!("{}+{}", range.start.0, range.len));
            let (ranges, to, is) = (all.collect::<Vec<_>>().join(","), it.to, destroyed(it.done));
            let epochs = match it.from {
                None => format!("all epochs up to {to}"),
                Some(from) => format!("epochs {from} to {to}"),
            };
            write!(out, "{ranges}: forgotten in {epochs}; their content there {is}")
        });
    }

    /// Reports what a forget of blocks would destroy.
    pub(crate) fn blocks_weighed(&self, it: &BlocksWeighed) {
        self.say(it, |out| {
            let shown = shown_by(it.shown_by);
            match it.from {
                None => writeln!(out, "all epochs up to {}: nothing was changed", it.to)?,
                Some(from) => writeln!(out, "epochs {from} to {}: nothing was changed", it.to)?,
            }
            writeln!(out, "dies   {:>12}  in {} versions; {shown}", bytes(it.dies_bytes), it.dies_blocks)?;
            if it.current_bytes > 0 {
                let current = bytes(it.current_bytes);
                let refused = if it.from.is_none() { "refused without --current" } else { "refused" };
                writeln!(out, "shared {current:>12}  with the current state: {refused}")?;
            }
            if it.others_bytes > 0 {
                writeln!(out, "shared {:>12}  with other epochs: refused", bytes(it.others_bytes))?;
            }
            held(out, it.held.as_deref())
        });
    }

    /// Reports a hold.
    pub(crate) fn held(&self, it: &Held) {
        self.say(it, |out| {
            it.holds.iter().try_for_each(|(name, hold)| {
                let HoldOf { from, to, .. } = hold;
                write!(out, "epochs {from} to {to} are held by {name}: they cannot be forgotten")
            })
        });
    }

    /// Reports the release of a hold.
    pub(crate) fn released(&self, it: &Released) {
        self.say(it, |out| {
            write!(out, "epochs {} to {} are no longer held by {:?}", it.hold.from, it.hold.to, it.released)
        });
    }
}

/// The line of a kept epoch.
fn version(out: &mut String, it: &VersionLine) -> std::fmt::Result {
    let closed = if it.closed_ms == 0 { "unknown".into() } else { At::Time(it.closed_ms).to_string() };
    let (changed, name) = (bytes(it.changed_bytes), it.name.as_deref().unwrap_or_default());
    let unique = it.unique_bytes.map_or(String::new(), |size| format!("  {:>10}", bytes(size)));
    let line = format!("{:>12}  {closed:<20}  {changed:>10}{unique}  {name}", it.epoch);
    writeln!(out, "{}", line.trim_end())
}

/// How far the content of a forget is destroyed.
pub(super) fn destroyed(done: bool) -> &'static str {
    if done { "is destroyed" } else { "is being destroyed (`quietus status` shows when that is done)" }
}

/// Which epochs show what would die.
pub(super) fn shown_by(epochs: Option<EpochRange>) -> String {
    match epochs {
        Some(EpochRange { from, to }) if from < to => {
            format!("epochs {} to {} show some of it", from.0, to.0)
        }
        Some(only) => format!("epoch {} shows it", only.from.0),
        None => "no epoch shows any of it".into(),
    }
}

/// Why a forget would be refused, if it would.
fn held(out: &mut String, held: Option<&str>) -> std::fmt::Result {
    held.map_or(Ok(()), |held| writeln!(out, "refused: {held}"))
}
