use super::*;
use rustix::fs::{CWD, FileType, Mode};
use std::path::PathBuf;

fn bench() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("text"), "hello").expect("a file");
    std::fs::create_dir(dir.path().join("dir")).expect("a directory");
    std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).expect("a link");
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    dir
}

#[test]
fn a_kind_is_known_without_opening_anything() {
    let dir = bench();
    let at = |name: &str| Kind::of(&dir.path().join(name)).expect("it can be looked at");
    let found = ["text", "dir", "dangling", "pipe", "nope", "text/below"].map(at);
    let wanted = [Kind::File, Kind::Directory, Kind::DanglingLink, Kind::Pipe, Kind::Nothing, Kind::Nothing];
    assert_eq!(found, wanted);
    assert_eq!(Kind::of(Path::new("/dev/null")).expect("it is there"), Kind::CharacterDevice);
}

#[test]
fn a_pipe_without_a_writer_has_an_end_and_one_with_a_writer_is_read() {
    let dir = bench();
    let pipe = dir.path().join("pipe");
    assert_eq!(read_text("--key", &pipe).expect("it does not hang"), "");
    let both = File::options().read(true).write(true).open(&pipe).expect("both ends");
    let reader = open_to_read("--key", &pipe).expect("a pipe");
    (&both).write_all(b"late").expect("it has room");
    drop(both);
    assert_eq!(io::read_to_string(reader).expect("all of it"), "late");
}

#[test]
fn what_never_ends_fills_no_memory() {
    let error = read_text("--key", Path::new("/dev/zero")).expect_err("it has no end").to_string();
    assert!(error.contains("--key has more than 16777216 bytes"), "{error}");
}

#[test]
fn an_output_replaces_what_is_ours_as_a_whole_and_nothing_else() {
    let dir = bench();
    let at = |name: &str| dir.path().join(name);
    let checked = |name: &str| check_output("-o", &at(name), |text| text.starts_with("ours"));
    for (name, said) in [
        ("text", "a file with other content"),
        ("dir", "a directory"),
        ("dangling", "a symbolic link to nothing"),
        ("no/where", "does not exist; make it first"),
    ] {
        let error = checked(name).expect_err(name).to_string();
        assert!(error.contains(said), "{error}");
    }
    checked("new").expect("nothing is there");
    write_output(&at("new"), "ours, 1").expect("it is written");
    checked("new").expect("it is ours");
    write_output(&at("new"), "ours, 2").expect("it is written");
    assert_eq!(std::fs::read_to_string(at("new")).expect("a file"), "ours, 2");
    let hidden = std::fs::read_dir(dir.path()).expect("a directory").flatten();
    let hidden: Vec<PathBuf> = hidden.map(|it| it.path()).filter(|it| it.ends_with(".new.new")).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
    write_output(Path::new("/dev/null"), "ours").expect("a device takes it");
    let error = write_output(&at("pipe"), "ours").expect_err("the pipe has no reader").to_string();
    assert!(error.contains("cannot write it"), "{error}");
}

#[test]
fn a_part_in_memory_is_refused_unless_all_of_the_disk_is() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return println!("skipped: no /dev/shm") };
    let dir = bench();
    if guarantees::volatile(memory.path()).is_none() || guarantees::volatile(dir.path()).is_some() {
        return println!("skipped: /dev/shm is not in memory, or the temporary directory is");
    }
    let root = memory.path().join("root");
    let error = check_new_medium("--root", &root, dir.path()).expect_err("it would be lost").to_string();
    assert!(error.contains("--root names a place in memory (tmpfs)"), "{error}");
    assert_eq!(check_new_medium("--root", &root, memory.path()).expect("all is in memory"), Kind::Nothing);
    let image = memory.path().join("image");
    std::fs::write(&image, vec![1; 4096]).expect("an image");
    assert!(check_adopted("--adopt", &image, dir.path()).is_err());
    check_raw_image("--from", &image).expect("it is only copied");
}

#[test]
fn a_name_that_was_meant_is_named() {
    let dir = bench();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("vm1")).expect("a directory");
    std::fs::write(at("vm1/disk.toml"), "").expect("a file");
    let said = |wanted, name: &str| absent(wanted, &at(name)).to_string();
    assert!(said(Subject::Disk, "vm2").ends_with(&format!("did you mean {}?", at("vm1").display())));
    assert!(said(Subject::Disk, "backups").contains("no such disk; check the name"));
    assert!(said(Subject::Disk, "vm1@3").contains("this command takes no epoch"));
    assert!(said(Subject::Vault, "vm1").contains("a disk, and not a vault"));
    assert!(said(Subject::Vault, "text").contains("a regular file, and not the directory of a vault"));
    assert!(said(Subject::Disk, "dir").contains("it has no disk.toml; make one with `quietus create`"));
    std::fs::write(at("dir/journal"), "").expect("a file");
    assert!(said(Subject::Disk, "dir").contains("restore the file from a backup"), "its disk.toml was lost");
}
