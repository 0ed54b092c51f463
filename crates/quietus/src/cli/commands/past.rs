//! The commands about states of the past.

use super::epochs::{is_same, split};
use crate::cli::args::{DiffArgs, RestoreArgs};
use crate::cli::consent::{self, Act};
use crate::cli::output::Plan;
use crate::cli::report::{Report, bytes};
use crate::cli::{Failure, ask, with_bar};
use crate::files::Target;
use crate::front::control::{self, Call, Diff, Restored, StatusAnswer};
use std::path::{Path, PathBuf};

/// A disk, and the epoch that is named behind it.
fn named(target: &Path) -> Result<(PathBuf, String), Failure> {
    let (disk, Some(at)) = split(target) else {
        let text = target.display();
        return Err(Failure::Usage(format!(
            "{text}: no epoch is named; use {text}@17, {text}@NAME or {text}@2026-11-20T10:00"
        )));
    };
    Ok((disk, at))
}

pub(in crate::cli) fn diff(args: &DiffArgs, out: &Report) -> Result<(), Failure> {
    if !Target::of(&args.from).path.is_empty() {
        return super::files::diff(args, out);
    }
    let (disk, from) = named(&args.from)?;
    let to = args.to.as_deref().map(named).transpose()?;
    if let Some((other, _)) = to.as_ref().filter(|(other, _)| !is_same(&disk, other)) {
        let (disk, other) = (disk.display(), other.display());
        return Err(Failure::Usage(format!("{disk} and {other} are two disks; name two epochs of one disk")));
    }
    let (mut from, mut to, mut start) = (from, to.map(|(_, at)| at), 0);
    let mut total = (0, 0);
    loop {
        let part: Diff = ask(&disk, &Call::Diff { from, to, start, ranges: vec![] })?;
        total = (total.0 + part.ranges.len(), total.1 + part.differing_bytes);
        out.differing(&part, total);
        let Some(next) = part.next else { return Ok(()) };
        // A time or a name may mean another epoch by now.
        (from, to, start) = (part.from.to_string(), part.to.map(|it| it.to_string()), next);
    }
}

pub(in crate::cli) fn restore(args: &RestoreArgs, out: &Report) -> Result<(), Failure> {
    if let Some(into) = &args.into {
        return super::files::bring_back(&args.target, into, &args.credential, out);
    }
    if let Some(path) = Some(Target::of(&args.target).path).filter(|path| !path.is_empty()) {
        return Err(Failure::Usage(format!(
            "restore: {path} names files; say with --into DIR where they are to go"
        )));
    }
    let (disk, at) = named(&args.target)?;
    if !consent::agreed(args.consent, out, || plan(&disk, &at))? {
        return Ok(());
    }
    let call = Call::Restore { at: at.clone() };
    let source = args.credential.source();
    let restored: Restored = with_bar(|step| {
        let mut is_interrupted = false;
        let mut step = |done, of| {
            is_interrupted = !step(done, of);
            !is_interrupted
        };
        let answer = control::ask_unlocked(&disk, &call, None, Some(&source), &mut step);
        answer.map_err(|refused| match is_interrupted {
            true => Failure::Interrupted(stopped(&disk, &at)),
            false => refused.into(),
        })
    })?;
    out.restored(&restored);
    Ok(())
}

/// What a restore would change.
fn plan(disk: &Path, at: &str) -> Result<Act, Failure> {
    let (mut from, mut start, mut sum) = (at.to_string(), 0, 0);
    loop {
        let part: Diff = ask(disk, &Call::Diff { from, to: None, start, ranges: vec![] })?;
        sum += part.differing_bytes;
        (from, start) = match part.next {
            Some(next) => (part.from.to_string(), next),
            None => {
                let text = format!(
                    "make the state of epoch {} the current one of {}: {} differ; the state before is kept as an epoch",
                    part.from,
                    disk.display(),
                    bytes(sum)
                );
                let plan = Plan::Restore { epoch: part.from, differing_bytes: sum };
                return Ok(Act { text, plan });
            }
        };
    }
}

/// The advice after a restore that was interrupted.
fn stopped(disk: &Path, at: &str) -> String {
    let status: Result<StatusAnswer, _> = control::ask(disk, &Call::Status, None, &mut |_, _| true);
    // The restore began with closing this epoch.
    let open = status.ok().and_then(|it| it.status.store.versions().map(|it| it.open_epoch));
    let before = open.map_or("EPOCH".into(), |open| (open - 1).to_string());
    let disk = disk.display();
    format!(
        "interrupted: {disk} is in part as {at} and in part as before; run `quietus restore {disk}@{at}` to go on, or \
         `quietus restore {disk}@{before}` to go back"
    )
}
