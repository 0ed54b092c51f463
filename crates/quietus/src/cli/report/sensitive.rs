//! Which content is sensitive, for people.

use super::waiting::waiting;
use crate::base::signed::AsSigned;
use crate::front::control::StatusAnswer;
use crate::proof::sensitivity::{Coverage, Sensitivity, ShowingDead};
use quietus_core::request::EPOCHS_MAX;
use quietus_detect::rules::options::Sensitive;
use std::fmt::{self, Write};

const STILL_SHOWN: &str = "epochs that still show content which has died and was marked, or may have been";

/// One line for the status.
pub(super) fn summary(sensitivity: &Sensitivity) -> String {
    match sensitivity.mode {
        Sensitive::All => "all content".into(),
        Sensitive::Marked => {
            let places: Vec<_> = sensitivity.places.iter().map(covered).collect();
            let epochs = match sensitivity.epochs.len() {
                0 => String::new(),
                _ => format!("; {STILL_SHOWN}: {}", runs(&sensitivity.epochs)),
            };
            format!(
                "marked content (`chattr +s`): {}{epochs}; `quietus sensitive` says more",
                places.join("; ")
            )
        }
    }
}

/// The epochs in words: numbers that follow each other as one, and names.
fn runs(epochs: &[ShowingDead]) -> String {
    let follows = |it: &ShowingDead, next: &ShowingDead| it.epoch.epoch + 1 == next.epoch.epoch;
    let mut words: Vec<String> = Vec::new();
    for run in epochs.chunk_by(follows) {
        words.push(match run {
            [one] => one.epoch.epoch.to_string(),
            [first, .., last] => format!("{} to {}", first.epoch.epoch, last.epoch.epoch),
            [] => continue,
        });
        let names: Vec<&str> = run.iter().filter_map(|it| it.name.as_deref()).collect();
        if let (Some(word), false) = (words.last_mut(), names.is_empty()) {
            word.push_str(&format!(" ({})", names.join(", ")));
        }
    }
    let more = if epochs.len() < EPOCHS_MAX { "" } else { ", and perhaps later ones" };
    format!("{}{more}", words.join(", "))
}

/// The sensitive content in one place of the disk.
fn covered(it: &Coverage) -> String {
    let name = it.file_system.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let found = match &it.everything {
        Some(why) => format!("everything, as {why}"),
        None if it.figures.is_empty() => "marks are followed".into(),
        None => {
            let figures: Vec<_> = it.figures.iter().map(|(name, count)| format!("{count} {name}")).collect();
            figures.join(", ")
        }
    };
    format!("{}{name}: {found}", it.place)
}

/// Prints what a proof says of marks: `said` is a [`Sensitivity`], as it was signed.
pub(super) fn proven(out: &mut String, said: &AsSigned<Sensitivity>) -> fmt::Result {
    let Some(sensitivity) = said.read() else {
        return writeln!(out, "sensitive    of another version of Quietus: {said}");
    };
    for place in &sensitivity.places {
        writeln!(out, "sensitive    only what is marked (`chattr +s`), in {}", covered(place))?;
    }
    if !sensitivity.epochs.is_empty() {
        writeln!(out, "shown        {STILL_SHOWN}: {}", runs(&sensitivity.epochs))?;
    }
    sensitivity.limits.iter().try_for_each(|limit| writeln!(out, "uncovered    {limit}"))
}

/// Prints what is marked, what awaits its destruction, what is not covered and why.
pub(super) fn report(out: &mut String, now: &StatusAnswer) -> fmt::Result {
    let Some(sensitivity) = &now.sensitive else {
        return writeln!(
            out,
            "sensitive  all content: {} is not served, and only `quietus serve --sensitive marked` follows marks",
            now.name
        );
    };
    match sensitivity.mode {
        Sensitive::All => {
            writeln!(out, "sensitive  all content; to follow marks: `quietus serve --sensitive marked`")?
        }
        Sensitive::Marked => writeln!(out, "sensitive  content of files marked with `chattr +s`")?,
    }
    for place in &sensitivity.places {
        writeln!(out, "marked     {}", covered(place))?;
    }
    waiting(out, now)?;
    if !sensitivity.epochs.is_empty() {
        let epochs = runs(&sensitivity.epochs);
        writeln!(out, "shown      {STILL_SHOWN}: {epochs}; `quietus forget {}@EPOCH` destroys it", now.name)?;
    }
    for limit in &sensitivity.limits {
        writeln!(out, "uncovered  {limit}")?;
    }
    Ok(())
}
