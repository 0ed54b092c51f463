//! Reports about files in the states of a disk.

use super::epochs::{destroyed, shown_by};
use super::{Report, bytes};
use crate::base::refused_paths::RefusedPaths;
use crate::cli::output::Output;
use crate::files::{
    BroughtBack, FileChange, FileDifference, FileHistory, FileVersion, FilesCompared, FilesForgotten,
    FilesWeighed, Found, FoundFile, Unreadable,
};
use quietus_core::base::units::BLOCK_BYTES;
use std::fmt::{self, Write};
use std::path::Path;

impl Report {
    pub(crate) fn history(&self, it: &FileHistory) {
        self.say(it, |out| {
            it.versions.iter().try_for_each(|it| version(out, it))?;
            it.unreadable.iter().try_for_each(|it| {
                let state = it.epoch.map_or("the current state".into(), |epoch| format!("epoch {epoch}"));
                writeln!(out, "{state} cannot be read: {}", it.why)
            })
        });
    }

    /// What `it` tells of is mounted at `at`.
    pub(crate) fn mounted(&self, it: &impl Output, at: &Path) {
        self.say(it, |out| {
            let at = at.display();
            write!(out, "mounted at {at}; Ctrl-C unmounts it, or `fusermount3 -u {at}`")
        });
    }

    pub(crate) fn file_difference(&self, it: &FileDifference) {
        self.say(it, |out| {
            let sign = match it.change {
                FileChange::Added => '+',
                FileChange::Removed => '-',
                FileChange::Changed => 'M',
            };
            write!(out, "{sign} {}", it.path)
        });
    }

    pub(crate) fn files_compared(&self, it: &FilesCompared) {
        self.say(it, |out| {
            writeln!(out, "{} added, {} removed, {} changed", it.added, it.removed, it.changed)?;
            refused(out, &it.refused)
        });
    }

    pub(crate) fn brought_back(&self, it: &BroughtBack) {
        self.say(it, |out| {
            let (files, folders, size) = (it.files, it.folders, bytes(it.bytes));
            writeln!(
                out,
                "{}: {files} files and {folders} folders brought back into {}, {size}",
                it.target, it.into
            )?;
            if it.needs_root > 0 {
                writeln!(
                    out,
                    "{} did not get their owner, or what else only root sets; run this as root",
                    it.needs_root
                )?;
            }
            refused(out, &it.refused)
        });
    }

    pub(crate) fn found_file(&self, it: &FoundFile) {
        self.say(it, |out| {
            let epochs = match (it.from, it.to) {
                (None, _) => "now".into(),
                (Some(from), None) => format!("{from} to now"),
                (Some(from), Some(to)) if from == to => from.to_string(),
                (Some(from), Some(to)) => format!("{from} to {to}"),
            };
            let modified = it.modified.as_deref().map_or("", seconds);
            write!(out, "{epochs:>12}  {:>12}  {modified:<20}  {}", it.bytes, it.path)
        });
    }

    /// Reports what a forget of files would destroy.
    pub(crate) fn files_weighed(&self, it: &FilesWeighed) {
        self.say(it, |out| {
            writeln!(out, "{}: {}: nothing was changed", it.forget, files(it.files))?;
            let shown = shown_by(it.shown_by);
            writeln!(
                out,
                "dies   {:>12}  in {} versions of blocks; {shown}",
                bytes(it.dies_bytes),
                it.dies_blocks
            )?;
            stays(out, it)?;
            it.held.as_ref().map_or(Ok(()), |held| writeln!(out, "refused: {held}"))
        });
    }

    /// Reports a forget of files.
    pub(crate) fn files_forgotten(&self, it: &FilesForgotten) {
        self.say(it, |out| {
            let FilesForgotten { weighed, sets, done } = it;
            let (name, files, dies) = (&weighed.forget, files(weighed.files), bytes(weighed.dies_bytes));
            if sets.is_empty() {
                writeln!(out, "{name}: {files}: no epoch shows content that can be forgotten")?;
            } else {
                let sets: Vec<_> = sets.iter().map(ToString::to_string).collect();
                let (is, sets) = (destroyed(*done), sets.join(", "));
                writeln!(
                    out,
                    "{name}: {files}: forgotten; {dies} of content {is} (set {sets} in the audit log)"
                )?;
            }
            stays(out, weighed)
        });
    }

    pub(crate) fn searched_files(&self, it: &Found) {
        self.say(it, |out| {
            writeln!(out, "{} found", it.files)?;
            refused(out, &it.refused)
        });
    }
}

fn files(count: u64) -> String {
    if count == 1 { "1 file".into() } else { format!("{count} files") }
}

/// What stays of files that are forgotten, and why.
fn stays(out: &mut String, it: &FilesWeighed) -> fmt::Result {
    let stays = &it.stays;
    let lines = [
        (
            stays.current_blocks,
            "which the current state shows, too: delete the files in the guest, and repeat",
        ),
        (stays.others_blocks, "in blocks that another file or the file system has, too, or a part of them"),
        (stays.unmeant_blocks, "which epochs that are not meant show, too"),
        (stays.unknown_blocks, "which epochs show, too, that are not understood"),
    ];
    for (blocks, why) in lines.into_iter().filter(|(blocks, _)| *blocks > 0) {
        writeln!(out, "stays  {:>12}  {why}", bytes(blocks * BLOCK_BYTES))?;
    }
    if stays.inline_files > 0 {
        writeln!(out, "stays  {:>12}  with content within their metadata", files(stays.inline_files))?;
    }
    if it.unnamed_blocks > 0 {
        let unnamed = bytes(it.unnamed_blocks * BLOCK_BYTES);
        writeln!(
            out,
            "of it  {unnamed:>12}  set aside for the files, or behind their ends: one reader says so"
        )?;
    }
    if stays.log_copies > 0 {
        writeln!(
            out,
            "stays  {:>12}  copies of such blocks in the log of the file system",
            stays.log_copies
        )?;
    }
    if stays.log_unsearched_bytes > 0 {
        let unsearched = bytes(stays.log_unsearched_bytes);
        writeln!(out, "stays  {unsearched:>12}  of the log of the file system were not searched for copies")?;
    }
    writeln!(out, "stays  names, sizes and times: the epochs go on to list the files")?;
    for Unreadable { epoch, why } in &stays.not_understood {
        let state = epoch.map_or("the current state".into(), |epoch| format!("epoch {epoch}"));
        writeln!(out, "{state} is not understood: {why}")?;
    }
    refused(out, &it.refused)
}

/// The paths that were refused, and how many more there are.
fn refused(out: &mut String, it: &RefusedPaths) -> fmt::Result {
    it.named.iter().try_for_each(|why| writeln!(out, "failed: {why}"))?;
    match it.unnamed() {
        0 => Ok(()),
        more => writeln!(out, "… and {more} more"),
    }
}

/// The text of a time without parts of its second.
fn seconds(time: &str) -> &str {
    time.split_once('.').map_or(time, |(seconds, _)| seconds)
}

fn version(out: &mut String, it: &FileVersion) -> fmt::Result {
    let from = match (it.from, &it.closed) {
        (None, _) => "now".into(),
        (Some(from), None) => format!("({from})"),
        (Some(from), Some(closed)) => format!("{} ({from})", seconds(closed)),
    };
    let to = match (it.from, it.to) {
        (None, _) => String::new(),
        (Some(_), None) => "to now".into(),
        (Some(from), Some(to)) if from == to => String::new(),
        (Some(_), Some(to)) => format!("to ({to})"),
    };
    let changed = match it.changed_bytes {
        all if all >= it.bytes => "all".into(),
        some => bytes(some),
    };
    let names = it.links.filter(|links| *links != 1).map_or_else(String::new, |it| format!("  {it} names"));
    writeln!(out, "{:>4}  {from:<28} {to:<12} {:>14}  changed {changed}{names}", it.version, it.bytes)
}
