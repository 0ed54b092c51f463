//! Archives as snapshots.

use crate::program::told;
use crate::vault::files::restoring::{About, all, zoo};
use crate::vault::program::{Vault, assert_same, folder, noise};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tar::{Builder, EntryType, Header};

#[test]
fn an_archive_is_taken_from_a_pipe_and_parts_of_it_are_left_out() {
    let vault = Vault::new(&[]);
    let top = vault.beside("a");
    folder(&top.join("sub"), &[1, 2]);
    folder(&top.join("long name"), &[3]);
    fs::hard_link(top.join("sub/file 1"), top.join("again")).expect("a link");
    run(&vault, &["tar", "--format=pax", "-cf", "a.tar", "a"]);
    let archive = fs::File::open(vault.beside("a.tar")).expect("a file");
    let put = vault.command("put").args(["piped", "--tar", "-"]).stdin(Stdio::from(archive)).output();
    assert!(put.expect("it runs").status.success());
    vault.json("get", &["piped", "--into", "back"]);
    assert_same(&top, &vault.beside("back/a"));
    let again = vault.json("put", &["again", "--tar", "a.tar", "--exclude", "sub", "--exclude", "again"]);
    assert_eq!(again["files"], 1, "{again}");
}

#[test]
fn an_archive_that_leads_elsewhere_is_taken_without_that() {
    let vault = Vault::new(&["--compress", "none"]);
    let mut archive = Builder::new(Vec::new());
    let mut add = |path: &[u8], of: EntryType, target: Option<&str>, content: &[u8]| {
        let mut header = Header::new_old();
        header.as_mut_bytes()[..path.len()].copy_from_slice(path);
        header.set_entry_type(of);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        if let Some(target) = target {
            header.set_link_name_literal(target).expect("a target");
        }
        header.set_cksum();
        archive.append(&header, content).expect("an entry");
    };
    let secret = noise(8, 3000);
    add(b"../outside", EntryType::Regular, None, &secret);
    add(b"a/../../outside", EntryType::Regular, None, &secret);
    add(b"/rooted", EntryType::Regular, None, b"within");
    add(b"link", EntryType::Symlink, Some("/"), b"");
    add(b"link/below", EntryType::Regular, None, b"through a link");
    add(b"hard", EntryType::Link, Some("../../etc/passwd"), b"");
    add(b"good", EntryType::Regular, None, b"content");
    let bytes = archive.into_inner().expect("an archive");
    fs::write(vault.beside("evil.tar"), &bytes).expect("a file");
    assert_eq!(vault.findings("put", &["evil", "--tar", "evil.tar"])["left_out_count"], 4);
    vault.json("get", &["evil", "--into", "back"]);
    assert_eq!(fs::read(vault.beside("back/rooted")).expect("a file"), b"within");
    assert_eq!(fs::read(vault.beside("back/good")).expect("a file"), b"content");
    assert!(!vault.beside("outside").exists());
    assert_eq!(vault.owed(), 1, "what was stored of it and left out is owed");
    assert!(vault.count(b"through a link") > 0);
    vault.sanitize();
    assert_eq!(vault.count(b"through a link"), 0);
    assert_eq!(vault.count(&secret[..64]), 0, "what was left out is in the vault");
}

/// What of two entries has to be the same.
type Compare = fn(&About, &About) -> bool;

/// Runs a program in the vault's folder; whether it is there.
fn run(vault: &Vault, args: &[&str]) -> bool {
    let output = Command::new(args[0]).args(&args[1..]).current_dir(vault.dir.path()).output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{args:?}: {output:?}");
            true
        }
        Err(_) => {
            eprintln!("skipped: there is no {}", args[0]);
            false
        }
    }
}

/// A folder `zoo` of everything that an archive can have.
fn zoo_for_archives(vault: &Vault) -> BTreeMap<PathBuf, About> {
    let top = vault.beside("zoo");
    zoo(&top);
    fs::remove_file(top.join("socket")).expect("a socket");
    fs::write(top.join("long ".repeat(30)), b"a name of 150 bytes").expect("a file");
    fs::set_permissions(&top, fs::Permissions::from_mode(0o750)).expect("a mode");
    all(&top)
}

fn assert_back(before: &BTreeMap<PathBuf, About>, back: &Path, what: &str, is_same: Compare) {
    let after = all(back);
    assert!(before.keys().eq(after.keys()), "{what}: {:?}", after.keys());
    for (path, about) in before {
        let shown = |it: &About| {
            let (bytes, owner) = (it.content.as_ref().map(Vec::len), it.owner);
            let rest = (it.modified, it.device, it.names, &it.attributes, it.is_sparse);
            format!("{:o} {owner:?} {bytes:?} {rest:?}", it.mode)
        };
        let (one, other) = (shown(about), shown(&after[path]));
        assert!(is_same(about, &after[path]), "{what}: {path:?}: {one}, restored: {other}");
    }
}

/// All that old formats have: whole seconds, and no attributes.
fn is_nearly(one: &About, other: &About) -> bool {
    let of = |it: &About| (it.mode, it.owner, it.modified.0, it.device, it.names, it.content.clone());
    of(one) == of(other)
}

fn is_nearly_and_as_sparse(one: &About, other: &About) -> bool {
    is_nearly(one, other) && one.is_sparse == other.is_sparse
}

/// libarchive adds the fraction of times before 1970 in place of taking it away, when it writes and when it reads.
fn is_same_but_for_early_times(one: &About, other: &About) -> bool {
    let of = |it: &About| (it.attributes.clone(), it.is_sparse);
    let is_same_time = one.modified.0 < 0 || one.modified == other.modified;
    is_nearly_but_for_times(one, other) && of(one) == of(other) && is_same_time
}

/// Without ACLs, libarchive writes modes that lack the rights of the mask.
fn is_same_content(one: &About, other: &About) -> bool {
    let of = |it: &About| (it.owner, it.device, it.names, it.content.clone());
    of(one) == of(other)
}

/// Python rounds times before 1970 the other way.
fn is_nearly_but_for_times(one: &About, other: &About) -> bool {
    let of = |it: &About| (it.mode, it.owner, it.device, it.names, it.content.clone());
    of(one) == of(other)
}

#[test]
fn what_every_program_writes_in_every_format_comes_back_as_the_tree_was() {
    const PYTHON: &str = "import sys,tarfile
with tarfile.open(sys.argv[1], 'w', format=getattr(tarfile, sys.argv[2])) as it: it.add('zoo')";
    let vault = Vault::new(&[]);
    let before = zoo_for_archives(&vault);
    let pax = ["tar", "--format=posix", "--xattrs", "--acls"];
    let all: &[(&[&str], Compare)] = &[
        (&pax, |one, other| {
            is_nearly(one, other) && (one.modified, &one.attributes) == (other.modified, &other.attributes)
        }),
        (&[&pax[..], &["--sparse", "--sparse-version=0.0"]].concat(), PartialEq::eq),
        (&[&pax[..], &["--sparse", "--sparse-version=0.1"]].concat(), PartialEq::eq),
        (&[&pax[..], &["--sparse", "--sparse-version=1.0"]].concat(), PartialEq::eq),
        (&["tar", "--format=gnu"], is_nearly),
        (&["tar", "--format=gnu", "--sparse"], is_nearly_and_as_sparse),
        (&["tar", "--format=oldgnu", "--sparse"], is_nearly_and_as_sparse),
        (&["bsdtar", "--format=pax", "--xattrs", "--acls"], is_same_but_for_early_times),
        (&["bsdtar", "--format=gnutar"], is_same_content),
        (&["python3", "PAX_FORMAT"], is_nearly),
        (&["python3", "GNU_FORMAT"], is_nearly_but_for_times),
    ];
    for (args, is_same) in all {
        let what = args.join(" ");
        let archive = "made.tar";
        let made = match args[..] {
            ["python3", format] => run(&vault, &["python3", "-c", PYTHON, archive, format]),
            _ => run(&vault, &[args, &["-cf", archive, "zoo"][..]].concat()),
        };
        if made {
            let put = vault.json("put", &["made", "--tar", archive]);
            assert_eq!(put["left_out_count"], 0, "{what}: {put}");
            vault.json("get", &["made", "--into", "back"]);
            assert_back(&before, &vault.beside("back/zoo"), &what, *is_same);
            fs::remove_dir_all(vault.beside("back")).expect("a folder");
        }
    }
    // Formats without long names, and without times before 1970.
    run(&vault, &["touch", "zoo/text"]);
    fs::remove_file(vault.beside("zoo").join("long ".repeat(30))).expect("a file");
    for format in ["v7", "ustar"] {
        let format = format!("--format={format}");
        run(&vault, &["tar", &format, "-cf", "made.tar", "zoo/plain", "zoo/deep", "zoo/text"]);
        vault.json("put", &["made", "--tar", "made.tar"]);
        vault.json("get", &["made", "--into", "back"]);
        for path in ["plain", "deep"] {
            assert_same(&vault.beside("zoo").join(path), &vault.beside("back/zoo").join(path));
        }
        fs::remove_dir_all(vault.beside("back")).expect("a folder");
    }
}

#[test]
fn a_snapshot_becomes_an_archive_that_every_program_reads_as_the_tree_was() {
    const PYTHON: &str = "import tarfile
with tarfile.open('out.tar') as it: it.extractall('back', numeric_owner=True, filter='fully_trusted')";
    let vault = Vault::new(&[]);
    let before = zoo_for_archives(&vault);
    let put = vault.json("put", &["animals", "zoo"]);
    let written = vault.json("get", &["animals", "--tar", "out.tar"]);
    assert_eq!((&written["files"], &written["bytes"]), (&put["files"], &put["bytes"]), "{written}");
    let bytes = fs::metadata(vault.beside("out.tar")).expect("an archive").len();
    assert!(bytes < 4 << 20, "holes are content");
    let piped = vault.run("get", &["animals", "--tar", "-"]);
    assert!(piped.status.success() && piped.stdout == fs::read(vault.beside("out.tar")).expect("a file"));
    vault.json("put", &["again", "--tar", "out.tar"]);
    let diff = vault.run("diff", &["animals", "again"]);
    let same = ["\"added\":0", "\"changed\":0", "\"removed\":0"];
    assert!(same.iter().all(|it| told(&diff).contains(it)), "{diff:?}");
    let extract: [(&[&str], Compare); 3] = [
        (
            &["tar", "--xattrs", "--xattrs-include=*", "--acls", "-xpf", "out.tar", "-C", "back"],
            PartialEq::eq,
        ),
        (
            &["bsdtar", "--numeric-owner", "--xattrs", "--acls", "-xpf", "out.tar", "-C", "back"],
            is_same_but_for_early_times,
        ),
        (&["python3", "-c", PYTHON], is_nearly_but_for_times),
    ];
    for (args, is_same) in extract {
        fs::create_dir(vault.beside("back")).expect("a folder");
        if run(&vault, args) {
            assert_back(&before, &vault.beside("back/zoo"), args[0], is_same);
        }
        fs::remove_dir_all(vault.beside("back")).expect("a folder");
    }
    // A part of it, to a name that is taken.
    vault.json("get", &["animals", "--tar", "part.tar", "zoo/deep"]);
    vault.json("put", &["part", "--tar", "part.tar"]);
    vault.json("get", &["part", "--into", "back"]);
    assert_same(&vault.beside("zoo/deep"), &vault.beside("back/zoo/deep"));
    vault.assert_refused("get", &["animals", "--tar", "part.tar"], "part.tar: already exists");
    let said = vault.refused("get", &["animals", "--tar", "new.tar", "zoo/no such"]);
    assert!(said.contains("not in the snapshot") && !vault.beside("new.tar").exists(), "{said}");
}

#[test]
fn a_hole_of_a_tebibyte_costs_nothing() {
    let vault = Vault::new(&[]);
    let file = fs::File::create(vault.beside("huge")).expect("a file");
    file.write_all_at(b"at its start", 0).expect("content");
    if file.write_all_at(b"at its end", (1 << 40) - 10).is_err() {
        return eprintln!("skipped: no file is as long here");
    }
    for format in ["gnu", "posix"] {
        run(&vault, &["tar", "--sparse", &format!("--format={format}"), "-cf", "huge.tar", "huge"]);
        let put = vault.json("put", &["huge", "--tar", "huge.tar"]);
        assert_eq!(put["bytes"], 1_u64 << 40, "{put}");
        vault.json("get", &["huge", "--into", "back"]);
        vault.json("get", &["huge", "--tar", "out.tar"]);
        vault.json("put", &["out", "--tar", "out.tar"]);
        vault.json("get", &["out", "--into", "again"]);
        for folder in ["back", "again"] {
            let back = fs::File::open(vault.beside(folder).join("huge")).expect("a file");
            let about = back.metadata().expect("a file");
            assert!(about.len() == 1 << 40 && about.blocks() < 1000, "{about:?}");
            let mut ends = [[0; 12]; 2];
            back.read_exact_at(&mut ends[0], 0).expect("content");
            back.read_exact_at(&mut ends[1], (1 << 40) - 12).expect("content");
            assert_eq!(ends, [*b"at its start", *b"\0\0at its end"]);
            fs::remove_dir_all(vault.beside(folder)).expect("a folder");
        }
        fs::remove_file(vault.beside("out.tar")).expect("a file");
    }
}

#[test]
fn a_stream_without_an_end_of_archive_marker_is_refused_by_name_and_keeps_nothing() {
    let vault = Vault::new(&["--compress", "none"]);
    vault.folder("a", &[1]);
    run(&vault, &["tar", "--format=gnu", "-b1", "-cf", "a.tar", "a"]);
    vault.json("put", &["daily", "--tar", "a.tar"]);
    let whole = fs::read(vault.beside("a.tar")).expect("an archive");
    run(&vault, &["gzip", "-k", "a.tar"]);
    fs::write(vault.beside("empty"), b"").expect("a file");
    for (name, length) in [("content", 2000), ("marker", whole.len() - 512)] {
        fs::write(vault.beside(name), &whole[..length]).expect("a file");
    }
    for (name, why) in [
        ("empty", "empty: cannot read the archive: empty; if a command writes the archive"),
        ("content", "content: cannot read the archive: cut off after 2000 bytes"),
        ("marker", "without an end-of-archive marker"),
        ("a.tar.gz", "a.tar.gz: cannot read the archive: compressed with gzip; pipe it through `gzip -dc`"),
    ] {
        vault.assert_refused("put", &["daily", "--tar", name], why);
    }
    vault.assert_refused("put", &["daily", "--tar", "-"], "standard input: cannot read the archive: empty");
    assert_eq!(vault.snapshots(), 1);
    vault.json("forget", &["daily"]);
    vault.sanitize();
    assert_eq!(vault.count(&noise(1, 64)), 0, "what came before the end is kept");
    fs::write(vault.beside("two"), [&whole[..], &whole].concat()).expect("a file");
    let said = vault.findings("put", &["two", "--tar", "two"]).to_string();
    assert!(said.contains("what follows the end"), "{said}");
}

#[test]
fn the_attributes_of_the_folder_itself_are_kept() {
    let vault = Vault::new(&[]);
    let top = vault.folder("a", &[1]);
    fs::set_permissions(&top, fs::Permissions::from_mode(0o1751)).expect("a mode");
    let before = all(&top);
    run(&vault, &["tar", "-C", "a", "--format=posix", "-cf", "a.tar", "."]);
    vault.json("put", &["archive", "--tar", "a.tar"]);
    let put = vault.command("put").args(["folder", "."]).current_dir(&top).output();
    assert!(put.as_ref().is_ok_and(|it| it.status.success()), "{put:?}");
    for name in ["archive", "folder"] {
        vault.json("get", &[name, "--into", "back"]);
        assert_back(&before, &vault.beside("back"), name, PartialEq::eq);
        // Once more, as after a kill.
        fs::set_permissions(vault.beside("back"), fs::Permissions::from_mode(0o700)).expect("a mode");
        fs::remove_file(vault.beside("back/file 1")).expect("a file");
        vault.json("get", &[name, "--into", "back"]);
        assert_back(&before, &vault.beside("back"), name, PartialEq::eq);
        vault.json("get", &[name, "--tar", "out.tar"]);
        fs::create_dir(vault.beside("again")).expect("a folder");
        run(&vault, &["tar", "-xpf", "out.tar", "-C", "again"]);
        assert_back(&before, &vault.beside("again"), name, PartialEq::eq);
        // A folder with other entries keeps its own.
        fs::create_dir(vault.beside("other")).expect("a folder");
        fs::write(vault.beside("other/own"), b"precious").expect("a file");
        vault.json("get", &[name, "--into", "other"]);
        let mode = fs::metadata(vault.beside("other")).expect("a folder").permissions().mode();
        assert_ne!(mode & 0o7777, 0o1751);
        for folder in ["back", "again", "other"] {
            fs::remove_dir_all(vault.beside(folder)).expect("a folder");
        }
        fs::remove_file(vault.beside("out.tar")).expect("a file");
    }
}
