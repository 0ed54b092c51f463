//! Events of the audit log, for people.

use super::{bytes, scope_text};
use crate::base::rfc3339;
use crate::cli::output::{AuditEntry, AuditEvent, HoldEvent};
use quietus_core::base::units::{Addr, Extent, Scope};
use quietus_core::owed::ledger::Cause;
use quietus_core::watch::Class;
use std::fmt::{self, Write};

/// The word for what happened in a range, its cause, the class of what died, the passes, and the epochs that were forgotten.
type Kind = (&'static str, Cause, Option<Class>, Option<u16>, Option<Scope>);

/// Prints the events of a line of the log. Ranges of one instant and one kind are a line together.
pub(super) fn text(out: &mut String, events: &[AuditEntry]) -> fmt::Result {
    let kind = |it: &AuditEntry| (it.time_ms, ranged(&it.event).map(|(_, kind)| kind));
    for alike in events.chunk_by(|one, next| kind(one) == kind(next)) {
        let now = rfc3339::text(alike[0].time_ms);
        let Some((first, (what, cause, class, passes, _))) = ranged(&alike[0].event) else {
            writeln!(out, "{now} {}", other(&alike[0].event))?;
            continue;
        };
        let len = alike.iter().filter_map(|it| ranged(&it.event)).map(|(range, _)| range.len).sum();
        write!(out, "{now} {what:<8} {:>14} {:>12}  {}", first.start.0, bytes(len), cause.name())?;
        if class == Some(Class::Plain) {
            write!(out, ", plain: freed, not destroyed")?;
        }
        if let Some(passes) = passes {
            write!(out, ", {passes} passes")?;
        }
        match alike.len() {
            1 => writeln!(out)?,
            count => writeln!(out, ", in {count} places")?,
        }
    }
    Ok(())
}

/// The range that an event is about, if it is about one.
fn ranged(event: &AuditEvent) -> Option<(Extent<Addr>, Kind)> {
    match *event {
        AuditEvent::Died { range, cause, class } => Some((range, ("died", cause, Some(class), None, None))),
        AuditEvent::Owed { range, cause, class } => Some((range, ("owed", cause, Some(class), None, None))),
        AuditEvent::Receipt { range, act, cause, passes, epochs } => {
            Some((range, (act.name(), cause, None, Some(passes), epochs)))
        }
        _ => None,
    }
}

/// An event that is about no range.
fn other(event: &AuditEvent) -> String {
    match event {
        AuditEvent::Opened => "opened".into(),
        AuditEvent::Stopped => "stopped".into(),
        AuditEvent::Proved { .. } => "proved".into(),
        AuditEvent::Continued { .. } => "continued".into(),
        AuditEvent::Repaired { .. } => "repaired".into(),
        AuditEvent::Latched { reason } => format!("latched  {reason}"),
        AuditEvent::Lost { reason, .. } => format!("lost     lines are missing here: {reason}"),
        AuditEvent::Dropped { deaths, .. } => format!("dropped  {deaths} deaths have no line of their own"),
        AuditEvent::Forgets { scope, by_rule: true } => {
            format!("forgets  {}: no rule of retention keeps them", scope_text(scope))
        }
        AuditEvent::Forgets { scope, .. } => format!("forgets  {}", scope_text(scope)),
        AuditEvent::Named { name, epoch } => format!("named    epoch {epoch}, {name}"),
        AuditEvent::Held(hold) => held("held", hold),
        AuditEvent::Released(hold) => held("released", hold),
        AuditEvent::Unknown { line } => line["event"].as_str().unwrap_or("?").into(),
        AuditEvent::Died { .. } | AuditEvent::Owed { .. } | AuditEvent::Receipt { .. } => String::new(),
    }
}

fn held(what: &str, HoldEvent { name, from, to, who, why, .. }: &HoldEvent) -> String {
    format!("{what:<8} epochs {from} to {to}, {name}, by {who}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::audit_entries;

    fn said(line: &str) -> String {
        let mut out = String::new();
        text(&mut out, &audit_entries(line.as_bytes())).expect("writing to memory does not fail");
        out
    }

    #[test]
    fn ranges_of_one_instant_and_kind_are_a_line_and_others_have_their_own() {
        let batch = |event: &str, kinds: &str, more: &str| {
            said(&format!(
                r#"{{"n":1,"time_ms":0,"event":"{event}","from_ms":0,"bytes":16384,"unit":4096,"kinds":[{kinds}],
                    "runs":[[0,0,1,1,1,1],[0,1,8,1],[1000,1,9,1]]{more}}}"#
            ))
        };
        let kinds = r#"{"cause":"trim","class":"sensitive"},{"cause":"trim","class":"plain"}"#;
        let plain = "trim, plain: freed, not destroyed";
        let died = [
            "1970-01-01T00:00:00.000Z died               4096     8.00 KiB  trim, in 2 places".into(),
            format!("1970-01-01T00:00:00.000Z died              32768     4.00 KiB  {plain}"),
            format!("1970-01-01T00:00:01.000Z died              36864     4.00 KiB  {plain}"),
        ];
        assert_eq!(batch("died", kinds, "").lines().collect::<Vec<_>>(), died);
        let kinds =
            r#"{"act":"shredded","cause":"map","passes":3},{"act":"shredded","cause":"map","passes":2}"#;
        let gone = batch("receipt", kinds, r#","through":7"#);
        let first =
            "1970-01-01T00:00:00.000Z shredded           4096     8.00 KiB  map, 3 passes, in 2 places";
        assert_eq!((gone.lines().next(), gone.lines().count()), (Some(first), 3));
    }

    #[test]
    fn what_this_version_does_not_know_is_named() {
        assert_eq!(said(r#"{"n":1,"time_ms":0,"event":"later"}"#), "1970-01-01T00:00:00.000Z later\n");
        assert_eq!(said("no line"), "");
    }
}
