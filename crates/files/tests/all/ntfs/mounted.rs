//! What only a mount can make: folders, links, holes, fragments, compression. Skipped where FUSE cannot be used.

use super::{content, empty, open};
use crate::image::Image;
use crate::tool::{run, worked};
use crate::tree::{at, names, runs, whole};
use quietus_files::{Error, Kind, path};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Files of the large folder.
const MANY: usize = 3000;
/// Pieces of the file in fragments, and bytes from one to the next.
const PIECES: u64 = 1500;
const STEP_BYTES: u64 = 8192;

/// A mount by ntfs-3g.
struct Mount<'a> {
    folder: &'a Path,
    driver: Child,
}

impl<'a> Mount<'a> {
    /// `None`, with a message, where this host does not let FUSE be tested.
    fn new(image: &str, folder: &'a Path) -> Option<Self> {
        let options = "no_detach,streams_interface=windows,special_files=wsl";
        let mut command = Command::new("ntfs-3g");
        command.args(["-o", options, image]).arg(folder).stdout(Stdio::null()).stderr(Stdio::null());
        let mut driver = command.spawn().unwrap();
        let is_mounted = || {
            let device = |path: &Path| fs::metadata(path).map(|it| it.dev()).ok();
            device(folder) != device(folder.parent().unwrap())
        };
        let began = Instant::now();
        while !is_mounted() {
            if driver.try_wait().unwrap().is_some() || began.elapsed() > Duration::from_secs(60) {
                let _ = driver.kill();
                eprintln!("SKIPPED: ntfs-3g cannot mount");
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(Self { folder, driver })
    }
}

/// Unmounts, and waits until all is written. In the end the mount is taken away without waiting for those who use it: the driver ends in any
/// case.
impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let unmount = |how| Command::new("fusermount3").arg(how).arg(self.folder).status();
        let began = Instant::now();
        // A process that another thread starts has the files of this one open until its own program runs: the mount is busy.
        while !unmount("-u").is_ok_and(|it| it.success()) && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = unmount("-uzq");
        let _ = self.driver.wait();
    }
}

/// Sets an attribute of ntfs-3g's own.
pub fn set(path: &Path, name: &str, value: &str) {
    run("setfattr", &["-h", "-n", &format!("system.ntfs_{name}"), "-v", value, path.to_str().unwrap()], "");
}

/// A volume in which `fill` made files through a mount.
pub fn mounted(name: &str, cluster: &str, fill: impl FnOnce(&Path)) -> Option<Image> {
    let mut image = empty(name, 64, cluster, "512");
    let folder = crate::tool::path(&format!("{name}.folder"));
    fs::create_dir_all(&folder).unwrap();
    let is_filled = worked(&format!("{name}.mounted"), &mut image, |path| {
        let _mount = Mount::new(path, &folder)?;
        fill(&folder);
        Some(())
    });
    fs::remove_dir(&folder).unwrap();
    is_filled.map(|()| image)
}

/// Fills a folder, and deletes some of its files, so that blocks of its index are partly used.
fn fill_many(many: &Path) {
    fs::create_dir_all(many.join("below")).unwrap();
    for n in 0..MANY {
        fs::write(many.join(format!("file number {n}")), n.to_string()).unwrap();
    }
    let gone = (0..MANY).filter(|n| n % 7 == 0);
    gone.for_each(|n| fs::remove_file(many.join(format!("file number {n}"))).unwrap());
}

/// Makes a file of which one record does not hold the runs.
pub fn fill_fragments(file: &Path, bytes: &[u8]) {
    let fragments = fs::File::create(file).unwrap();
    for n in 0..PIECES {
        fragments.write_all_at(&bytes[n as usize * 16..][..16], n * STEP_BYTES).unwrap();
    }
    fragments.set_len((PIECES + 10) * STEP_BYTES).unwrap();
}

/// Makes two files of several records each, beside what links and streams need.
pub fn fill_all(folder: &Path) {
    fs::write(folder.join("first"), b"content").unwrap();
    let bytes = content(4, 16 * PIECES as usize);
    ["a", "b"].iter().for_each(|name| fill_fragments(&folder.join(name), &bytes));
    fs::write(folder.join("a:stream"), b"beside").unwrap();
    for n in 0..12 {
        fs::hard_link(folder.join("b"), folder.join(format!("another name {n}"))).unwrap();
    }
    symlink("a", folder.join("link")).unwrap();
    fs::create_dir(folder.join("below")).unwrap();
    fs::write(folder.join("below/file"), b"").unwrap();
}

/// The places of the lists of attributes, each in a cluster of its own: the first attribute has the type 0x10, and 32 bytes of the list.
pub fn lists(image: &Image) -> Vec<Range<u64>> {
    let first = [0x10, 0, 0, 0, 0x20, 0];
    let at = (0..image.bytes.len()).step_by(4096).filter(|at| image.bytes[*at..].starts_with(&first));
    let found: Vec<_> = at.map(|at| at as u64..at as u64 + 300).collect();
    assert!(!found.is_empty());
    found
}

#[test]
fn a_folder_of_several_levels_has_all_of_its_names() {
    let fill = |folder: &Path| {
        fill_many(&folder.join("many"));
        fs::write(folder.join("one"), []).unwrap();
    };
    let Some(mut image) = mounted("ntfs.levels", "4096", fill) else { return };
    let mut volume = open(&mut image);
    let mut found = names(&mut *volume, &mut image, "/many");
    let mut expected: Vec<_> = (0..MANY).filter(|n| n % 7 > 0).map(|n| format!("file number {n}")).collect();
    expected.push("below".into());
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    for n in (1..MANY).step_by(7 * 13) {
        let path = format!("/many/FILE number {n}");
        assert_eq!(whole(&mut *volume, &mut image, &path), n.to_string().as_bytes());
    }
    let folder = at(&mut *volume, &mut image, "/many");
    let attributes = volume.attributes(&mut image, folder).unwrap();
    assert_eq!((attributes.kind, attributes.links), (Kind::Folder, Some(1)));
    assert!(attributes.bytes > 100_000, "{attributes:?}");
    assert_eq!(volume.read(&mut image, folder, 0, 1), Err(Error::NotA("regular file")));
    let file = at(&mut *volume, &mut image, "/one");
    assert_eq!(volume.list(&mut image, file, &mut |_| true), Err(Error::NotA("folder")));
}

#[test]
fn hard_links_are_one_file_and_a_name_for_dos_is_found_and_not_listed() {
    let fill = |folder: &Path| {
        fs::create_dir(folder.join("many")).unwrap();
        fs::write(folder.join("one"), b"content").unwrap();
        fs::write(folder.join("one:stream"), b"beside").unwrap();
        fs::hard_link(folder.join("one"), folder.join("many/other")).unwrap();
        fs::write(folder.join("a long name"), b"long").unwrap();
        set(&folder.join("a long name"), "dos_name", "LONG~1");
    };
    let Some(mut image) = mounted("ntfs.links", "4096", fill) else { return };
    let mut volume = open(&mut image);
    let file = at(&mut *volume, &mut image, "/one");
    assert_eq!(at(&mut *volume, &mut image, "/many/other"), file);
    let attributes = volume.attributes(&mut image, file).unwrap();
    assert_eq!((attributes.links, attributes.bytes), (Some(2), 7));
    let mut names = names(&mut *volume, &mut image, "/");
    names.sort();
    assert_eq!(names, ["a long name", "many", "one"]);
    let long = at(&mut *volume, &mut image, "/a long name");
    assert_eq!(at(&mut *volume, &mut image, "/long~1"), long);
    assert_eq!(volume.attributes(&mut image, long).unwrap().links, Some(1));
    assert_eq!(volume.extended(&mut image, file).unwrap(), [(b"user.stream".to_vec(), b"beside".to_vec())]);
}

#[test]
fn links_of_linux_are_followed() {
    let fill = |folder: &Path| {
        fs::create_dir(folder.join("many")).unwrap();
        fs::write(folder.join("many/other"), b"content").unwrap();
        symlink("many/file number 1", folder.join("link")).unwrap();
        symlink("many", folder.join("below")).unwrap();
    };
    let Some(mut image) = mounted("ntfs.symlinks", "4096", fill) else { return };
    let mut volume = open(&mut image);
    let link = at(&mut *volume, &mut image, "/link");
    let attributes = volume.attributes(&mut image, link).unwrap();
    assert_eq!((attributes.kind, attributes.bytes), (Kind::Link, 18));
    assert_eq!(volume.link(&mut image, link).unwrap(), b"many/file number 1");
    assert_eq!(volume.read(&mut image, link, 0, 1), Err(Error::NotA("regular file")));
    assert_eq!(whole(&mut *volume, &mut image, "/below/other"), b"content");
    let file = at(&mut *volume, &mut image, "/many/other");
    assert_eq!(volume.link(&mut image, file), Err(Error::NotA("symbolic link")));
}

#[test]
fn a_file_in_more_fragments_than_a_record_holds_is_read() {
    for cluster in ["512", "4096"] {
        let bytes = content(4, 16 * PIECES as usize);
        let fill = |folder: &Path| fill_fragments(&folder.join("fragments"), &bytes);
        let Some(mut image) = mounted(&format!("ntfs.fragments.{cluster}"), cluster, fill) else { return };
        let mut volume = open(&mut image);
        let mut expected = vec![0; ((PIECES + 10) * STEP_BYTES) as usize];
        for n in 0..PIECES as usize {
            expected[n * STEP_BYTES as usize..][..16].copy_from_slice(&bytes[n * 16..][..16]);
        }
        assert!(whole(&mut *volume, &mut image, "/fragments") == expected);
        let file = at(&mut *volume, &mut image, "/fragments");
        let found = runs(&mut *volume, &mut image, file).unwrap();
        assert_eq!(found.len() as u64, PIECES, "each piece is a run: what lies between is a hole");
        for run in found {
            let (n, start) = ((run.at / STEP_BYTES) as usize, run.place.unwrap().0 as usize);
            assert_eq!(image.bytes[start..start + 16], bytes[n * 16..][..16]);
        }
        let attributes = volume.attributes(&mut image, file).unwrap();
        assert_eq!(attributes.allocated_bytes, PIECES * cluster.parse::<u64>().unwrap());
    }
}

#[test]
fn what_is_not_stored_as_it_is_is_refused_by_name() {
    let fill = |folder: &Path| {
        fs::create_dir(folder.join("packed")).unwrap();
        set(&folder.join("packed"), "attrib_be", "0x00000800");
        fs::write(folder.join("packed/zeros"), vec![7; 100_000]).unwrap();
        fs::write(folder.join("packed/small"), b"small").unwrap();
        // A deduplicated file, as Windows Server makes it.
        fs::write(folder.join("kept"), b"").unwrap();
        set(&folder.join("kept"), "reparse_data", "0x130000800400000001020304");
    };
    let Some(mut image) = mounted("ntfs.refused", "4096", fill) else { return };
    let mut volume = open(&mut image);
    for (path, what) in [
        ("/packed/zeros", "the content is compressed (LZNT1)"),
        ("/kept", "the content is deduplicated (reparse tag 0x80000013)"),
    ] {
        let file = at(&mut *volume, &mut image, path);
        let refused = Error::Unsupported(format!("record {}: {what}", file.number));
        assert_eq!(volume.read(&mut image, file, 0, 1), Err(refused.clone()));
        assert_eq!(runs(&mut *volume, &mut image, file), Err(refused));
        assert_eq!(volume.attributes(&mut image, file).unwrap().kind, Kind::Regular);
    }
    assert_eq!(whole(&mut *volume, &mut image, "/packed/small"), b"small");
    assert!(path::walk(&mut *volume, &mut image, b"/packed/other").is_err());
}
