//! The entries of an archive, one after another, as v7, POSIX, GNU tar, star, libarchive, Python and Go write them.
//!
//! Invariants:
//! 1. What is not read to its end-of-archive marker (two blocks of zeros) is an error, and so is what is no header.
//! 2. The headers of one entry are in memory, and have a limit.

use crate::vault::transfer::tar::header::{BLOCK_BYTES, GID, Header, MODE, MTIME, SIZE, UID};
use crate::vault::transfer::tar::pax::{Extended, records};
use crate::vault::transfer::tar::sparse::{Ahead, Format, Map, RUNS_MAX, old_bytes, old_runs};
use quietus_core::base::zeros::is_zeros;
use std::io::{self, Read};

/// Most bytes of the headers of an entry: its name, the target of its link, its attributes.
const HEADERS_BYTES_MAX: u64 = 4 << 20;
/// Bytes that are skipped at once.
const SKIP_BYTES: usize = 64 << 10;
/// The first bytes of what programs have compressed, and the program that undoes it.
const COMPRESSED: [(&[u8], &str); 8] = [
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"LZIP", "lzip"),
    (b"\x89LZO", "lzop"),
    (b"\x1f\x9d", "uncompress"),
];

/// The kinds of entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    File,
    Folder,
    HardLink,
    SymbolicLink,
    CharacterDevice,
    BlockDevice,
    Pipe,
    /// An entry of a kind that this program does not know, by its letter.
    Unknown(char),
}

/// An entry.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) path: Vec<u8>,
    /// Target of a link.
    pub(super) link: Vec<u8>,
    pub(super) of: Of,
    pub(super) mode: u32,
    pub(super) user: i64,
    pub(super) group: i64,
    pub(super) modified_ns: i64,
    pub(super) device: (u32, u32),
    /// The content of a file, which comes next.
    pub(super) map: Map,
    pub(super) extended: Extended,
}

/// An archive that is being read.
pub(super) struct Reader<'i> {
    input: &'i mut dyn Read,
    /// Bytes that were read.
    at: u64,
    /// Bytes of content that come next, and of what fills up their last block.
    left: (u64, u64),
    global: Extended,
}

/// Names that come before a header, as GNU tar has them.
#[derive(Default)]
struct Before {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    records: Vec<u8>,
    bytes: u64,
}

impl Before {
    fn is_any(&self) -> bool {
        self.name.is_some() || self.link.is_some() || !self.records.is_empty()
    }
}

impl<'i> Reader<'i> {
    pub(super) fn new(input: &'i mut dyn Read) -> Reader<'i> {
        Reader { input, at: 0, left: (0, 0), global: Extended::default() }
    }

    /// The next entry; `None` at the end of the archive. What was not read of the last one is skipped.
    ///
    /// # Errors
    /// Of the input, and what is no archive.
    pub(super) fn next(&mut self) -> io::Result<Option<Member>> {
        let mut before = Before::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else {
                return match before.is_any() {
                    true => Err(self.damaged(self.at, "the headers of an entry, without the entry")),
                    false => Ok(None),
                };
            };
            let from = self.at;
            let size = self.non_negative(&header)?;
            before.bytes = before.bytes.saturating_add(BLOCK_BYTES as u64);
            match header.flag() {
                b'x' | b'X' => before.records = self.text(size, &mut before.bytes)?,
                b'g' => {
                    let text = self.text(size, &mut before.bytes)?;
                    let taken = take_all(&mut self.global, &text);
                    taken.map_err(|why| self.damaged(from, &why))?;
                    if self.global.is_of_one() {
                        return Err(self.damaged(from, "the extended header of all files has records of one"));
                    }
                }
                b'L' => before.name = Some(self.name(size, &mut before.bytes)?),
                b'K' => before.link = Some(self.name(size, &mut before.bytes)?),
                // The label of a volume, which is no file.
                b'V' => self.left = filled(0),
                b'M' => {
                    return Err(
                        self.damaged(from, "the rest of a file of an earlier volume; join the volumes first")
                    );
                }
                _ => return self.member(&header, before, from).map(Some),
            }
        }
    }

    /// Reads of the content of the entry; nothing at its end.
    ///
    /// # Errors
    /// Of the input; of an input that ends before.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = into.len().min(usize::try_from(self.left.0).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(0);
        }
        match self.some(&mut into[..length])? {
            0 => Err(self.cut_off("within a file")),
            read => {
                self.left.0 -= read as u64;
                Ok(read)
            }
        }
    }

    /// Reads what follows the end of the archive; whether that is more than zeros.
    ///
    /// # Errors
    /// Of the input.
    pub(super) fn has_more(&mut self) -> io::Result<bool> {
        let (mut buffer, mut has_more) = (vec![0; SKIP_BYTES], false);
        loop {
            match self.some(&mut buffer)? {
                0 => return Ok(has_more),
                read => has_more |= !is_zeros(&buffer[..read]),
            }
        }
    }

    /// The entry that a header begins.
    fn member(&mut self, header: &Header, before: Before, from: u64) -> io::Result<Member> {
        let mut extended = self.global.clone();
        let said = take_all(&mut extended, &before.records);
        said.map_err(|why| self.damaged(from, &why))?;
        let path = extended.sparse.name.take().or_else(|| extended.path.take()).or(before.name);
        let link = extended.link.take().or(before.link);
        let (path, link) = (path.unwrap_or_else(|| header.name()), link.unwrap_or_else(|| header.link()));
        let of = kind(header.flag(), &path);
        let size = match extended.size.map(u64::try_from) {
            Some(size) => size.map_err(|_| self.damaged(from, "a record `size` below zero"))?,
            None => self.non_negative(header)?,
        };
        // Of these, old programs write the size and no content.
        let has_content = matches!(of, Of::File | Of::Unknown(_)) || header.flag() == b'D';
        self.left = filled(if has_content { size } else { 0 });
        let map = match of {
            Of::File => self.map(header, &mut extended, from)?,
            _ => Map::whole(0),
        };
        let number = |field, said: Option<i64>| match said {
            Some(said) => Ok(said),
            None => header.number(field).map_err(|why| self.damaged(from, &why)),
        };
        Ok(Member {
            mode: number(&MODE, None)? as u32 & 0o7777,
            user: number(&UID, extended.user)?,
            group: number(&GID, extended.group)?,
            modified_ns: match extended.modified_ns {
                Some(time) => time,
                None => number(&MTIME, None)?.saturating_mul(1_000_000_000),
            },
            device: match of {
                Of::CharacterDevice | Of::BlockDevice => {
                    header.device().map_err(|why| self.damaged(from, &why))?
                }
                _ => (0, 0),
            },
            path,
            link,
            of,
            map,
            extended,
        })
    }

    /// The content of a file, where it has holes. What comes before the content is read.
    fn map(&mut self, header: &Header, extended: &mut Extended, from: u64) -> io::Result<Map> {
        let (bytes, runs) = if header.flag() == b'S' {
            let bytes = old_bytes(&header.0).map_err(|why| self.damaged(from, &why))?;
            (bytes, self.old_map(header, from)?)
        } else {
            match extended.sparse.format().map_err(|why| self.damaged(from, &why))? {
                None => return Ok(Map::whole(self.left.0)),
                Some(Format::Known(bytes, runs)) => (bytes, runs),
                Some(Format::Ahead(bytes)) => (bytes, self.map_ahead(from)?),
            }
        };
        Map::new(bytes, runs, self.left.0).map_err(|why| self.damaged(from, &why))
    }

    fn old_map(&mut self, header: &Header, from: u64) -> io::Result<Vec<(u64, u64)>> {
        let (mut runs, mut more) = old_runs(&header.0, true).map_err(|why| self.damaged(from, &why))?;
        while more {
            let mut block = [0; BLOCK_BYTES];
            self.whole(&mut block)?;
            let (next, is_more) = old_runs(&block, false).map_err(|why| self.damaged(from, &why))?;
            runs.extend(next);
            more = is_more;
            if runs.len() > RUNS_MAX {
                let why = format!("the map of a sparse file has more than {RUNS_MAX} runs");
                return Err(self.damaged(from, &why));
            }
        }
        Ok(runs)
    }

    fn map_ahead(&mut self, from: u64) -> io::Result<Vec<(u64, u64)>> {
        let mut ahead = Ahead::default();
        loop {
            let mut block = [0; BLOCK_BYTES];
            let Some(left) = self.left.0.checked_sub(BLOCK_BYTES as u64) else {
                return Err(self.damaged(from, "the map of a sparse file has no end"));
            };
            self.whole(&mut block)?;
            self.left.0 = left;
            if ahead.take(&block).map_err(|why| self.damaged(from, &why))? {
                return Ok(ahead.runs);
            }
        }
    }

    /// The next header; `None` at the end of the archive.
    fn header(&mut self) -> io::Result<Option<Header>> {
        let (mut block, from) = ([0; BLOCK_BYTES], self.at);
        let read = self.up_to(&mut block)?;
        if from == 0
            && let Some((_, tool)) = COMPRESSED.iter().find(|(magic, _)| block[..read].starts_with(magic))
        {
            let what = format!("compressed with {tool}; pipe it through `{tool} -dc` into `--tar -`");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if read < BLOCK_BYTES {
            return Err(self.cut_off("without an end-of-archive marker"));
        }
        let header = Header(block);
        if !is_zeros(&block) {
            return if header.is_whole() { Ok(Some(header)) } else { Err(self.no_header(from)) };
        }
        self.whole(&mut block)?;
        if is_zeros(&block) { Ok(None) } else { Err(self.no_header(from)) }
    }

    fn no_header(&self, from: u64) -> io::Error {
        match from {
            0 => self.damaged(
                from,
                "not a tar archive: the first block is not a header; name an archive that `tar` has written",
            ),
            _ => self.damaged(from, "damaged: a header is missing; create the archive again"),
        }
    }

    /// The text of an extended header.
    fn text(&mut self, size: u64, bytes: &mut u64) -> io::Result<Vec<u8>> {
        *bytes = bytes.saturating_add(size);
        if *bytes > HEADERS_BYTES_MAX {
            let what = format!(
                "the headers of an entry have more than {HEADERS_BYTES_MAX} bytes; leave its attributes out"
            );
            return Err(self.damaged(self.at, &what));
        }
        self.left = filled(size);
        let mut text = Vec::new();
        let mut piece = [0; BLOCK_BYTES];
        // Memory is taken for what comes, not for what is said to come.
        loop {
            match self.read(&mut piece)? {
                0 => return Ok(text),
                read => text.extend(&piece[..read]),
            }
        }
    }

    /// A name, which ends with a zero byte.
    fn name(&mut self, size: u64, bytes: &mut u64) -> io::Result<Vec<u8>> {
        let mut name = self.text(size, bytes)?;
        while name.pop_if(|byte| *byte == 0).is_some() {}
        Ok(name)
    }

    fn non_negative(&self, header: &Header) -> io::Result<u64> {
        let size = header.number(&SIZE).map_err(|why| self.damaged(self.at, &why))?;
        u64::try_from(size).map_err(|_| self.damaged(self.at, &format!("the field `size` is {size}")))
    }

    /// Reads what is left of the entry.
    fn skip(&mut self) -> io::Result<()> {
        if self.left == (0, 0) {
            return Ok(());
        }
        let mut buffer = vec![0; SKIP_BYTES];
        while self.read(&mut buffer)? > 0 {}
        let padding = std::mem::take(&mut self.left.1) as usize;
        self.whole(&mut buffer[..padding])
    }

    fn whole(&mut self, into: &mut [u8]) -> io::Result<()> {
        if self.up_to(into)? == into.len() {
            Ok(())
        } else {
            Err(self.cut_off("without an end-of-archive marker"))
        }
    }

    /// Fills the buffer as far as the input has something.
    fn up_to(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.some(&mut into[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    fn some(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.input.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let read = read?;
                    self.at += read as u64;
                    return Ok(read);
                }
            }
        }
    }

    fn cut_off(&self, how: &str) -> io::Error {
        let what = match self.at {
            0 => "empty; if a command writes the archive, check whether that command failed".into(),
            at => format!(
                "cut off after {at} bytes, {how}; if a command writes the archive, check whether that command failed"
            ),
        };
        io::Error::new(io::ErrorKind::UnexpectedEof, what)
    }

    /// An error in what begins at a header's end.
    fn damaged(&self, at: u64, why: &str) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, format!("at byte {at}: {why}"))
    }
}

fn take_all(extended: &mut Extended, text: &[u8]) -> Result<(), String> {
    records(text)?.into_iter().try_for_each(|(keyword, value)| extended.take(keyword, value))
}

/// Bytes of content, and of what fills up their last block.
fn filled(size: u64) -> (u64, u64) {
    let over = size % BLOCK_BYTES as u64;
    (size, if over == 0 { 0 } else { BLOCK_BYTES as u64 - over })
}

fn kind(flag: u8, path: &[u8]) -> Of {
    match flag {
        // The oldest programs know folders by the slash alone.
        0 | b'0' | b'7' if path.ends_with(b"/") => Of::Folder,
        0 | b'0' | b'7' | b'S' => Of::File,
        b'1' => Of::HardLink,
        b'2' => Of::SymbolicLink,
        b'3' => Of::CharacterDevice,
        b'4' => Of::BlockDevice,
        b'5' | b'D' => Of::Folder,
        b'6' => Of::Pipe,
        other => Of::Unknown(char::from(other)),
    }
}
