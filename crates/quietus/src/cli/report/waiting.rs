//! What was deleted and is not destroyed yet, for people.

use super::bytes;
use crate::front::control::{StatusAnswer, Waiting, WaitsFor};
use std::fmt::{self, Write};

/// Prints what was deleted and is not destroyed yet, a line for each reason.
pub(super) fn waiting(out: &mut String, now: &StatusAnswer) -> fmt::Result {
    now.waiting.iter().try_for_each(|it| line(out, "waiting", &waits(it, now)))
}

/// Reports, after an operation, the content that it could not destroy, why, and what ends the wait.
pub(super) fn still_waiting(out: &mut String, waiting: &[Waiting]) -> fmt::Result {
    for it in waiting {
        let amount = amount(it.bytes, it.at_least);
        writeln!(out, "not yet: {amount}: {}; until {}", it.cause.why(), it.cause.ends_with())?;
    }
    Ok(())
}

/// So many bytes, or more.
pub(super) fn amount(count: u64, at_least: bool) -> String {
    format!("{}{}", if at_least { "at least " } else { "" }, bytes(count))
}

/// The sentence for content that waits: since when, why, and what ends the wait.
pub(super) fn waits(waiting: &Waiting, now: &StatusAnswer) -> String {
    let age = waiting.oldest_ms.map_or_else(String::new, |ms| format!(" for {}", duration(ms)));
    let is_queued = matches!(waiting.cause, WaitsFor::Idle | WaitsFor::IdleBelow | WaitsFor::IdleResidue);
    let ends = match waiting.cause {
        _ if now.status.latched.is_some() => "a start with a sound medium".to_string(),
        _ if is_queued && now.status.owed.pauses.is_some() => {
            "the cause that `health` names is over".to_string()
        }
        _ if is_queued && now.status.owed.destroying => "being destroyed".to_string(),
        _ if is_queued && now.read_only && now.served => "`quietus serve` without --read-only".to_string(),
        _ if is_queued && !now.served => format!("`quietus serve`, or {}", waiting.cause.ends_with()),
        _ if is_queued => {
            let (idle, deadline) = (duration(now.idle_after_ms), duration(now.deadline_ms));
            format!("{idle} without a request, at most {deadline}; {}", waiting.cause.ends_with())
        }
        WaitsFor::Map | WaitsFor::Commits if now.attached.as_ref().is_some_and(|it| it.cached) => {
            "the guest was active for --settle and --cache-hold; see `attached`".to_string()
        }
        _ => waiting.cause.ends_with().to_string(),
    };
    format!("{}{age}: {}; until {ends}", amount(waiting.bytes, waiting.at_least), waiting.cause.why())
}

pub(super) fn line(out: &mut String, title: &str, text: &str) -> fmt::Result {
    writeln!(out, "{title:<11}{text}")
}

/// Milliseconds for people: the largest unit that is not zero.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{} s", ms / 1000),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        3_600_000..86_400_000 => format!("{} h", ms / 3_600_000),
        86_400_000..31_536_000_000 => format!("{} d", ms / 86_400_000),
        _ => format!("{} years", ms / 31_536_000_000),
    }
}
