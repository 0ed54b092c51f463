//! Files that are forgotten in all epochs, or in some: their content is gone, and all else is as it was.

use super::files::Guest;
use crate::nbd::watched::ext2::tool;
use crate::program::{error, quietus, told, wait_until};
use serde_json::Value;
use std::process::Output;

const BLOCK: u64 = 4096;
const EXT4: [&str; 4] = ["-t", "ext4", "-b", "4096"];

/// Content of a file, in which each line says whose it is.
fn content(name: &str, version: u32, lines: usize) -> String {
    (0..lines).map(|n| format!("{name} {version} line {n}\n")).collect()
}

fn forget(guest: &Guest, rest: &str, args: &[&str]) -> Output {
    let output = quietus().args(["--json", "forget", &guest.target(rest)]).args(args).output();
    crate::schemas::checked(output.expect("it runs"))
}

/// What a forget says that succeeds with this status.
fn answer(guest: &Guest, rest: &str, args: &[&str], status: i32) -> Value {
    let output = forget(guest, rest, args);
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    serde_json::from_str(&told(&output)).expect("JSON")
}

/// What `cat` says of a file that is forgotten.
fn assert_gone(guest: &Guest, rest: &str) {
    let (status, why) = error(&guest.run("cat", rest, &[]));
    assert!(status != Some(0) && why.contains("forgotten"), "{rest}: {status:?} {why}");
}

/// Deletes a file, and lets its blocks be trimmed.
fn delete(guest: &Guest, name: &str, block_bytes: u64) {
    let blocks = guest.blocks(name);
    guest.change(&[&format!("rm {name}")]);
    guest.zero(&blocks, block_bytes);
}

/// A disk with a letter in two versions, and files beside it, in epochs 1 to 5; the letter is deleted in the fourth.
fn written(guest: &mut Guest, block_bytes: u64) {
    guest.change(&["mkdir home"]);
    guest.write("home/letter", &content("letter", 1, 2000));
    guest.write("home/other", &content("other", 1, 2000));
    assert_eq!(guest.close(), 1);
    guest.write("home/more", &content("more", 1, 20));
    assert_eq!(guest.close(), 2);
    delete(guest, "home/letter", block_bytes);
    guest.write("home/letter", &content("letter", 2, 900));
    assert_eq!(guest.close(), 3);
    delete(guest, "home/letter", block_bytes);
    assert_eq!(guest.close(), 4);
    guest.write("home/last", &content("last", 1, 900));
    assert_eq!(guest.close(), 5);
}

/// All that is not of the letter.
fn check_others(guest: &Guest) {
    for epoch in 1..=5 {
        assert_eq!(guest.cat(&format!("@{epoch}:/home/other"), &[]), content("other", 1, 2000));
    }
    assert_eq!(guest.cat("@2:/home/more", &[]), content("more", 1, 20));
    assert_eq!(guest.cat(":/home/last", &[]), content("last", 1, 900));
}

#[test]
fn a_file_is_forgotten_in_all_epochs_and_all_other_files_of_each_epoch_stay() {
    let mut guest = Guest::new(&EXT4);
    let server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    written(&mut guest, BLOCK);
    let weighed = answer(&guest, ":/home/letter", &["--dry-run"], 0);
    let bytes = |version, lines| content("letter", version, lines).len() as u64;
    let blocks = bytes(1, 2000).div_ceil(BLOCK) + bytes(2, 900).div_ceil(BLOCK);
    assert_eq!((&weighed["dies_blocks"], &weighed["witnesses"]), (&blocks.into(), &2.into()), "{weighed}");
    assert_eq!(weighed["shown_by"], serde_json::json!({"from": 1, "to": 3}), "{weighed}");
    let stays = &weighed["stays"];
    assert_eq!((&stays["current_blocks"], &stays["others_blocks"]), (&0.into(), &0.into()), "{weighed}");
    assert_eq!(weighed["unnamed_blocks"], 0, "{weighed}");
    assert_eq!(guest.cat("@1:/home/letter", &[]), content("letter", 1, 2000), "a dry run changes nothing");

    let done = answer(&guest, ":/home/letter", &["--wait"], 0);
    assert_eq!((&done["done"], &done["dies_blocks"]), (&true.into(), &blocks.into()), "{done}");
    ["@1:/home/letter", "@2:/home/letter", "@3:/home/letter"].iter().for_each(|it| assert_gone(&guest, it));
    check_others(&guest);
    // The names stay, and there is nothing more to forget.
    assert_eq!(guest.json("history", ":/home/letter", &[])[0]["unreadable"], serde_json::json!([]));
    let again = answer(&guest, ":/home/letter", &["--wait"], 0);
    assert_eq!((&again["dies_blocks"], &again["sets"]), (&0.into(), &serde_json::json!([])), "{again}");
    // A copy of an epoch has zeros in the place of the content, if that is asked for.
    let image = guest.bench.disk.beside("copy");
    let image = image.to_str().expect("text");
    let (status, why) = error(&guest.run("export", "@1", &[image]));
    assert!(status == Some(3) && why.contains("--gone zeros"), "{status:?} {why}");
    let copied = &guest.json("export", "@1", &[image, "--gone", "zeros"])[0];
    assert_eq!(copied["gone_bytes"].as_u64(), Some(bytes(1, 2000).div_ceil(BLOCK) * BLOCK), "{copied}");
    tool("e2fsck", &["-fn", image]);
    assert_eq!(tool("debugfs", &["-R", "cat home/other", image]), content("other", 1, 2000));
    let zeros = tool("debugfs", &["-R", "cat home/letter", image]);
    assert!(zeros.len() as u64 == bytes(1, 2000) && zeros.bytes().all(|byte| byte == 0), "{zeros:?}");
    // The audit log has the number of the set, and no name.
    let set = done["sets"][0].as_str().expect("a number");
    let log = guest.bench.disk.path().join("audit.jsonl");
    let has = |what: &str| std::fs::read_to_string(&log).expect("a log").contains(what);
    wait_until(|| has(set));
    assert!(!has("letter"));
    drop(server);
    let key = ["--key-file", &guest.bench.key];
    assert_eq!(guest.cat("@3:/home/other", &key), content("other", 1, 2000));
}

#[test]
fn some_versions_of_a_file_are_forgotten_by_number_or_up_to_an_epoch() {
    let mut guest = Guest::new(&EXT4);
    let _server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    written(&mut guest, BLOCK);
    answer(&guest, ":/home/letter", &["--versions", "2", "--wait"], 0);
    assert_gone(&guest, "@3:/home/letter");
    assert_eq!(guest.cat("@1:/home/letter", &[]), content("letter", 1, 2000));
    // Epoch 2 shows what epoch 1 does.
    let done = answer(&guest, ":/home/letter", &["--before", "1", "--wait"], 0);
    assert_eq!(done["dies_blocks"], 0, "{done}");
    assert!(done["stays"]["unmeant_blocks"].as_u64() > Some(5), "{done}");
    answer(&guest, ":/home/letter", &["--before", "2", "--wait"], 0);
    assert_gone(&guest, "@1:/home/letter");
    check_others(&guest);
}

#[test]
fn what_the_current_state_or_another_file_has_too_stays_and_is_counted() {
    // Blocks of the disk have four of the file system: the last one of a file has others, too.
    let mut guest = Guest::new(&["-t", "ext4", "-b", "1024"]);
    let _server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    written(&mut guest, 1024);
    let done = answer(&guest, ":/home/letter", &["--wait"], 3);
    assert!(done["dies_blocks"].as_u64() > Some(5), "{done}");
    assert!((1..9).contains(&done["stays"]["others_blocks"].as_u64().expect("a number")), "{done}");
    check_others(&guest);
    let done = answer(&guest, ":/home/other", &["--wait"], 3);
    assert!(done["dies_blocks"].as_u64() < Some(3), "what it shares with others has changed: {done}");
    assert!(done["stays"]["current_blocks"].as_u64() > Some(5), "{done}");
    assert_eq!(guest.cat(":/home/other", &[]), content("other", 1, 2000));
}

#[test]
fn evidence_that_a_guest_points_a_doomed_file_at_stays() {
    let mut guest = Guest::new(&["-t", "ext2", "-b", "4096"]);
    let _server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    guest.write("letter", &content("letter", 1, 600));
    guest.write("evidence", &content("evidence", 1, 600));
    assert_eq!(guest.close(), 1);
    // In epoch 2 the letter says that it has what the evidence has, and the inode table.
    let evidence = guest.blocks("evidence");
    let own = guest.blocks("letter");
    guest.change(&[
        &format!("sif letter block[1] {}", evidence[0]),
        &format!("sif letter block[2] {}", evidence[1]),
        &format!("sif letter block[3] {}", guest.inode_block("letter")),
    ]);
    assert_eq!(guest.close(), 2);
    delete(&guest, "evidence", BLOCK);
    guest.change(&["rm letter"]);
    guest.zero(&own, BLOCK);
    assert_eq!(guest.close(), 3);
    let done = answer(&guest, ":/letter", &["--wait"], 3);
    assert!(done["stays"]["others_blocks"].as_u64() >= Some(3), "{done}");
    assert_gone(&guest, "@1:/letter");
    for epoch in [1, 2] {
        assert_eq!(guest.cat(&format!("@{epoch}:/evidence"), &[]), content("evidence", 1, 600));
    }
}

#[test]
fn files_below_a_folder_are_forgotten_by_a_pattern_and_the_folder_itself_is_not() {
    let mut guest = Guest::new(&EXT4);
    let _server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    written(&mut guest, BLOCK);
    let (status, why) = error(&guest.run("forget", ":/home", &[]));
    assert!(status == Some(1) && why.contains(":/home/**"), "{status:?} {why}");
    let done = answer(&guest, ":/home/l*", &["--wait"], 3);
    assert!(done["stays"]["current_blocks"].as_u64() > Some(0), "{done}");
    assert_gone(&guest, "@1:/home/letter");
    check_others(&guest);
}

#[test]
fn what_cannot_be_done_is_refused_and_nothing_is_forgotten() {
    let mut guest = Guest::new(&["-t", "ext4", "-b", "4096", "-O", "meta_bg,^resize_inode"]);
    let _server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    written(&mut guest, BLOCK);
    let refused = |rest: &str, args: &[&str], status: i32, why: &str| {
        let (found, said) = error(&guest.run("forget", rest, args));
        assert!(found == Some(status) && said.contains(why), "{rest} {args:?}: {found:?} {said}");
        assert_eq!(guest.cat("@1:/home/letter", &[]), content("letter", 1, 2000));
    };
    refused(":/home/letter", &[], 1, "--one-witness");
    refused(":/nothing", &[], 1, "no kept epoch has such a file");
    refused("@1..2:/home/letter", &[], 2, "--before");
    refused(":/home/letter", &["--versions", "0"], 2, "invalid numbers");
    refused(":/home/l*", &["--versions", "1"], 2, "--before");
    refused(":/home/letter", &["--before", "99"], 1, "99");
    refused("", &["--before", "1"], 2, ":/PATH");
    refused(":/home/letter", &["--chain", "4096+4096"], 2, "--chain");
    let held = guest.run("hold", "@2", &["--name", "case", "--who", "court", "--why", "asked"]);
    assert!(held.status.success());
    refused(":/home/letter", &["--one-witness"], 1, "case");
    let weighed = answer(&guest, ":/home/letter", &["--one-witness", "--dry-run"], 0);
    assert!(weighed["held"].as_str().is_some_and(|it| it.contains("case")), "{weighed}");
    assert!(guest.run("release", "", &["case"]).status.success());
    let done = answer(&guest, ":/home/letter", &["--one-witness", "--wait"], 0);
    assert_eq!(done["witnesses"], 1, "{done}");
    assert_gone(&guest, "@2:/home/letter");
    check_others(&guest);
}

#[test]
fn content_within_metadata_stays_and_is_counted() {
    let mut guest = Guest::new(&["-t", "ext4", "-b", "4096", "-I", "256", "-O", "inline_data"]);
    let _server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    guest.write("small", "a few words");
    assert_eq!(guest.close(), 1);
    guest.change(&["rm small"]);
    assert_eq!(guest.close(), 2);
    let done = answer(&guest, ":/small", &["--wait"], 3);
    assert_eq!((&done["dies_blocks"], &done["stays"]["inline_files"]), (&0.into(), &1.into()), "{done}");
    assert_eq!(guest.cat("@1:/small", &[]), "a few words");
}

#[test]
fn a_file_of_fat_is_what_each_epoch_has_at_the_path() {
    let mut guest = Guest::fat();
    let _server = guest.bench.disk.serve(&["--key-file", &guest.bench.key, "--detect", "off"]);
    guest.put("LETTER.TXT", &content("letter", 1, 2000));
    guest.put("OTHER.TXT", &content("other", 1, 2000));
    assert_eq!(guest.close(), 1);
    // The next file has the place of the letter, also in the folder.
    guest.take("LETTER.TXT");
    guest.put("LATER.TXT", &content("later", 1, 3000));
    assert_eq!(guest.close(), 2);
    let (status, why) = error(&guest.run("forget", ":/LETTER.TXT", &[]));
    assert!(status == Some(1) && why.contains("--one-witness"), "{status:?} {why}");
    let done = answer(&guest, ":/letter.txt", &["--one-witness", "--wait"], 3);
    assert!(done["dies_blocks"].as_u64() > Some(5), "{done}");
    assert!(done["stays"]["others_blocks"].as_u64() < Some(3), "{done}");
    assert_gone(&guest, "@1:/LETTER.TXT");
    assert_eq!(guest.cat("@1:/OTHER.TXT", &[]), content("other", 1, 2000));
    assert_eq!(guest.cat("@2:/LATER.TXT", &[]), content("later", 1, 3000));
}
