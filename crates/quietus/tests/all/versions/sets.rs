//! Parts of versions that lie anywhere are forgotten as one: what a user sees, and what a judge with all keys finds.

use crate::versions::judge::{
    Bench, WITH_STUBS, ask, assert_opened, bring_home, content, filled, stop, try_ask, wait_until_forgotten,
    write,
};
use quietus::front::control::{Call, Epochs};
use quietus::open_disk::OpenDisk;
use quietus_core::base::units::{BLOCK_BYTES, Epoch, Extent};
use quietus_core::request::{Op, Refusal};
use quietus_seal::Seal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Range;

/// Blocks, and the first and the last epoch of which they are to be forgotten.
type Part = (Range<u64>, u64, u64);

/// What [`filled`] has in blocks 2 to 5 in epoch 1, and in two of these in epoch 2, and in blocks 32 to 35, which epoch 2 shows as zeros.
fn parts() -> Vec<Part> {
    vec![(2..6, 1, 1), (4..6, 2, 2), (32..36, 1, 1)]
}

fn doomed() -> BTreeSet<(u64, u64)> {
    let all = parts().into_iter();
    all.flat_map(|(blocks, from, to)| {
        blocks.flat_map(move |block| (from..=to).map(move |epoch| (block, epoch)))
    })
    .collect()
}

/// The line of a call.
fn line(parts: &[Part], wait: bool) -> Value {
    let parts: Vec<_> = parts
        .iter()
        .map(|(blocks, from, to)| {
            (blocks.start * BLOCK_BYTES, (blocks.end - blocks.start) * BLOCK_BYTES, from, to)
        })
        .collect();
    json!({ "call": "forget-parts", "parts": parts, "wait": wait })
}

/// The answer to a call that came as a line of JSON.
fn call(disk: &OpenDisk, line: Value) -> Result<Value, String> {
    let call: Call = serde_json::from_value(line).expect("a call");
    let reply = disk.reply(&call, None, &mut |_, _| true);
    reply.map(|it| json!(it)).map_err(|refused| refused.to_string())
}

fn forget(disk: &OpenDisk, parts: &[Part]) -> Result<Value, String> {
    call(disk, line(parts, true))
}

fn read_past(disk: &OpenDisk, epoch: u64, block: u64) -> Result<Vec<u8>, Refusal> {
    try_ask(disk, Op::ReadPast(Epoch(epoch)), block, 1)
}

/// Checks what each epoch and the current state show of [`filled`], if these versions are forgotten.
fn check(disk: &OpenDisk, doomed: &BTreeSet<(u64, u64)>, what: &str) {
    for block in 0..64 {
        for epoch in [1, 2] {
            let read = read_past(disk, epoch, block);
            if doomed.contains(&(block, epoch)) {
                let outline = Extent::new(block * BLOCK_BYTES, BLOCK_BYTES);
                assert_eq!(read, Err(Refusal::ForgottenBlocks(Epoch(epoch), outline)), "{what}");
                continue;
            }
            let round = if block < 16 { epoch } else { 1 };
            let is_free = epoch == 2 && (32..40).contains(&block);
            let wanted = if is_free { vec![0; BLOCK_BYTES as usize] } else { content(block, round) };
            assert!(read == Ok(wanted), "{what}: block {block} in epoch {epoch}");
        }
    }
    (0..8)
        .for_each(|block| assert!(ask(disk, Op::Read, block, 1) == content(block, 3), "{what}: {block} now"));
}

fn judge(seal: Seal, are_at_home: bool) {
    let bench = Bench::new(seal);
    let (disk, _) = filled(&bench);
    if are_at_home {
        bring_home(&disk);
    }
    let before = bench.media();
    let answer = forget(&disk, &parts()).expect("no other epoch shows any of it");
    assert_eq!((&answer["parts"], &answer["done"]), (&json!(3), &json!(true)), "{answer}");
    check(&disk, &doomed(), "at once");
    stop(disk, true);
    let opened = |media: &[Vec<u8>; 3]| bench.opened(media.each_ref().map(|it| &it[..]));
    assert!(opened(&before).is_superset(&doomed()), "{seal:?}: the judge is blind");
    let kept = [(0, 1), (0, 2), (2, 2), (3, 3), (4, 3), (20, 1), (36, 1)];
    assert_opened(&opened(&bench.media()), &doomed(), &kept, &format!("{seal:?}"));
    let disk = bench.open();
    check(&disk, &doomed(), "after a start");
}

#[test]
fn not_even_all_keys_open_a_version_of_a_set_and_all_others_stay() {
    for seal in WITH_STUBS {
        judge(seal, false);
        judge(seal, true);
    }
}

#[test]
fn a_part_that_another_epoch_or_the_current_state_shows_refuses_the_whole_set() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let mut all = parts();
    all.push((40..41, 1, 2));
    let refused = forget(&disk, &all).expect_err("the current state shows block 40");
    assert!(refused.contains("current state") && refused.contains("163840"), "{refused}");
    check(&disk, &BTreeSet::new(), "nothing has died");
    write(&disk, 40..41, 3);
    all[3].2 = 1;
    let refused = forget(&disk, &all).expect_err("epoch 2 shows block 40, too");
    assert!(refused.contains("epoch 2 shows at 163840"), "{refused}");
    check(&disk, &BTreeSet::new(), "nothing has died");
    all[3].2 = 2;
    forget(&disk, &all).expect("both epochs are named");
    let doomed = doomed().into_iter().chain([(40, 1), (40, 2)]).collect();
    check(&disk, &doomed, "all has died");
}

#[test]
fn a_hold_on_an_epoch_of_any_part_refuses_the_whole_set() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let hold = Call::Hold {
        name: "case-4711".into(),
        epochs: Epochs::from("2"),
        who: "legal".into(),
        why: "subpoena".into(),
    };
    call(&disk, json!(hold)).expect("it is held");
    let refused = forget(&disk, &parts()).expect_err("epoch 2 is held");
    assert!(refused.contains("case-4711") && refused.contains("subpoena"), "{refused}");
    check(&disk, &BTreeSet::new(), "nothing has died");
    let others: Vec<Part> = parts().into_iter().filter(|part| part.1 == 1).collect();
    forget(&disk, &others).expect("no part is of a held epoch");
    assert!(read_past(&disk, 2, 4).is_ok() && read_past(&disk, 1, 4).is_err());
}

#[test]
fn a_set_that_is_killed_at_once_shows_nothing_and_goes_on_at_the_next_start() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let answer = call(&disk, line(&parts(), false)).expect("the intent is durable");
    assert_eq!(answer["done"], false);
    check(&disk, &doomed(), "from the reply on");
    stop(disk, false);
    let disk = bench.open();
    check(&disk, &doomed(), "after a start, too");
    wait_until_forgotten(&disk);
    check(&disk, &doomed(), "in the end");
}

#[test]
fn the_receipt_and_the_audit_log_name_a_set_by_its_number_and_its_epochs() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let answer = forget(&disk, &parts()).expect("it is forgotten");
    let set = answer["set"].as_str().expect("a number");
    disk.close(true, |_| true);
    let log = std::fs::read_to_string(bench.path().join("audit.jsonl")).expect("the log");
    let scope = format!(r#""from":1,"to":2,"set":"{set}""#);
    assert_eq!(log.matches(&scope).count(), 2, "the intent, and the receipt: {log}");
    // The versions of ten blocks.
    let receipt =
        log.lines().find(|line| line.contains(&scope) && line.contains("receipt")).expect("a receipt");
    assert!(receipt.contains("40960"), "{receipt}");
}

#[test]
fn parts_that_are_no_set_are_refused_with_the_remedy() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let refused = |parts: Vec<[u64; 4]>| {
        call(&disk, json!({ "call": "forget-parts", "parts": parts, "wait": false }))
            .expect_err("it is refused")
    };
    let (one, two) = ([0, 4096, 1, 1], [4096, 4096, 1, 1]);
    let cases = [
        (vec![], "0 parts; name 1 to 8192"),
        (vec![one; 8193], "8193 parts; name 1 to 8192"),
        (vec![two, one], "not in order"),
        (vec![one, one], "name each once"),
        (vec![[0, 4096, 2, 2], one], "not in order"),
        (vec![one, [4096, 100, 1, 1]], "use 4096+4096"),
        (vec![one, [6000, 4096, 1, 1]], "use 4096+8192"),
        (vec![one, [4096, 0, 1, 1]], "empty"),
        (vec![one, [1 << 40, 4096, 1, 1]], "not within the disk"),
        (vec![one, [4096, 4096, 2, 1]], "part 1 (4096+4096) is of epochs 2 to 1"),
        (vec![one, [4096, 4096, 1, 3]], "epoch 2 is the last"),
    ];
    for (parts, why) in cases {
        let refused = refused(parts);
        assert!(refused.contains(why), "{refused}");
    }
    check(&disk, &BTreeSet::new(), "nothing has died");
}
