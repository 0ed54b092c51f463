use crate::vault::transfer::tar::header::{
    BLOCK_BYTES, DEVMAJOR, DEVMINOR, GID, Header, MODE, MTIME, SIZE, UID,
};
use crate::vault::transfer::tar::pax::push_record;
use crate::vault::transfer::tar::read::{Of, Reader};
use std::io;

/// An entry: its header, and what comes behind it.
fn entry(flag: u8, name: &str, content: &[u8], change: impl FnOnce(&mut Header)) -> Vec<u8> {
    let mut header = Header::new(flag);
    header.set_name(name.as_bytes());
    for (field, number) in [(&MODE, 0o644), (&UID, 1), (&GID, 2), (&MTIME, 3), (&SIZE, content.len() as i64)]
    {
        header.set_number(field, number);
    }
    change(&mut header);
    let padding = content.len().next_multiple_of(BLOCK_BYTES) - content.len();
    [&header.finished()[..], content, &vec![0; padding]].concat()
}

fn plain(flag: u8, name: &str, content: &[u8]) -> Vec<u8> {
    entry(flag, name, content, |_| {})
}

fn records(all: &[(&str, &[u8])]) -> Vec<u8> {
    let mut text = Vec::new();
    all.iter().for_each(|(keyword, value)| push_record(&mut text, keyword.as_bytes(), value));
    text
}

fn ended(entries: &[Vec<u8>]) -> Vec<u8> {
    [entries.concat(), vec![0; 2 * BLOCK_BYTES]].concat()
}

/// What was read of an entry: path, kind, bytes, runs, the content of all runs.
type Read = (String, Of, u64, Vec<(u64, u64)>, Vec<u8>);

fn read(archive: &[u8]) -> io::Result<Vec<(Read, crate::vault::transfer::tar::read::Member)>> {
    let (mut input, mut found) = (archive, Vec::new());
    let mut reader = Reader::new(&mut input);
    while let Some(member) = reader.next()? {
        let mut content = vec![0; 100];
        let mut all = Vec::new();
        loop {
            match reader.read(&mut content)? {
                0 => break,
                read => all.extend(&content[..read]),
            }
        }
        let path = String::from_utf8_lossy(&member.path).into_owned();
        found.push(((path, member.of, member.map.bytes, member.map.runs.clone(), all), member));
    }
    Ok(found)
}

fn why(archive: &[u8]) -> String {
    read(archive).expect_err("no archive").to_string()
}

#[test]
fn names_owners_and_times_come_from_wherever_they_are() {
    let long = "long/".repeat(40) + "end";
    let globals = records(&[("uid", b"77"), ("comment", b"of all"), ("mtime", b"5.25")]);
    let locals = records(&[("path", long.as_bytes()), ("uid", b""), ("gid", b"3000000000"), ("size", b"4")]);
    let archive = ended(&[
        plain(b'g', "globals", &globals),
        plain(b'x', "locals", &locals),
        entry(b'0', "short", b"four", |header| header.set_number(&SIZE, 0)),
        plain(b'L', "././@LongLink", &[long.as_bytes(), b"\0"].concat()),
        plain(b'K', "././@LongLink", b"the target\0"),
        plain(b'2', "cut", b""),
        entry(b'3', "device", b"", |header| {
            header.set_number(&DEVMAJOR, 8);
            header.set_number(&DEVMINOR, 300);
            header.set_number(&SIZE, 99);
        }),
        plain(0, "old folder/", b""),
        entry(b'0', "early", b"", |header| header.set_number(&MTIME, -7)),
        plain(b'Z', "a kind of its own", b"skipped"),
    ]);
    let found: Vec<_> = read(&archive).expect("an archive").into_iter().map(|(_, member)| member).collect();
    let [first, link, device, folder, early, other] = &found[..] else { panic!("{found:?}") };
    assert_eq!((first.path.as_slice(), first.map.bytes), (long.as_bytes(), 4));
    assert_eq!((first.user, first.group, first.modified_ns), (1, 3_000_000_000, 5_250_000_000));
    assert_eq!((link.link.as_slice(), link.of, link.user), (&b"the target"[..], Of::SymbolicLink, 77));
    assert_eq!(link.path, long.as_bytes());
    assert_eq!((device.device, device.of), ((8, 300), Of::CharacterDevice));
    assert_eq!(folder.of, Of::Folder);
    assert_eq!(early.modified_ns, 5_250_000_000, "a global record counts for all");
    assert_eq!(other.of, Of::Unknown('Z'));
}

#[test]
fn maps_of_all_formats_are_read_and_content_is_where_they_say() {
    let mut old = Header::new(b'S');
    let content = b"0123456789";
    let run = |at: usize, start: u64, length: u64, block: &mut [u8; BLOCK_BYTES]| {
        block[at..at + 11].copy_from_slice(format!("{start:011o}").as_bytes());
        block[at + 12..at + 23].copy_from_slice(format!("{length:011o}").as_bytes());
    };
    run(386, 0, 4, &mut old.0);
    old.0[482] = 1;
    old.0[483..494].copy_from_slice(format!("{:011o}", 1_u64 << 30).as_bytes());
    let mut more = [0; BLOCK_BYTES];
    run(0, 1 << 20, 6, &mut more);
    run(24, 1 << 30, 0, &mut more);
    let mut gnu = entry(b'S', "old", content, |header| {
        header.0[386..495].copy_from_slice(&old.0[386..495]);
    });
    gnu.splice(BLOCK_BYTES..BLOCK_BYTES, more);
    let newest = records(&[
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"newest"),
        ("GNU.sparse.realsize", b"1073741824"),
    ]);
    let mut ahead = b"3\n0\n4\n1048576\n6\n1073741824\n0\n".to_vec();
    ahead.resize(BLOCK_BYTES, 0);
    ahead.extend(content);
    let zero = records(&[
        ("GNU.sparse.size", b"1073741824"),
        ("GNU.sparse.numblocks", b"2"),
        ("GNU.sparse.offset", b"0"),
        ("GNU.sparse.numbytes", b"4"),
        ("GNU.sparse.offset", b"1048576"),
        ("GNU.sparse.numbytes", b"6"),
    ]);
    let archive = ended(&[
        gnu,
        plain(b'x', "x", &newest),
        plain(b'0', "GNUSparseFile.1/newest", &ahead),
        plain(b'x', "x", &zero),
        plain(b'0', "zero", content),
    ]);
    let found = read(&archive).expect("an archive");
    let names = found.iter().map(|((name, ..), _)| name.as_str());
    assert!(names.eq(["old", "newest", "zero"]), "{found:?}");
    for ((_, of, bytes, runs, read), _) in found {
        assert_eq!(
            (of, bytes, runs, read),
            (Of::File, 1 << 30, vec![(0, 4), (1 << 20, 6)], content.to_vec())
        );
    }
}

#[test]
fn what_has_no_end_or_was_changed_is_refused_with_the_place() {
    let archive = ended(&[plain(b'0', "a", &[1; 700]), plain(b'5', "b/", b"")]);
    assert_eq!(read(&archive).map(|it| it.len()).ok(), Some(2));
    for length in 0..archive.len() {
        let said = why(&archive[..length]);
        assert!(said.contains("cut off") || said.contains("empty"), "{length}: {said}");
    }
    let mut garbage = archive.clone();
    garbage[1536 + 5] ^= 1;
    assert!(why(&garbage).contains("at byte 1536: damaged"), "{}", why(&garbage));
    let mut lone = archive;
    let end = lone.len();
    lone[end - 1] = 1;
    assert!(why(&lone).contains("damaged"));
    assert!(why(&[0x1f, 0x8b, 8, 0]).contains("gzip -dc"));
    assert!(why(b"\x28\xb5\x2f\xfdrest of a frame").contains("zstd -dc"));
    assert!(why(&[b'x'; 600]).contains("not a tar archive"));
}

#[test]
fn what_cannot_be_is_refused() {
    let sparse = |all: &[(&str, &[u8])]| {
        let size = [("GNU.sparse.major", &b"1"[..]), ("GNU.sparse.realsize", b"100")];
        let text = records(&[&size[..], all].concat());
        let mut map = b"1\n50\n10\n".to_vec();
        map.resize(BLOCK_BYTES, 0);
        why(&ended(&[plain(b'x', "x", &text), plain(b'0', "file", &map)]))
    };
    assert!(sparse(&[]).contains("has 10 of content, and 0 follow"), "{}", sparse(&[]));
    assert!(sparse(&[("GNU.sparse.minor", b"7")]).contains("format 1.7"));
    assert!(sparse(&[("GNU.sparse.numbytes", b"7")]).contains("GNU.sparse.numbytes"));
    let unending = ended(&[
        plain(b'x', "x", &records(&[("GNU.sparse.major", b"1"), ("GNU.sparse.realsize", b"100")])),
        plain(b'0', "file", &[b'1'; 100]),
    ]);
    assert!(why(&unending).contains("sparse file"));
    let bad = |flag, change: fn(&mut Header)| why(&ended(&[entry(flag, "x", b"", change)]));
    assert!(bad(b'0', |it| it.set_number(&SIZE, -1)).contains("`size` is -1"));
    assert!(bad(b'0', |it| it.0[108..116].copy_from_slice(b"nonsense")).contains("`uid`"));
    assert!(bad(b'0', |it| it.set_number(&SIZE, i64::MAX)).contains("cut off"));
    assert!(bad(b'L', |it| it.set_number(&SIZE, i64::MAX)).contains("more than"));
    for flag in [b'L', b'K', b'x', b'g'] {
        let said = bad(flag, |it| it.set_number(&SIZE, (4 << 20) + 1));
        assert!(said.contains("more than"), "{said}");
    }
    assert!(bad(b'M', |_| {}).contains("volume"));
    for record in [("path", &b"all"[..]), ("SCHILY.xattr.user.x", b"y"), ("GNU.sparse.size", b"5")] {
        let said = why(&ended(&[plain(b'g', "g", &records(&[record]))]));
        assert!(said.contains("has records of one"), "{said}");
    }
    let broken = ended(&[plain(b'x', "x", b"99 a=b\n"), plain(b'0', "x", b"")]);
    assert!(why(&broken).contains("in place of a record"));
    for flag in [b'x', b'L', b'K'] {
        assert!(why(&ended(&[plain(flag, "x", b"6 a=b\n")])).contains("without the entry"));
    }
}

#[test]
fn no_change_of_any_byte_ends_the_reader_otherwise_than_with_an_error() {
    let newest = records(&[
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.realsize", b"9000"),
        ("SCHILY.acl.access", b"user::rw-,user:5:r--,group::r--,mask::r--,other::---"),
        ("LIBARCHIVE.xattr.user.a%20b", b"AAEC"),
    ]);
    let mut ahead = b"1\n512\n10\n".to_vec();
    ahead.resize(BLOCK_BYTES + 10, 0);
    let archive = ended(&[
        plain(b'x', "x", &newest),
        plain(b'0', "file", &ahead),
        plain(b'L', "x", b"a long name\0"),
        entry(b'S', "old", b"", |header| header.0[482] = 1),
    ]);
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..3_000 {
        let mut changed = archive.clone();
        for _ in 0..=draw(3) {
            let at = draw(changed.len());
            changed[at] = [b'0', b'9', 0, 0xff, b'\n', draw(256) as u8][draw(6)];
        }
        // The checksums are right again, so that the rest is read.
        for at in [0, 1024, 2560, 3584] {
            let block: [u8; BLOCK_BYTES] = changed[at..at + BLOCK_BYTES].try_into().expect("a block");
            changed[at..at + BLOCK_BYTES].copy_from_slice(&Header(block).finished());
        }
        let _ = read(&changed);
    }
}
