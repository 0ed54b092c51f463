//! The commands about states of the past.

use super::args::DiffArgs;
use super::epochs::split;
use super::report::Report;
use super::{Failure, ask};
use crate::control::{Call, Diff};
use std::path::{Path, PathBuf};

/// A disk, and the epoch that is named behind it.
fn named(target: &Path) -> Result<(PathBuf, String), Failure> {
    match split(target) {
        (disk, Some(at)) => Ok((disk, at)),
        (disk, None) => {
            let text = disk.display();
            Err(Failure::Error(format!(
                "{text} names no epoch; use {text}@17, {text}@NAME or {text}@2026-11-20T10:00"
            )))
        }
    }
}

pub(super) fn diff(args: &DiffArgs, out: &Report) -> Result<(), Failure> {
    let (disk, from) = named(&args.from)?;
    let to = args.to.as_deref().map(named).transpose()?;
    if let Some((other, _)) = to.as_ref().filter(|(other, _)| !is_same(&disk, other)) {
        let (disk, other) = (disk.display(), other.display());
        return Err(Failure::Error(format!("{disk} and {other} are two disks; name two epochs of one disk")));
    }
    let (mut from, mut to, mut start) = (from, to.map(|(_, at)| at), 0);
    let mut total = (0, 0);
    loop {
        let part: Diff = serde_json::from_value(ask(&disk, &Call::Diff { from, to, start })?)?;
        total = (total.0 + part.ranges.len(), total.1 + part.differing_bytes);
        out.differing(&part, total);
        let Some(next) = part.next else { return Ok(()) };
        // A time or a name may mean another epoch by now.
        (from, to, start) = (part.from.to_string(), part.to.map(|it| it.to_string()), next);
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let known = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
    known(one) == known(other)
}
