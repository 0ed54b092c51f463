//! A snapshot, written as an archive of POSIX with extended headers (*pax*), as GNU tar, libarchive, Python and Go read it.
//!
//! Files with holes have GNU tar's format 1.0.

use crate::host::entries::DEPTH_MAX;
use crate::vault::transfer::restore::{Going, Restored, Selection, Wanted, zeros};
use crate::vault::transfer::tar::header::{
    BLOCK_BYTES, DEVMAJOR, DEVMINOR, GID, Header, MODE, MTIME, NAME_BYTES_MAX, SIZE, UID,
};
use crate::vault::transfer::tar::pax::{push_attribute, push_record, seconds};
use crate::vault::transfer::tar::sparse::{RUNS_MAX, Run};
use crate::vault::{Error, Step};
use quietus_vault::client::{Access, expect_files, joined, read_file, read_folder, read_snapshot};
use quietus_vault::tree::{Kind, Metadata, Node, Recipe};
use quietus_vault::{SnapshotId, VaultError};
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const SECOND_NS: i64 = 1_000_000_000;
/// Largest numbers of 7 and of 11 octal digits.
const OCTAL_7_MAX: i64 = 0o7_777_777;
const OCTAL_11_MAX: i64 = 0o77_777_777_777;
/// Mode of an extended header, which old programs take for a file.
const EXTENDED_MODE: i64 = 0o644;

/// Writes the snapshot, or only `paths` of it, as an archive to `out`, which messages call `path`.
///
/// # Errors
/// [`Error`]: the vault, a path that the snapshot does not have, or `out`. The archive has no end then.
pub(super) fn write_tar(
    vault: &mut dyn Access,
    snapshot: SnapshotId,
    (out, path): (&mut dyn Write, &Path),
    paths: &[PathBuf],
    step: Step<'_>,
) -> Result<Restored, Error> {
    let (top, wanted) = (read_snapshot(vault, snapshot)?, Selection::new(paths)?);
    let of = wanted.bytes(vault, &top)?;
    let written = Restored { snapshot: snapshot.0, into: path.into(), ..Restored::default() };
    let going = Going { step, done: 0, of };
    let mut task = Writing { vault, wanted, out, path, links: HashMap::new(), written, going };
    if let Some(own) = top.top.filter(|_| task.wanted.is_all()) {
        task.header(b"./", &own, Entry::plain(b'5'))?;
    }
    task.folder(&top.folder, b"", 0)?;
    // The end-of-archive marker.
    task.zeros(2 * BLOCK_BYTES as u64)?;
    task.out.flush().map_err(|error| task.unwritten(error))?;
    Ok(task.written)
}

/// What a header says besides a file's attributes.
struct Entry<'e> {
    flag: u8,
    /// Target of a link.
    link: &'e [u8],
    /// Bytes of content behind it.
    stored: u64,
    device: (u32, u32),
    /// Bytes of a file with holes.
    real: Option<u64>,
}

impl Entry<'_> {
    /// An entry without content.
    fn plain(flag: u8) -> Entry<'static> {
        Entry { flag, link: b"", stored: 0, device: (0, 0), real: None }
    }
}

/// An archive that is being written.
struct Writing<'v, 'a> {
    vault: &'v mut dyn Access,
    wanted: Selection,
    out: &'v mut dyn Write,
    path: &'v Path,
    /// The first name of each file with several.
    links: HashMap<u64, Vec<u8>>,
    written: Restored,
    going: Going<'a>,
}

impl Writing<'_, '_> {
    fn folder(&mut self, folder: &Recipe, path: &[u8], depth: usize) -> Result<(), Error> {
        let mut nodes = read_folder(self.vault, folder)?;
        nodes.retain(|node| self.wanted.of(&joined(path, &node.name)) != Wanted::Not);
        let files = nodes.iter().filter_map(|node| match &node.kind {
            Kind::File(recipe) => Some(recipe),
            _ => None,
        });
        expect_files(self.vault, files);
        for node in &nodes {
            let inside = joined(path, &node.name);
            match &node.kind {
                _ if !node.has_good_name() => self.leave_out(&inside, "such a name leads elsewhere"),
                Kind::Folder(_) if depth >= DEPTH_MAX => self.leave_out(&inside, "too many folders above it"),
                Kind::Folder(below) => {
                    self.written.folders += 1;
                    self.header(&[&inside[..], b"/"].concat(), &node.metadata, Entry::plain(b'5'))?;
                    self.folder(below, &inside, depth + 1)?;
                }
                Kind::Socket => self.leave_out(&inside, "a socket, which an archive cannot hold"),
                _ => self.entry(node, &inside)?,
            }
        }
        Ok(())
    }

    /// Writes an entry that is no folder.
    fn entry(&mut self, node: &Node, path: &[u8]) -> Result<(), Error> {
        self.going.on(0)?;
        self.written.files += 1;
        if let Some(number) = node.metadata.hard_link {
            if let Some(first) = self.links.get(&number).cloned() {
                if let Kind::File(recipe) = &node.kind {
                    self.written.bytes += recipe.bytes();
                    self.going.on(recipe.bytes())?;
                }
                return self.header(path, &node.metadata, Entry { link: &first, ..Entry::plain(b'1') });
            }
            self.links.insert(number, path.into());
        }
        let device = |flag, major, minor| Entry { device: (major, minor), ..Entry::plain(flag) };
        let entry = match &node.kind {
            Kind::File(recipe) => return self.file(path, &node.metadata, recipe),
            Kind::Link(target) => Entry { link: target, ..Entry::plain(b'2') },
            Kind::CharacterDevice(major, minor) => device(b'3', *major, *minor),
            Kind::BlockDevice(major, minor) => device(b'4', *major, *minor),
            Kind::Pipe => Entry::plain(b'6'),
            Kind::Folder(_) | Kind::Socket => unreachable!("the caller has taken these"),
        };
        self.header(path, &node.metadata, entry)
    }

    fn file(&mut self, path: &[u8], metadata: &Metadata, recipe: &Recipe) -> Result<(), Error> {
        let bytes = recipe.bytes();
        if i64::try_from(bytes).is_err() {
            self.leave_out(path, "longer than any file");
            return Ok(());
        }
        let mut runs = self.runs(path, recipe)?;
        let has_holes = runs.iter().map(|(_, length)| length).sum::<u64>() < bytes;
        let mut map = String::new();
        if has_holes {
            // GNU tar has the end of the file, too, where that is a hole.
            let is_hole = runs.last().is_none_or(|(start, length)| start + length < bytes);
            let end = is_hole.then_some((bytes, 0));
            map = format!("{}\n", runs.len() + usize::from(is_hole));
            for (start, length) in runs.iter().copied().chain(end) {
                map += &format!("{start}\n{length}\n");
            }
        }
        let map_bytes = (map.len() as u64).next_multiple_of(BLOCK_BYTES as u64);
        let content: u64 = runs.iter().map(|(_, length)| length).sum();
        let stored = map_bytes + content;
        let real = has_holes.then_some(bytes);
        self.header(path, metadata, Entry { stored, real, ..Entry::plain(b'0') })?;
        self.write(map.as_bytes())?;
        self.zeros(map_bytes - map.len() as u64)?;
        // The next run comes last.
        runs.reverse();
        self.content(recipe, &mut runs)?;
        self.zeros(content.next_multiple_of(BLOCK_BYTES as u64) - content)?;
        self.written.bytes += bytes;
        Ok(())
    }

    /// The runs of a file's content. They begin at whole blocks, and all but the last end there: programs differ on others.
    fn runs(&mut self, path: &[u8], recipe: &Recipe) -> Result<Vec<Run>, Error> {
        const BLOCK: u64 = BLOCK_BYTES as u64;
        let (mut runs, mut at, bytes) = (Vec::<Run>::new(), 0_u64, recipe.bytes());
        let mut spans = recipe.cursor().map_err(VaultError::from)?;
        while let Some(span) = spans.next(&mut |chunk| self.vault.get(chunk))? {
            let end = at.saturating_add(span.bytes);
            if span.reference().is_some() && span.bytes > 0 {
                let (from, to) =
                    (at - at % BLOCK, end.checked_next_multiple_of(BLOCK).unwrap_or(end).min(bytes));
                match runs.last_mut() {
                    Some((start, length)) if *start + *length >= from => *length = to - *start,
                    _ => runs.push((from, to - from)),
                }
            }
            if runs.len() > RUNS_MAX {
                let (path, what) = (String::from_utf8_lossy(path), "runs of content between its holes");
                return Err(Error::Invalid(format!(
                    "{path}: has more than {RUNS_MAX} {what}, which an archive cannot hold; restore it with --into"
                )));
            }
            at = end;
        }
        Ok(runs)
    }

    /// Writes what the runs have of a file; the next run is the last one of the list.
    fn content(&mut self, recipe: &Recipe, runs: &mut Vec<Run>) -> Result<(), Error> {
        let (out, path, going, mut at) = (&mut *self.out, self.path, &mut self.going, 0);
        read_file::<Error>(self.vault, recipe, &mut |bytes, content| {
            let end = at + bytes;
            while let Some((start, length)) = runs.last().copied().filter(|(start, _)| *start < end) {
                let (from, to) = (start.max(at), (start + length).min(end));
                let written = match content {
                    Some(content) => out.write_all(&content[(from - at) as usize..(to - at) as usize]),
                    None => zeros(out, to.saturating_sub(from)),
                };
                written.map_err(|error| Error::io("write it", path, error))?;
                if start + length > end {
                    break;
                }
                runs.pop();
            }
            at = end;
            going.on(bytes)
        })
    }

    /// Writes the header of an entry, and before it an extended one of what that cannot have.
    fn header(&mut self, path: &[u8], metadata: &Metadata, entry: Entry<'_>) -> Result<(), Error> {
        let (mut header, mut text) = (Header::new(entry.flag), Vec::new());
        let seconds_of = metadata.modified_ns.div_euclid(SECOND_NS);
        let stored = i64::try_from(entry.stored).unwrap_or(i64::MAX);
        for (field, number) in [
            (&MODE, i64::from(metadata.mode)),
            (&UID, metadata.user.into()),
            (&GID, metadata.group.into()),
            (&SIZE, stored),
            (&MTIME, seconds_of),
            (&DEVMAJOR, entry.device.0.into()),
            (&DEVMINOR, entry.device.1.into()),
        ] {
            header.set_number(field, number);
        }
        match entry.real {
            None => set_path(&mut text, "path", path, |name| header.set_name(name)),
            Some(real) => {
                header.set_name(&[b"GNUSparseFile.0/", last_part(path)].concat());
                push_record(&mut text, b"GNU.sparse.major", b"1");
                push_record(&mut text, b"GNU.sparse.minor", b"0");
                push_record(&mut text, b"GNU.sparse.name", path);
                push_record(&mut text, b"GNU.sparse.realsize", real.to_string().as_bytes());
            }
        }
        set_path(&mut text, "linkpath", entry.link, |link| header.set_link(link));
        for (keyword, number, most) in [
            ("uid", i64::from(metadata.user), OCTAL_7_MAX),
            ("gid", metadata.group.into(), OCTAL_7_MAX),
            ("size", stored, OCTAL_11_MAX),
        ] {
            if number > most {
                push_record(&mut text, keyword.as_bytes(), number.to_string().as_bytes());
            }
        }
        if metadata.modified_ns % SECOND_NS != 0 || !(0..=OCTAL_11_MAX).contains(&seconds_of) {
            push_record(&mut text, b"mtime", seconds(metadata.modified_ns).as_bytes());
        }
        if entry.flag != b'1' {
            metadata.attributes.iter().for_each(|(name, value)| push_attribute(&mut text, name, value));
        }
        if !text.is_empty() {
            self.extended(last_part(path), &text)?;
        }
        self.write(&header.finished())
    }

    fn extended(&mut self, name: &[u8], text: &[u8]) -> Result<(), Error> {
        let mut header = Header::new(b'x');
        header.set_name(&[b"PaxHeaders/", name].concat());
        header.set_number(&MODE, EXTENDED_MODE);
        [&UID, &GID, &MTIME, &DEVMAJOR, &DEVMINOR].into_iter().for_each(|field| header.set_number(field, 0));
        header.set_number(&SIZE, text.len() as i64);
        self.write(&header.finished())?;
        self.write(text)?;
        self.zeros((text.len().next_multiple_of(BLOCK_BYTES) - text.len()) as u64)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(|error| self.unwritten(error))
    }

    fn zeros(&mut self, bytes: u64) -> Result<(), Error> {
        zeros(self.out, bytes).map_err(|error| self.unwritten(error))
    }

    fn unwritten(&self, error: io::Error) -> Error {
        Error::io("write it", self.path, error)
    }

    fn leave_out(&mut self, path: &[u8], why: &str) {
        tracing::warn!("left out of the archive: {}: {why}", String::from_utf8_lossy(path));
        self.written.refused.note(path, &why);
    }
}

/// Gives the header a path, and an extended one if it is too long or has letters that programs read in one encoding only.
fn set_path(text: &mut Vec<u8>, keyword: &str, path: &[u8], set: impl FnOnce(&[u8])) {
    let is_text = std::str::from_utf8(path).is_ok();
    if path.len() <= NAME_BYTES_MAX && (path.is_ascii() || !is_text) {
        return set(path);
    }
    if !is_text {
        push_record(text, b"hdrcharset", b"BINARY");
    }
    push_record(text, keyword.as_bytes(), path);
    let ascii = |byte: &u8| if byte.is_ascii() { *byte } else { b'_' };
    set(&path.iter().map(ascii).collect::<Vec<u8>>());
}

/// The last part of a path, in letters that every program reads.
fn last_part(path: &[u8]) -> &[u8] {
    let part =
        path.strip_suffix(b"/").unwrap_or(path).rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if part.is_ascii() { part } else { b"entry" }
}
