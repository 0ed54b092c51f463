//! The directory of a log's files: the seam at which tests let a host be full or crash.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

/// A directory with the files of a log.
pub trait Directory {
    /// An open file.
    type File: LogFile;
    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Opens a file to be read.
    fn read(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file to be read and appended to, or makes it.
    fn write(&self, name: &str) -> io::Result<Self::File>;
    /// Whether `file` is the one that `name` names.
    ///
    /// # Errors
    /// Errors of the host; a missing file is no error.
    fn is_at(&self, file: &Self::File, name: &str) -> io::Result<bool>;
    /// Gives a file another name, which is free.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names durable.
    fn sync(&self) -> io::Result<()>;
}

/// A file of a log.
pub trait LogFile {
    /// Length in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Reads from byte `at` on; fewer bytes than fit only at the end.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes at the end. After an error a part may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts everything from byte `bytes` on off.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;
    /// Makes the content durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A directory of the host.
#[derive(Clone, Debug)]
pub struct HostDirectory(pub PathBuf);

impl Directory for HostDirectory {
    type File = File;

    fn names(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn read(&self, name: &str) -> io::Result<File> {
        File::open(self.0.join(name))
    }

    fn write(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(self.0.join(name))
    }

    fn is_at(&self, file: &File, name: &str) -> io::Result<bool> {
        let (ours, there) = (file.metadata()?, std::fs::metadata(self.0.join(name)));
        match there {
            Ok(there) => Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.0.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
}

impl LogFile for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match FileExt::read_at(self, &mut into[done..], at + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
