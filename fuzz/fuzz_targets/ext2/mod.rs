//! Real file systems to begin from, made by mke2fs when the target starts, and
//! patches to them.

use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::ext2::probe;
use quietus_detect::formats::format::{Contents, Probe};
use std::process::Command;

const SIZE: &str = "600k";
/// Arguments of mke2fs.
const SORTS: [&str; 8] = [
    "-b 1024 -g 256 -O sparse_super,resize_inode,filetype",
    "-b 1024 -g 256 -r 0",
    "-b 1024 -g 256 -I 256 -O meta_bg,^resize_inode,flex_bg",
    "-b 4096 -O ext_attr,large_file,sparse_super2",
    "-b 1024 -g 256 -I 256 -O extent,64bit,flex_bg,metadata_csum,sparse_super",
    "-b 1024 -g 256 -O extent,uninit_bg,mmp",
    "-b 1024 -g 256 -C 2048 -O extent,bigalloc,metadata_csum",
    "-b 1024 -g 256 -O extent,64bit,meta_bg,^resize_inode,inline_data,ea_inode",
];

/// Small file systems of several sorts, always the same bytes.
pub fn images() -> Vec<Vec<u8>> {
    SORTS.iter().map(|args| image(args)).collect()
}

fn image(args: &str) -> Vec<u8> {
    let path = std::env::temp_dir().join(format!("quietus-fuzz-{}.ext2", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let uuid = "12345678-9abc-def0-1234-56789abcdef0";
    let mut command = Command::new("mke2fs");
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").env("MKE2FS_CONFIG", "/dev/null");
    command.args(["-q", "-F", "-U", uuid, "-N", "64", "-E"]).arg(format!("hash_seed={uuid}"));
    command.args(args.split(' '));
    command.arg(&path).arg(SIZE).env("SOURCE_DATE_EPOCH", "1").env("E2FSPROGS_FAKE_TIME", "1");
    assert!(command.status().expect("mke2fs runs").success());
    let bytes = std::fs::read(&path).expect("mke2fs made it");
    let _ = std::fs::remove_file(&path);
    bytes
}

/// Replaces bytes: each four bytes of `patches` are a place (16 bits, modulo
/// the length) and two bytes to put there.
pub fn patch(bytes: &mut [u8], patches: &[u8]) {
    for one in patches.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([one[0], one[1]])) % bytes.len();
        bytes[at] = one[2];
        if let Some(next) = bytes.get_mut(at + 1) {
            *next = one[3];
        }
    }
}

pub fn at(image: &[u8], extent: Extent<Addr>) -> Option<&[u8]> {
    image.get(usize::try_from(extent.start.0).ok()?..usize::try_from(extent.end()).ok()?)
}

/// Probes until an answer, or until more is wanted than the image holds.
pub fn probe_all(image: &[u8]) -> Probe {
    let mut contents = Contents::default();
    loop {
        let Probe::Needs(extents) = probe(image.len() as u64, &contents) else {
            return probe(image.len() as u64, &contents);
        };
        for extent in extents {
            assert!(contents.get(extent).is_none(), "asked for twice");
            contents.insert(extent.start, at(image, extent).expect("within the disk").to_vec());
        }
    }
}
