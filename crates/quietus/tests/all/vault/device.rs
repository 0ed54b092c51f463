//! A vault whose pool is a block device.

use crate::vault::program::{Vault, folder, needles, noise};
use memchr::memmem;
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

/// No whole number of containers.
const DEVICE_BYTES: usize = (16 << 20) + (68 << 10);

/// A loop device above a file.
pub(crate) struct Loop {
    file: tempfile::NamedTempFile,
    pub(crate) name: String,
}

impl Loop {
    /// One above this content; None, with a message, where that cannot be tested.
    pub(crate) fn new(content: &[u8]) -> Option<Self> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().write_all_at(content, 0).expect("content");
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output();
        match made {
            Ok(made) if made.status.success() => {
                let name = String::from_utf8(made.stdout).expect("text").trim().into();
                Some(Self { file, name })
            }
            failed => {
                eprintln!("SKIPPED: no loop device: {failed:?}");
                None
            }
        }
    }

    /// What the file below has.
    fn content(&self) -> Vec<u8> {
        Command::new("blockdev").args(["--flushbufs", &self.name]).status().expect("it runs");
        fs::read(self.file.path()).expect("content")
    }

    /// How many of the needles are there.
    fn count(&self, needles: &[Vec<u8>]) -> usize {
        let content = self.content();
        needles.iter().filter(|needle| memmem::find(&content, needle).is_some()).count()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.name]).status();
    }
}

/// A secret in each 4 KiB: also behind the last container.
fn secrets() -> Vec<u8> {
    (0..DEVICE_BYTES / 4096).flat_map(|page| noise(page as u64, 4096)).collect()
}

/// A directory beside which a vault is to be made.
fn beside() -> Vault {
    Vault { dir: tempfile::tempdir().expect("a directory") }
}

#[test]
fn what_lay_on_a_device_is_destroyed_to_its_last_byte_and_so_is_what_is_forgotten() {
    let before = secrets();
    let Some(device) = Loop::new(&before) else { return };
    let secrets = needles(0..(DEVICE_BYTES / 4096) as u64);
    assert_eq!(device.count(&secrets), secrets.len());
    let vault = beside();
    let init =
        ["--medium", &device.name, "--container", "128K", "--compress", "none", "--policy", "random,ff"];
    let made = vault.json("init", &init);
    assert_eq!(made["vault"]["medium"], device.name.as_str());
    assert_eq!(device.count(&secrets), 0, "what lay on the device is there still");
    let [kept, gone] = ["kept", "gone"].map(|name| vault.beside(name));
    folder(&kept, &[1001, 1002, 1003]);
    folder(&gone, &[2001, 2002]);
    vault.put("kept", &kept);
    let snapshot = vault.put("gone", &gone);
    assert_eq!(device.count(&needles(2001..2003)), 2);
    vault.json("forget", &[&snapshot]);
    vault.sanitize();
    assert_eq!((device.count(&needles(2001..2003)), device.count(&needles(1001..1004))), (0, 3));
    vault.assert_back("kept", &kept);
    vault.assert_whole();
}

#[test]
fn a_smaller_size_leaves_the_rest_of_a_device_alone_and_a_larger_one_is_refused() {
    let before = secrets();
    let Some(device) = Loop::new(&before) else { return };
    let vault = beside();
    let args = ["--medium", &device.name, "--container", "128K", "--size", "17M"];
    vault.assert_refused("init", &args, "--size is 17825792 bytes, and the device has 16846848");
    assert!(device.content() == before, "a device was changed that was refused");
    let size = (2 << 20) + 4096;
    vault.json("init", &["--medium", &device.name, "--container", "128K", "--size", &size.to_string()]);
    let after = device.content();
    assert!(after[size..] == before[size..], "bytes were changed that are not the vault's");
    assert_eq!(device.count(&needles(0..(size / 4096) as u64)), 0);
}

#[test]
fn a_device_in_use_is_refused() {
    let Some(device) = Loop::new(&vec![0; DEVICE_BYTES]) else { return };
    let made = Command::new("mke2fs").args(["-q", "-t", "ext2", &device.name]).status();
    let at = tempfile::tempdir().expect("a directory");
    let mounted = Command::new("mount").arg(&device.name).arg(at.path()).status();
    if !made.is_ok_and(|it| it.success()) || !mounted.is_ok_and(|it| it.success()) {
        return eprintln!("SKIPPED: nothing can be mounted");
    }
    let said = beside().refused("init", &["--medium", &device.name, "--container", "128K"]);
    let unmounted = Command::new("umount").arg(at.path()).status().expect("it runs");
    assert!(unmounted.success() && said.contains(&device.name) && said.contains("in use"), "{said}");
}
