//! The commands about epochs.

use crate::cli::args::{ConsentArgs, EpochArgs, ForgetArgs, HoldArgs, ReleaseArgs, VersionsListArgs};
use crate::cli::consent;
use crate::cli::report::Report;
use crate::cli::{Failure, ask, with_bar};
use crate::front::control::{self, Answer, Call, Epochs, Refused};
use std::path::{Path, PathBuf};

/// The state after Ctrl-C during `forget --wait`.
const INTERRUPTED: &str = "interrupted: the epochs are forgotten; the server goes on to destroy the content that only they showed, and `quietus status` shows when that is done";
/// The text after an interrupted forget of blocks.
const INTERRUPTED_BLOCKS: &str = "interrupted: the blocks are forgotten; the server goes on to destroy their content, and `quietus status` shows when that is done";

/// A disk, and what follows the last `@`, if no directory has the whole name.
pub(in crate::cli) fn split(target: &Path) -> (PathBuf, Option<String>) {
    let text = target.to_string_lossy();
    match text.rsplit_once('@') {
        Some((disk, at)) if !target.exists() => (disk.into(), Some(at.into())),
        _ => (target.into(), None),
    }
}

/// Whether two paths are of one disk.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let known = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
    known(one) == known(other)
}

/// A disk, and the epochs that are named behind it.
fn named(target: &Path) -> Result<(PathBuf, Epochs), Failure> {
    let (disk, Some(at)) = split(target) else {
        let text = target.display();
        return Err(Failure::Usage(format!(
            "{text}: no epochs are named; use {text}@17, {text}@17..20, {text}@17.. or {text}@NAME"
        )));
    };
    let epochs = Epochs::from(at.as_str());
    Ok((disk, epochs))
}

pub(in crate::cli) fn epoch(args: &EpochArgs, out: &Report) -> Result<(), Failure> {
    let call = Call::Epoch { name: args.name.clone(), confirm_clock: args.confirm_clock };
    ask(&args.disk, &call).map(|it| out.epoch_closed(&it))
}

pub(in crate::cli) fn versions(args: &VersionsListArgs, out: &Report) -> Result<(), Failure> {
    ask(&args.disk, &Call::Versions { from: args.from, unique: args.unique }).map(|it| out.versions(&it))
}

/// Forgets epochs, or blocks.
pub(super) fn forget(args: &ForgetArgs, out: &Report) -> Result<(), Failure> {
    if !(args.chain.is_empty() && args.range.is_empty()) {
        return forget_blocks(args, out);
    }
    let (disk, epochs) = named(&args.target)?;
    let weigh = || ask(&disk, &Call::Weigh { epochs: epochs.clone() }).map(|answer| out.weighed(&answer));
    if !weighed(args.consent, weigh)? {
        return Ok(());
    }
    carry_out(&disk, &Call::Forget { epochs, wait: args.wait }, INTERRUPTED).map(|it| out.forgotten(&it))
}

/// Reports what would die if that is asked for, or if a person is to decide. Returns whether to go on.
pub(in crate::cli) fn weighed(
    consent: ConsentArgs,
    report: impl FnOnce() -> Result<(), Failure>,
) -> Result<bool, Failure> {
    if consent.dry_run || consent.asks() {
        report()?;
    }
    if consent.asks() {
        consent::ask("About to forget this for ever. It cannot be undone.")?;
    }
    Ok(!consent.dry_run)
}

/// Forgets blocks: in all epochs, or in those that are named.
fn forget_blocks(args: &ForgetArgs, out: &Report) -> Result<(), Failure> {
    let (disk, epochs) = match split(&args.target) {
        (_, Some(at)) if !args.chain.is_empty() => {
            return Err(Failure::Usage(format!(
                "--chain forgets blocks in all epochs, but \"@{at}\" names some; use --range for these alone, or leave out \"@{at}\""
            )));
        }
        (disk, None) if !args.chain.is_empty() => (disk, None),
        _ => named(&args.target).map(|(disk, epochs)| (disk, Some(epochs)))?,
    };
    let ranges: Vec<_> = args.chain.iter().chain(&args.range).map(|it| (it.start, it.len)).collect();
    let weigh = || {
        let call = Call::WeighBlocks { ranges: ranges.clone(), epochs: epochs.clone() };
        ask(&disk, &call).map(|it| out.blocks_weighed(&it))
    };
    if !weighed(args.consent, weigh)? {
        return Ok(());
    }
    let call = Call::ForgetBlocks { ranges, epochs, current: args.current, wait: args.wait };
    carry_out(&disk, &call, INTERRUPTED_BLOCKS).map(|it| out.blocks_forgotten(&it))
}

/// Asks for a forget, and waits for the answer.
fn carry_out<T: Answer>(disk: &Path, call: &Call, interrupted: &str) -> Result<T, Failure> {
    with_bar(|step| match control::ask(disk, call, None, step) {
        Err(Refused::Interrupted) => Err(Failure::Interrupted(interrupted.into())),
        answer => Ok(answer?),
    })
}

pub(in crate::cli) fn hold(args: &HoldArgs, out: &Report) -> Result<(), Failure> {
    let (disk, epochs) = named(&args.target)?;
    let HoldArgs { name, who, why, .. } = args;
    let call = Call::Hold { name: name.clone(), epochs, who: who.clone(), why: why.clone() };
    ask(&disk, &call).map(|it| out.held(&it))
}

pub(in crate::cli) fn release(args: &ReleaseArgs, out: &Report) -> Result<(), Failure> {
    ask(&args.disk, &Call::Release { name: args.name.clone() }).map(|it| out.released(&it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_follow_the_last_at_of_a_name_that_is_no_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let odd = dir.path().join("vm@home");
        std::fs::create_dir(&odd).expect("a directory");
        assert_eq!(split(&odd), (odd.clone(), None));
        let named_of = |text: &str| named(Path::new(text)).ok();
        let epochs = |from: &str, to: Option<&str>| Epochs { from: from.into(), to: to.map(Into::into) };
        assert_eq!(named_of("d@17"), Some(("d".into(), epochs("17", None))));
        assert_eq!(named_of("d@17..x"), Some(("d".into(), epochs("17", Some("x")))));
        assert_eq!(named_of("d@..2026-11-20"), Some(("d".into(), epochs("first", Some("2026-11-20")))));
        assert_eq!(named_of("d@17.."), Some(("d".into(), epochs("17", Some("last")))));
        assert_eq!(named_of("d@.."), Some(("d".into(), epochs("first", Some("last")))));
        assert!(named_of("d").is_none());
    }
}
