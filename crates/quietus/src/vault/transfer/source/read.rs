//! Readers: threads that read files, and cut, name and compress what they read. Each file has a channel of its own, on which its
//! parts wait until they are stored.

use crossbeam_channel::{Receiver, Sender, bounded};
use quietus_vault::chunk::{Compression, VaultKey};
use quietus_vault::client::{Chunk, Preparer};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Parts of a file that wait to be stored.
pub(super) const PARTS_MAX: usize = 2;

/// A part of a file.
pub(super) enum Part {
    /// Content, of about [`PIECE_BYTES`].
    Chunks(Vec<Chunk<'static>>),
    /// Zeros that take no space.
    Hole(u64),
    /// The end: what is known of the file then, or why there is no more of it.
    End(io::Result<fs::Metadata>),
}

/// The parts of a file, as they come.
pub(super) type Parts = Receiver<Part>;

/// A file to read.
pub(super) struct Order {
    path: PathBuf,
    /// The device and the number of the file.
    file: (u64, u64),
    parts: Sender<Part>,
}

/// An order, and what will come of it.
pub(super) fn order(path: &Path, about: &fs::Metadata) -> (Order, Parts) {
    let (parts, coming) = bounded(PARTS_MAX);
    (Order { path: path.into(), file: (about.dev(), about.ino()), parts }, coming)
}

/// The file is not wanted any more.
struct Unwanted;

/// A reader.
pub(super) struct Reader {
    preparer: Preparer,
    buffer: Vec<u8>,
    /// Whether most of the content that was stored last was new: then chunks are compressed here.
    finds_new: Arc<AtomicBool>,
}

impl Reader {
    pub(super) fn new(key: &VaultKey, compression: Compression, finds_new: Arc<AtomicBool>) -> Self {
        let preparer = Preparer::new(key, compression);
        Self { preparer, buffer: vec![0; PIECE_BYTES], finds_new }
    }

    /// Reads one file after another, as long as orders come.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        for order in orders {
            let end = match open(&order) {
                Ok(file) => self.content(&file, &order.parts),
                Err(error) => Ok(Err(error)),
            };
            if let Ok(end) = end {
                // A receiver that has gone away wants no end.
                let _ = order.parts.send(Part::End(end));
            }
        }
    }

    /// The content of a file, holes as holes; and what is known of the file afterwards. Its length is not believed: files of `/proc`
    /// and the like have content beyond it.
    fn content(&mut self, file: &File, parts: &Sender<Part>) -> Result<io::Result<fs::Metadata>, Unwanted> {
        let (mut rest, mut at) = (Vec::new(), 0);
        loop {
            let (data, hole) = match extent(file, at) {
                Ok(extent) => extent,
                // A file that cannot say where it ends is read from its beginning.
                Err(Errno::INVAL | Errno::SPIPE) if at == 0 => (0, 0),
                Err(error) => return Ok(Err(error.into())),
            };
            if data > at {
                self.cut(&mut rest, true, parts)?;
                parts.send(Part::Hole(data - at)).map_err(|_| Unwanted)?;
            }
            if data == hole {
                if let Err(error) = self.pieces(&mut rest, file, u64::MAX, parts)? {
                    return Ok(Err(error));
                }
                break;
            }
            match self.pieces(&mut rest, file, hole - data, parts)? {
                Ok(bytes) if bytes < hole - data => break,
                Ok(_) => at = hole,
                Err(error) => return Ok(Err(error)),
            }
        }
        self.cut(&mut rest, true, parts)?;
        Ok(file.metadata())
    }

    /// Reads the next `bytes` of a file, or fewer if it ends.
    fn pieces(
        &mut self,
        rest: &mut Vec<u8>,
        mut file: &File,
        bytes: u64,
        parts: &Sender<Part>,
    ) -> Result<io::Result<u64>, Unwanted> {
        let mut done = 0;
        while done < bytes {
            let length = (bytes - done).min(PIECE_BYTES as u64) as usize;
            match file.read(&mut self.buffer[..length]) {
                Ok(0) => break,
                Ok(read) => {
                    rest.extend(&self.buffer[..read]);
                    self.cut(rest, false, parts)?;
                    done += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(done))
    }

    fn cut(&mut self, rest: &mut Vec<u8>, is_end: bool, parts: &Sender<Part>) -> Result<(), Unwanted> {
        let chunks = self.preparer.cut(rest, is_end, self.finds_new.load(Ordering::Relaxed));
        if chunks.is_empty() { Ok(()) } else { parts.send(Part::Chunks(chunks)).map_err(|_| Unwanted) }
    }
}

fn open(order: &Order) -> io::Result<File> {
    // The file may be a pipe by now, and opening that would wait.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&order.path)?;
    let now = file.metadata()?;
    let is_same = (now.dev(), now.ino()) == order.file && now.is_file();
    if is_same { Ok(file) } else { Err(io::Error::other("it was replaced while it was read")) }
}

/// Where the next data of a file begins, from `at` on, and where it ends: both at the file's end if no data follows.
fn extent(file: &File, at: u64) -> Result<(u64, u64), Errno> {
    let end = rustix::fs::seek(file, SeekFrom::End(0))?;
    let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => data,
        Err(Errno::NXIO) => return Ok((end.max(at), end.max(at))),
        // A host that cannot tell has data everywhere.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => rustix::fs::seek(file, SeekFrom::Start(at))?,
        Err(error) => return Err(error),
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(end.max(data));
    rustix::fs::seek(file, SeekFrom::Start(data))?;
    Ok((data, hole))
}
