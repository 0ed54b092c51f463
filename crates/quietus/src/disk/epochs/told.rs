//! The names of epochs and the holds as the audit log tells them: for a disk whose file of them is lost, and to compare with it.

use super::HoldOf;
use crate::evidence::audit_log::{CheckError, Checked};
use crate::evidence::recorder::HoldLine;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// See the module's documentation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Told {
    pub(crate) names: BTreeMap<String, u64>,
    pub(crate) holds: BTreeMap<String, HoldOf>,
    /// Whether lines are missing that may have told of more.
    pub(crate) lacks_lines: bool,
}

/// The lines that matter here.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
enum Line {
    Held(HoldLine),
    Released(HoldLine),
    Named {
        name: String,
        epoch: u64,
    },
    Forgets {
        from: u64,
        to: u64,
        #[serde(default)]
        blocks: Option<IgnoredAny>,
    },
    Lost,
    #[serde(other)]
    Other,
}

impl Told {
    /// What the audit log tells that `read` reads, line by line.
    ///
    /// # Errors
    /// [`CheckError`]: the log is not whole.
    pub(crate) fn by(
        read: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<Checked, CheckError>,
    ) -> Result<Self, CheckError> {
        let mut told = Self::default();
        let checked = read(&mut |line| told.take(line))?;
        told.lacks_lines |= checked.first > 0;
        Ok(told)
    }

    fn take(&mut self, line: &[u8]) {
        match serde_json::from_slice(line).unwrap_or(Line::Lost) {
            Line::Held(HoldLine { name, from, to, who, why, since_ms }) => {
                self.holds.insert(name, HoldOf { from, to, who, why, since_ms });
            }
            Line::Released(hold) => _ = self.holds.remove(&hold.name),
            Line::Named { name, epoch } => _ = self.names.insert(name, epoch),
            Line::Forgets { from, to, blocks: None } => {
                self.names.retain(|_, epoch| !(from..=to).contains(epoch));
            }
            Line::Lost => self.lacks_lines = true,
            Line::Forgets { .. } | Line::Other => {}
        }
    }

    /// What the log tells, and `holds` and `names` have not.
    pub(crate) fn missing_in(
        &self,
        holds: &BTreeMap<String, HoldOf>,
        names: &BTreeMap<u64, String>,
    ) -> Vec<String> {
        let lost = self.holds.iter().filter(|(name, hold)| holds.get(*name) != Some(*hold));
        let lost = lost.map(|(name, it)| format!("the hold {name:?} on epochs {} to {}", it.from, it.to));
        let has = |name: &str, epoch: u64| {
            names.get(&epoch).is_some_and(|all| all.split(", ").any(|it| it == name))
        };
        let unnamed = self.names.iter().filter(|(name, epoch)| !has(name, **epoch));
        lost.chain(unnamed.map(|(name, epoch)| format!("the name {name:?} of epoch {epoch}"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_what_is_held_and_named_now() {
        let mut told = Told::default();
        let hold = |event: &str, name: &str| {
            format!(
                r#"{{"n":1,"time_ms":2,"event":"{event}","name":"{name}","from":2,"to":3,"who":"w","why":"y","since_ms":5,"prev":""}}"#
            )
        };
        let lines = [
            r#"{"n":0,"time_ms":1,"event":"opened","prev":""}"#.to_string(),
            hold("held", "a"),
            hold("held", "b"),
            hold("released", "a"),
            r#"{"n":4,"event":"named","name":"x","epoch":1,"prev":""}"#.into(),
            r#"{"n":5,"event":"named","name":"y","epoch":7,"prev":""}"#.into(),
            r#"{"n":6,"event":"forgets","from":7,"to":7,"blocks":{"start":0,"len":1},"by_rule":false,"prev":""}"#.into(),
            r#"{"n":7,"event":"forgets","from":1,"to":2,"by_rule":true,"prev":""}"#.into(),
        ];
        lines.iter().for_each(|line| told.take(line.as_bytes()));
        let held = HoldOf { from: 2, to: 3, who: "w".into(), why: "y".into(), since_ms: 5 };
        assert_eq!((told.holds.len(), told.holds.get("b")), (1, Some(&held)));
        assert_eq!((&told.names, told.lacks_lines), (&BTreeMap::from([("y".to_string(), 7)]), false));
        let names = BTreeMap::from([(7, "x, y".to_string())]);
        assert_eq!(told.missing_in(&told.holds, &names), [""; 0]);
        assert_eq!(told.missing_in(&BTreeMap::new(), &BTreeMap::new()).len(), 2);
        told.take(br#"{"n":8,"event":"lost","reason":"x","known":{"lines":1,"hash":""},"prev":""}"#);
        assert!(told.lacks_lines);
    }
}
