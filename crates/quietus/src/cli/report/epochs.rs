//! Reports about epochs.

use super::{Report, bytes};
use crate::epochs::At;
use serde_json::Value;
use std::fmt::Write;

impl Report {
    /// Reports an epoch that has closed.
    pub(crate) fn epoch_closed(&self, answer: &Value) {
        self.say(answer, |out| match answer["name"].as_str() {
            Some(name) => write!(out, "epoch {} is kept, as {name}", answer["epoch"]),
            None => write!(out, "epoch {} is kept", answer["epoch"]),
        });
    }

    /// Lists epochs.
    pub(crate) fn versions(&self, answer: &Value) {
        self.say(answer, |out| {
            let versions = answer["versions"].as_array().map_or(&[][..], Vec::as_slice);
            let has_unique = versions.first().is_some_and(|it| it["unique_bytes"].is_u64());
            let unique = if has_unique { "      unique" } else { "" };
            match versions.is_empty() {
                true => writeln!(out, "no epoch is kept")?,
                false => writeln!(out, "{:>12}  {:<20}  {:>10}{unique}  name", "epoch", "closed", "changed")?,
            }
            for it in versions {
                let name = it["name"].as_str().unwrap_or_default();
                let closed = match it["closed_ms"].as_u64() {
                    None | Some(0) => "unknown".into(),
                    Some(ms) => At::Time(ms).to_string(),
                };
                let size = |name: &str| it[name].as_u64().map(bytes);
                let changed = size("changed_bytes").unwrap_or_default();
                let unique = size("unique_bytes").map_or(String::new(), |size| format!("  {size:>10}"));
                let epoch = it["epoch"].as_u64().unwrap_or_default();
                let line = format!("{epoch:>12}  {closed:<20}  {changed:>10}{unique}  {name}");
                writeln!(out, "{}", line.trim_end())?;
            }
            if let Some(last) = versions.last().filter(|_| answer["more"] == true) {
                writeln!(out, "there are more: --from {}", last["epoch"].as_u64().unwrap_or_default() + 1)?;
            }
            for (name, hold) in answer["holds"].as_object().into_iter().flatten() {
                let (who, why) = (&hold["who"], &hold["why"]);
                writeln!(out, "hold {name}: epochs {} to {}, by {who}: {why}", hold["from"], hold["to"])?;
            }
            Ok(())
        });
    }

    /// Reports a forget.
    pub(crate) fn forgotten(&self, answer: &Value) {
        self.say(answer, |out| {
            let (from, to) = (&answer["from"], &answer["to"]);
            let epochs = if from == to { format!("epoch {from}") } else { format!("epochs {from} to {to}") };
            match answer["done"] == true {
                true => write!(out, "{epochs}: forgotten; what only they showed is destroyed"),
                false => write!(
                    out,
                    "{epochs}: cannot be read any more; what only they showed is being destroyed (`quietus status` \
                     shows when it is)"
                ),
            }
        });
    }

    /// Reports what a forget would destroy.
    pub(crate) fn weighed(&self, answer: &Value) {
        self.say(answer, |out| {
            let number = |name: &str| answer[name].as_u64();
            let size = |name: &str| bytes(number(name).unwrap_or(0));
            let (from, to, blocks) = (&answer["from"], &answer["to"], &answer["dies_blocks"]);
            let kept = &answer["epochs"];
            writeln!(out, "epochs {from} to {to}, {kept} of them kept: nothing was changed")?;
            writeln!(out, "dies   {:>12}  in {blocks} blocks, which only they show", size("dies_bytes"))?;
            if let Some(before) = number("before") {
                let stays = size("stays_before_bytes");
                writeln!(out, "stays  {stays:>12}  which epoch {before} shows, too, and no later one")?;
            }
            let after = number("after").map_or("the current state".into(), |after| format!("epoch {after}"));
            writeln!(out, "stays  all else that they show: {after} shows it, too")?;
            match answer["held"].as_str() {
                Some(held) => writeln!(out, "refused: {held}"),
                None => Ok(()),
            }
        });
    }

    /// Reports a forget of blocks.
    pub(crate) fn blocks_forgotten(&self, answer: &Value) {
        self.say(answer, |out| {
            let (ranges, to) = (ranges(&answer["ranges"]), &answer["to"]);
            match answer["done"] == true {
                true => write!(out, "{ranges}: forgotten in all epochs up to {to}; what they showed there is destroyed"),
                false => write!(
                    out,
                    "{ranges}: no epoch up to {to} can be read there any more; what they showed is being destroyed \
                     (`quietus status` shows when it is)"
                ),
            }
        });
    }

    /// Reports what a forget of blocks would destroy.
    pub(crate) fn blocks_weighed(&self, answer: &Value) {
        self.say(answer, |out| {
            let size = |name: &str| bytes(answer[name].as_u64().unwrap_or(0));
            let shown = match (answer["shown_by"][0].as_u64(), answer["shown_by"][1].as_u64()) {
                (Some(first), Some(last)) if first < last => {
                    format!("epochs {first} to {last} show some of it")
                }
                (Some(only), _) => format!("epoch {only} shows it"),
                _ => "no epoch shows any of it".into(),
            };
            writeln!(out, "all epochs up to {}: nothing was changed", answer["to"])?;
            writeln!(
                out,
                "dies   {:>12}  in {} versions; {shown}",
                size("dies_bytes"),
                answer["dies_blocks"]
            )?;
            if answer["current_bytes"].as_u64().unwrap_or(0) > 0 {
                let current = size("current_bytes");
                writeln!(out, "shared {current:>12}  with the current state: refused without --current")?;
            }
            match answer["held"].as_str() {
                Some(held) => writeln!(out, "refused: {held}"),
                None => Ok(()),
            }
        });
    }

    /// Reports a hold.
    pub(crate) fn held(&self, name: &str, answer: &Value) {
        let hold = &answer["holds"][name];
        self.say(answer, |out| {
            write!(
                out,
                "epochs {} to {} are held by {name}: none of them can be forgotten",
                hold["from"], hold["to"]
            )
        });
    }

    /// Reports the release of a hold.
    pub(crate) fn released(&self, answer: &Value) {
        let hold = &answer["hold"];
        self.say(answer, |out| {
            write!(
                out,
                "epochs {} to {} are no longer held by {}",
                hold["from"], hold["to"], answer["released"]
            )
        });
    }
}

/// First byte and length of each range.
fn ranges(all: &Value) -> String {
    let one = |range: &Value| format!("{}+{}", range[0], range[1]);
    all.as_array().into_iter().flatten().map(one).collect::<Vec<_>>().join(",")
}

/// A line of the audit log that is about epochs.
pub(super) fn line(event: &str, entry: &Value) -> String {
    let text = |name: &str| entry[name].as_str().unwrap_or("?").to_string();
    let epochs = format!("epochs {} to {}", entry["from"], entry["to"]);
    match event {
        "forgets" if entry["blocks"].is_object() => {
            let blocks = &entry["blocks"];
            format!("forgets  {}+{} in all epochs up to {}", blocks["start"], blocks["len"], entry["to"])
        }
        "forgets" if entry["by_rule"] == true => {
            format!("forgets  {epochs}: no rule of retention keeps them")
        }
        "forgets" => format!("forgets  {epochs}"),
        "named" => format!("named    epoch {}, {}", entry["epoch"], text("name")),
        _ => format!("{event:<8} {epochs}, {}, by {}: {}", text("name"), text("who"), text("why")),
    }
}
