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
                let line = format!("{:>12}  {closed:<20}  {changed:>10}{unique}  {name}", it["epoch"]);
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
