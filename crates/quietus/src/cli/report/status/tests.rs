use super::super::waiting::waits;
use super::*;
use crate::disk::{CreateOptions, DiskDir};
use crate::front::control::{Call, Waiting, WaitsFor};
use crate::open_disk::OpenDisk;

/// The status of a new disk.
fn fresh() -> StatusAnswer {
    let at = tempfile::tempdir().expect("a directory");
    let path = at.path().join("disk");
    let options = CreateOptions { size: Some(1 << 20), policy: "clear".into(), ..CreateOptions::default() };
    DiskDir::create(&path, &options).expect("a disk");
    let dir = DiskDir::open(&path).expect("no other process has it open");
    let config = dir.config().expect("a policy");
    let open = OpenDisk::start_with(dir, config, None, true, &mut |_, _| true).expect("it starts");
    open.answer(&Call::Status, None, &mut |_, _| true).expect("a status")
}

#[test]
fn what_was_not_all_counted_is_not_called_gone() {
    let mut now = fresh();
    assert!(answer(&now).starts_with("gone") && answer(&now).contains("as far as deletions are known"));
    let mut waits = |bytes| {
        let waiting = [Waiting { cause: WaitsFor::Evidence, bytes, at_least: true, oldest_ms: None }];
        now.verdict = Verdict::of_status(&now.status, &waiting, &now.guarantees);
        answer(&now)
    };
    assert!(waits(4096).starts_with("at least 4.00 KiB wait"), "{}", waits(4096));
    assert!(waits(0).starts_with("unknown: too many ranges to check"), "{}", waits(0));
}

#[test]
fn what_can_be_detected_is_named_with_its_precision() {
    use quietus_detect::formats::properties::{EXT2, EXT3_ORDERED, NTFS, Properties, VFAT};
    let said = |properties: Properties| {
        let named = properties.inferable().named().map(|(name, is)| (name.to_string(), is));
        detects(&named).join(", ")
    };
    assert_eq!(said(EXT2), "freed blocks (exact), reused blocks (approximate)");
    assert_eq!(said(VFAT), "freed blocks (exact)");
    assert_eq!(said(EXT3_ORDERED), "freed blocks (exact), reused blocks (exact)");
    assert_eq!(said(NTFS), "freed blocks (approximate), reused blocks (approximate)");
}

#[test]
fn what_cannot_be_detected_is_named() {
    let mut said = String::new();
    let watch = WatchStatus {
        file_system: Some("exfat".into()),
        hidden: vec!["content beyond the valid data length of a file".into()],
        ..WatchStatus::default()
    };
    file_system_text(&mut said, "file system", &watch).expect("a text");
    assert!(said.contains("\n  cannot detect: content beyond the valid data length of a file\n"), "{said}");
}

#[test]
fn behind_a_cache_neither_a_map_nor_an_unmount_ends_the_wait() {
    let mut now = fresh();
    now.waiting = vec![Waiting { cause: WaitsFor::Map, bytes: 4096, at_least: false, oldest_ms: None }];
    assert!(waits(&now.waiting[0], &now).contains("or an unmount"));
    now.attached = Some(Finding { cached: true, why: "a test".into() });
    assert!(waits(&now.waiting[0], &now).ends_with("active for --settle and --cache-hold; see `attached`"));
}
