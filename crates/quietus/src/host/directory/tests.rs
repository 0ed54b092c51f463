use super::*;
use std::time::Duration;

/// A directory that is no disk.
const VAULT: Plan = Plan {
    ending: "new",
    files: &["vault.toml", "slots", "key", "key.pub"],
    maker: "another `vault create`",
};

fn made() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("archive");
    let mut draft = Draft::begin(&path, VAULT).expect("a draft");
    write_new(draft.dir(), "vault.toml", b"slots = 4").expect("a file");
    make_key(draft.dir()).expect("a key");
    draft.make_file(Path::new("slots"), 4096).expect("a file");
    draft.keep(&path).expect("nothing is in the way");
    (dir, path)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn own_process() -> DirectoryErrorKind {
    DirectoryErrorKind::Locked(format!("process {}", std::process::id()))
}

#[test]
fn a_directory_is_made_whole_and_has_one_writer_at_a_time() {
    let (dir, path) = made();
    assert_eq!(names(dir.path()), ["archive"]);
    assert_eq!(names(&path), ["key", "key.pub", "slots", "vault.toml"]);
    let first = Directory::open(&path, Access::ReadWrite).expect("the first");
    assert_eq!(first.name().as_deref(), Some("archive"));
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let error = Directory::open(&path, access).expect_err("in use");
        assert_eq!((error.kind, error.path), (own_process(), path.clone()));
    }
    drop(first);
    let _readers = [(); 2].map(|()| Directory::open(&path, Access::ReadOnly).expect("a reader"));
    Directory::open(&path, Access::ReadWrite).expect_err("readers are there");
}

#[test]
fn a_holder_that_is_just_ending_is_waited_for() {
    let (_dir, path) = made();
    let first = Directory::open(&path, Access::ReadWrite).expect("the first");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            drop(first);
        });
        Directory::open(&path, Access::ReadWrite).expect("the first has ended");
    });
}

#[test]
fn a_file_that_may_have_another_owner_is_locked_with_the_same_patience() {
    let (_dir, path) = made();
    let slots = path.join("slots");
    let lock = lock_storage(&slots, Access::ReadWrite).expect("no other process has it open");
    assert_eq!(lock_storage(&slots, Access::ReadWrite).expect_err("in use").kind, own_process());
    drop(lock);
    let _reader = lock_storage(&slots, Access::ReadOnly).expect("no other process has it open");
    lock_storage(&slots, Access::ReadOnly).expect("two may read");
    lock_storage(&slots, Access::ReadWrite).expect_err("a reader is there");
    let missing = lock_storage(&path.join("nothing"), Access::ReadOnly).expect_err("there is nothing");
    assert_eq!(missing.kind, DirectoryErrorKind::Missing("the file"));
}

#[test]
fn a_draft_that_is_dropped_takes_all_that_it_made_with_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, outside) = (dir.path().join("archive"), dir.path().join("elsewhere"));
    let mut draft = Draft::begin(&path, VAULT).expect("a draft");
    draft.make_file(Path::new("slots"), 512).expect("a file");
    draft.make_file(&outside, 512).expect("a file");
    assert_eq!(names(dir.path()), [".archive.new", "elsewhere"]);
    std::fs::create_dir(&path).expect("a directory of another program");
    assert_eq!(draft.keep(&path).expect_err("the name is taken").kind, DirectoryErrorKind::Exists);
    assert_eq!(names(dir.path()), ["archive"]);
    assert_eq!(names(&path), [""; 0]);
}

#[test]
fn a_file_that_was_there_before_a_draft_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let outside = dir.path().join("elsewhere");
    std::fs::write(&outside, "precious").expect("a file");
    let mut draft = Draft::begin(&dir.path().join("archive"), VAULT).expect("a draft");
    draft.make_file(&outside, 512).expect_err("it is there already");
    drop(draft);
    assert_eq!(std::fs::read(&outside).expect("it is there"), b"precious");
}

#[test]
fn one_file_of_a_draft_can_be_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let draft = Draft::begin(&path, VAULT).expect("a draft");
    write_new(draft.dir(), "slots", b"content").expect("a file");
    write_new(draft.dir(), "key", b"secret").expect("a file");
    draft.keep_file("slots", &path).expect("nothing is in the way");
    assert_eq!(names(dir.path()), ["image"]);
    assert_eq!(std::fs::read(&path).expect("a file"), b"content");
}

#[test]
fn a_crash_is_cleared_away_but_for_files_that_no_draft_makes() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, left) = (dir.path().join("archive"), dir.path().join(".archive.new"));
    std::fs::create_dir(&left).expect("a directory");
    std::fs::write(left.join("slots"), "half").expect("a file");
    drop(Draft::begin(&path, VAULT).expect("a draft"));
    assert_eq!(names(dir.path()), [""; 0]);
    std::fs::create_dir(&left).expect("a directory");
    std::fs::write(left.join("theirs"), "precious").expect("a file");
    let error = Draft::begin(&path, VAULT).expect_err("it is in the way").to_string();
    assert!(error.contains("\"theirs\""), "{error}");
    assert_eq!(std::fs::read(left.join("theirs")).expect("it is there"), b"precious");
}

#[test]
fn one_name_is_made_by_one_maker_at_a_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("archive");
    let _first = Draft::begin(&path, VAULT).expect("a draft");
    let error = Draft::begin(&path, VAULT).expect_err("another command makes it");
    assert_eq!(error.kind, DirectoryErrorKind::Locked(VAULT.maker.into()));
}

#[test]
fn a_file_is_replaced_whole_even_after_a_replacement_that_a_crash_cut_short() {
    let (_dir, path) = made();
    let directory = Directory::open(&path, Access::ReadWrite).expect("no other process has it open");
    std::fs::write(path.join(".vault.toml.new"), "slots = 9999999999").expect("a file");
    directory.replace("vault.toml", b"slots = 5").expect("it is replaced");
    assert_eq!(std::fs::read(directory.file("vault.toml")).expect("a file"), b"slots = 5");
    assert!(!path.join(".vault.toml.new").exists());
    directory.remove("vault.toml").expect("it is removed");
    directory.remove("vault.toml").expect("it is gone already");
    assert!(!directory.file("vault.toml").exists());
}

#[test]
fn the_key_is_the_owners_alone_and_a_damaged_one_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, path) = made();
    let directory = Directory::open(&path, Access::ReadWrite).expect("no other process has it open");
    let public = std::fs::read_to_string(path.join("key.pub")).expect("a file");
    assert_eq!(crate::base::hex::hex(&directory.key().expect("a key").public()), public);
    let mode = path.join("key").metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::write(path.join("key"), [7; 31]).expect("a write");
    let error = directory.key().expect_err("it is short");
    assert!(matches!(error.kind, DirectoryErrorKind::Damaged(_)), "{error}");
    assert_eq!(error.path, path.join("key"));
    std::fs::remove_file(path.join("key")).expect("it is there");
    assert_eq!(directory.key().expect_err("it is gone").kind, DirectoryErrorKind::Missing("the file"));
}
