//! The formats of images.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Magic numbers of formats: offset, bytes, and `qemu-img`'s name for the format.
const MAGIC: [(u64, &[u8], &str); 8] = [
    (0, b"QFI\xfb\0\0\0\x01", "qcow"),
    (0, b"QFI\xfb", "qcow2"),
    (0, b"QED\0", "qed"),
    (0, b"KDMV", "vmdk"),
    (0, b"# Disk DescriptorFile", "vmdk"),
    (0, b"vhdxfile", "vhdx"),
    (0, b"conectix", "vpc"),
    (0x40, b"\x7f\x10\xda\xbe", "vdi"),
];

/// The format of the image at `path`; `None` if the image is used as it is.
///
/// # Errors
/// The image cannot be read.
pub(crate) fn format_of(path: &Path) -> io::Result<Option<&'static str>> {
    let file = File::open(path)?;
    for (at, magic, format) in MAGIC {
        let mut found = vec![0; magic.len()];
        match file.read_exact_at(&mut found, at) {
            Ok(()) if found == magic => return Ok(Some(format)),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_magic_and_all_else_is_raw() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("image");
        let mut vdi = vec![0; 0x40];
        vdi.extend(b"\x7f\x10\xda\xbe");
        for (bytes, format) in [
            (&b"QFI\xfb\0\0\0\x03"[..], Some("qcow2")),
            (b"QFI\xfb\0\0\0\x01", Some("qcow")),
            (b"KDMV", Some("vmdk")),
            (&vdi, Some("vdi")),
            (b"QFI", None),
            (b"", None),
            (&[0; 4096], None),
        ] {
            std::fs::write(&path, bytes).expect("a file");
            assert_eq!(format_of(&path).expect("it can be read"), format, "{bytes:?}");
        }
    }
}
