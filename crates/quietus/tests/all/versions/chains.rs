//! Blocks are forgotten in all epochs, or in some: what a user sees, and what a judge with all keys finds.

use crate::versions::judge::{
    Bench, WITH_STUBS, ask, assert_opened, bring_home, content, filled, stop, try_ask, wait_until_forgotten,
    write,
};
use quietus::epochs;
use quietus::front::control::{Call, Epochs};
use quietus::open_disk::OpenDisk;
use quietus_core::base::units::{BLOCK_BYTES, Epoch, EpochRange, Extent, Scope};
use quietus_core::request::{Op, Refusal};
use quietus_seal::Seal;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn call(disk: &OpenDisk, call: &Call) -> Result<Value, String> {
    let reply = disk.reply(call, None, &mut |_, _| true);
    reply.map(|it| json!(it)).map_err(|refused| refused.to_string())
}

/// First byte and length of some blocks.
fn range(blocks: std::ops::Range<u64>) -> Vec<(u64, u64)> {
    vec![(blocks.start * BLOCK_BYTES, (blocks.end - blocks.start) * BLOCK_BYTES)]
}

fn forget(disk: &OpenDisk, blocks: std::ops::Range<u64>, current: bool) -> Result<Value, String> {
    call(disk, &Call::ForgetBlocks { ranges: range(blocks), epochs: None, current, wait: true })
}

/// Forgets what epochs show of some blocks.
fn forget_in(disk: &OpenDisk, blocks: std::ops::Range<u64>, epochs: &str) -> Result<Value, String> {
    let epochs = Some(Epochs::from(epochs));
    call(disk, &Call::ForgetBlocks { ranges: range(blocks), epochs, current: false, wait: true })
}

fn weigh(disk: &OpenDisk, blocks: std::ops::Range<u64>) -> Value {
    call(disk, &Call::WeighBlocks { ranges: range(blocks), epochs: None }).expect("a count")
}

fn weigh_in(disk: &OpenDisk, blocks: std::ops::Range<u64>, epochs: &str) -> Value {
    let epochs = Some(Epochs::from(epochs));
    call(disk, &Call::WeighBlocks { ranges: range(blocks), epochs }).expect("a count")
}

fn read_past(disk: &OpenDisk, epoch: u64, block: u64, blocks: u64) -> Result<Vec<u8>, Refusal> {
    try_ask(disk, Op::ReadPast(Epoch(epoch)), block, blocks)
}

/// In [`filled`], blocks 0 to 7 have three versions, the last of which only the current state shows.
const BLOCKS: std::ops::Range<u64> = 2..6;

/// What every block shows that was not forgotten.
fn check_others(disk: &OpenDisk) {
    for block in (0..64).filter(|block| !BLOCKS.contains(block)) {
        let is_free = (32..40).contains(&block);
        let past = if block < 16 { 2 } else { 1 };
        let wanted = |round| if is_free { vec![0; BLOCK_BYTES as usize] } else { content(block, round) };
        assert!(read_past(disk, 1, block, 1) == Ok(content(block, 1)), "block {block} in epoch 1");
        assert!(read_past(disk, 2, block, 1) == Ok(wanted(past)), "block {block} in epoch 2");
    }
    for block in 0..8 {
        assert!(ask(disk, Op::Read, block, 1) == content(block, 3), "block {block} now");
    }
}

/// Checks that no epoch shows a byte of the blocks, and that the refusal says why.
fn check_refused(disk: &OpenDisk) {
    for (epoch, block, blocks) in [(1, 2, 1), (2, 5, 1), (2, 0, 3), (1, 5, 20)] {
        let refusal = read_past(disk, epoch, block, blocks).expect_err("some of it is forgotten");
        assert!(matches!(refusal, Refusal::ForgottenBlocks(of, _) if of.0 == epoch), "{refusal}");
        assert!(refusal.to_string().contains("forgotten in epoch"), "{refusal}");
    }
}

fn judge(seal: Seal, are_at_home: bool) {
    let bench = Bench::new(seal);
    let (disk, _) = filled(&bench);
    if are_at_home {
        bring_home(&disk);
    }
    let doomed: BTreeSet<_> = BLOCKS.flat_map(|block| [(block, 1), (block, 2)]).collect();
    let [data, stubs, root] = &bench.media();
    let weighed = weigh(&disk, BLOCKS);
    assert_eq!((&weighed["dies_blocks"], &weighed["current_bytes"]), (&json!(8), &json!(0)), "{weighed}");
    assert_eq!(
        (&weighed["to"], &weighed["shown_by"]),
        (&json!(2), &json!({ "from": 1, "to": 2 })),
        "{weighed}"
    );
    forget(&disk, BLOCKS, false).expect("it is forgotten");
    check_refused(&disk);
    check_others(&disk);
    assert_eq!(weigh(&disk, BLOCKS)["dies_blocks"], 0);
    stop(disk, true);
    assert!(bench.opened([data, stubs, root]).is_superset(&doomed), "{seal:?}: the judge is blind");
    let [data, stubs, root] = &bench.media();
    let kept = [(0, 1), (0, 2), (3, 3), (20, 1)];
    assert_opened(&bench.opened([data, stubs, root]), &doomed, &kept, &format!("{seal:?}"));
    let disk = bench.open();
    check_refused(&disk);
    check_others(&disk);
    // Gaps do not outlive the epochs that have them.
    epochs::forget(&disk.engine, EpochRange { from: Epoch(1), to: Epoch(2) }).expect("it is forgotten");
    assert!(call(&disk, &Call::Shred).is_ok());
}

#[test]
fn not_even_all_keys_open_a_version_of_a_forgotten_block_and_all_others_stay() {
    for seal in WITH_STUBS {
        judge(seal, false);
        judge(seal, true);
    }
}

#[test]
fn what_the_current_state_shows_too_is_refused_until_it_is_purged() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let weighed = weigh(&disk, 6..10);
    // Blocks 8 and 9 are as epoch 2 left them.
    assert_eq!((&weighed["dies_blocks"], &weighed["current_bytes"]), (&json!(6), &json!(8192)), "{weighed}");
    let refused = forget(&disk, 6..10, false).expect_err("the current state shows two of them");
    assert!(refused.contains("8192 bytes") && refused.contains("--current"), "{refused}");
    let blocks = Extent::new(6 * BLOCK_BYTES, 4 * BLOCK_BYTES);
    let scope = Scope::chain(EpochRange { from: Epoch(1), to: Epoch(2) }, blocks);
    let refused = epochs::forget(&disk.engine, scope).expect_err("the disk itself refuses it, too");
    assert!(
        matches!(refused, Refusal::Current(Epoch(2), block) if block.start.0 == 8 * BLOCK_BYTES),
        "{refused}"
    );
    assert!(ask(&disk, Op::Read, 8, 1) == content(8, 2), "nothing has changed");
    assert!(read_past(&disk, 1, 6, 4).is_ok());
    forget(&disk, 6..10, true).expect("it is purged and forgotten");
    assert!(ask(&disk, Op::Read, 6, 4).iter().all(|byte| *byte == 0));
    assert!(read_past(&disk, 2, 9, 1).is_err());
    assert!(ask(&disk, Op::Read, 10, 1) == content(10, 2), "the next block stays");
}

#[test]
fn a_hold_on_an_epoch_that_shows_some_of_the_blocks_refuses_it_and_another_one_does_not() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let hold = |name: &str, epoch: &str| {
        let epochs = Epochs::from(epoch);
        call(&disk, &Call::Hold { name: name.into(), epochs, who: "legal".into(), why: "subpoena".into() })
    };
    hold("case-4711", "1").expect("it is held");
    let refused = forget(&disk, BLOCKS, false).expect_err("epoch 1 is held");
    assert!(refused.contains("case-4711") && refused.contains("subpoena"), "{refused}");
    assert!(weigh(&disk, BLOCKS)["held"].as_str().is_some_and(|held| held.contains("case-4711")));
    assert!(read_past(&disk, 1, 2, 4).is_ok(), "nothing has changed");
    call(&disk, &Call::Release { name: "case-4711".into() }).expect("it is released");
    // Epoch 1 alone shows blocks 32 to 39.
    hold("case-4712", "2").expect("it is held");
    forget(&disk, 32..40, false).expect("no held epoch shows them");
}

#[test]
fn parts_of_blocks_are_refused_with_the_range_that_would_do() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let refused = |start, len| {
        let ranges = vec![(start, len)];
        call(&disk, &Call::ForgetBlocks { ranges, epochs: None, current: false, wait: false })
            .expect_err("it is refused")
    };
    assert!(refused(1000, 5000).contains("use 0+8192"), "{}", refused(1000, 5000));
    assert!(refused(1 << 20, 4096).contains("1048576+4096"), "{}", refused(1 << 20, 4096));
    assert!(refused(0, 0).contains("empty"), "{}", refused(0, 0));
}

#[test]
fn the_receipt_and_the_audit_log_name_blocks_and_epochs() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let answer = forget(&disk, BLOCKS, false).expect("it is forgotten");
    assert_eq!(answer, json!({ "ranges": [{ "start": 8192, "len": 16384 }], "to": 2, "done": true }));
    disk.close(true, |_| true);
    let log = std::fs::read_to_string(bench.path().join("audit.jsonl")).expect("the log");
    let scope = r#""epochs":{"from":1,"to":2,"blocks":{"start":8192,"len":16384}}"#;
    assert!(log.contains(scope), "{log}");
    let forgets = log.lines().find(|line| line.contains(r#""event":"forgets""#)).expect("a line");
    assert!(forgets.contains(r#""blocks":{"start":8192,"len":16384}"#), "{forgets}");
}

#[test]
fn a_difference_counts_what_is_forgotten_and_a_restore_says_that_it_cannot_bring_it_back() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    // Epoch 1 alone has these; what it had is not known any more, and so a backup since then must take them.
    forget(&disk, 32..34, false).expect("it is forgotten");
    let diff =
        call(&disk, &Call::Diff { from: "1".into(), to: Some("2".into()), start: 0, ranges: Vec::new() })
            .expect("a list");
    let ranges = diff["ranges"].as_array().expect("ranges");
    assert!(ranges.contains(&json!({ "start": 32 * BLOCK_BYTES, "len": 8 * BLOCK_BYTES })), "{diff}");
    let refused = call(&disk, &Call::Restore { at: "1".into() }).expect_err("a part of it is gone");
    assert!(refused.contains("8192 bytes at 131072 are forgotten"), "{refused}");
    assert!(ask(&disk, Op::Read, 0, 1) == content(0, 3), "nothing was written");
}

#[test]
fn a_forget_that_is_killed_at_once_goes_on_at_the_next_start() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let call = Call::ForgetBlocks { ranges: range(BLOCKS), epochs: None, current: false, wait: false };
    disk.reply(&call, None, &mut |_, _| true).expect("the intent is durable");
    stop(disk, false);
    let disk = bench.open();
    check_refused(&disk);
    wait_until_forgotten(&disk);
    check_refused(&disk);
    check_others(&disk);
    write(&disk, 2..3, 1);
    assert!(ask(&disk, Op::Read, 2, 1) == content(2, 1), "the current state takes new content there");
}

/// What is left of [`filled`] once epoch 1 has forgotten [`BLOCKS`] and blocks 32 to 35, which epoch 2 shows as zeros.
fn check_first_forgotten(disk: &OpenDisk, what: &str) {
    for block in 0..64 {
        let past = if block < 16 { 2 } else { 1 };
        let wanted =
            if (32..40).contains(&block) { vec![0; BLOCK_BYTES as usize] } else { content(block, past) };
        assert!(read_past(disk, 2, block, 1) == Ok(wanted), "{what}: block {block} in epoch 2");
        let first = read_past(disk, 1, block, 1);
        if BLOCKS.contains(&block) || (32..36).contains(&block) {
            let outline = Extent::new(block * BLOCK_BYTES, BLOCK_BYTES);
            let refusal = first.expect_err("it is forgotten");
            assert_eq!(refusal, Refusal::ForgottenBlocks(Epoch(1), outline), "{what}");
        } else {
            assert!(first == Ok(content(block, 1)), "{what}: block {block} in epoch 1");
        }
    }
    (0..8)
        .for_each(|block| assert!(ask(disk, Op::Read, block, 1) == content(block, 3), "{what}: {block} now"));
}

fn judge_shown(seal: Seal, are_at_home: bool) {
    let bench = Bench::new(seal);
    let (disk, _) = filled(&bench);
    if are_at_home {
        bring_home(&disk);
    }
    let doomed: BTreeSet<_> = BLOCKS.chain(32..36).map(|block| (block, 1)).collect();
    let before = bench.media();
    let weighed = weigh_in(&disk, BLOCKS, "1");
    let counted = (&weighed["from"], &weighed["to"], &weighed["dies_blocks"], &weighed["current_bytes"]);
    assert_eq!(counted, (&json!(1), &json!(1), &json!(4), &json!(0)), "{weighed}");
    forget_in(&disk, BLOCKS, "1").expect("only epoch 1 shows these");
    forget_in(&disk, 32..36, "1").expect("epoch 2 shows zeros");
    check_first_forgotten(&disk, "at once");
    assert_eq!(weigh_in(&disk, BLOCKS, "1")["dies_blocks"], 0);
    stop(disk, true);
    assert!(
        bench.opened(before.each_ref().map(|it| &it[..])).is_superset(&doomed),
        "{seal:?}: the judge is blind"
    );
    let kept = [(0, 1), (2, 2), (3, 2), (3, 3), (20, 1), (36, 1)];
    assert_opened(
        &bench.opened(bench.media().each_ref().map(|it| &it[..])),
        &doomed,
        &kept,
        &format!("{seal:?}"),
    );
    let disk = bench.open();
    check_first_forgotten(&disk, "after a start");
    // The rest of the epoch can still be forgotten, and nothing of it is left then.
    epochs::forget(&disk.engine, EpochRange { from: Epoch(1), to: Epoch(1) }).expect("it is forgotten");
    wait_until_forgotten(&disk);
    assert!(read_past(&disk, 2, 0, 16).is_ok());
    stop(disk, true);
    let doomed = (0..16).chain(32..40).map(|block| (block, 1)).collect();
    assert_opened(
        &bench.opened(bench.media().each_ref().map(|it| &it[..])),
        &doomed,
        &[(2, 2), (20, 1)],
        &format!("{seal:?}"),
    );
}

#[test]
fn one_version_of_some_blocks_is_forgotten_and_all_others_of_these_blocks_stay() {
    for seal in WITH_STUBS {
        judge_shown(seal, false);
        judge_shown(seal, true);
    }
}

#[test]
fn what_another_epoch_or_the_current_state_shows_too_is_refused_by_name() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let refused = forget_in(&disk, 20..22, "1").expect_err("the current state shows both");
    assert!(refused.contains("current state shows 8192 bytes"), "{refused}");
    // Now both epochs show the first version of block 20, and nothing else does.
    write(&disk, 20..21, 3);
    let weighed = weigh_in(&disk, 20..21, "2");
    assert_eq!((&weighed["dies_blocks"], &weighed["others_bytes"]), (&json!(0), &json!(4096)), "{weighed}");
    for epoch in ["1", "2"] {
        let refused = forget_in(&disk, 20..21, epoch).expect_err("the other epoch shows it");
        assert!(refused.contains("4096 bytes") && refused.contains("name epochs 1 to 2"), "{refused}");
    }
    let scope = |epoch| {
        let epochs = EpochRange { from: Epoch(epoch), to: Epoch(epoch) };
        Scope::shown(epochs, Extent::new(20 * BLOCK_BYTES, BLOCK_BYTES))
    };
    for (epoch, other) in [(1, 2), (2, 1)] {
        let refused =
            epochs::forget(&disk.engine, scope(epoch)).expect_err("the disk itself refuses it, too");
        let wanted = Refusal::Shared(Epoch(epoch), Epoch(other), scope(1).blocks().expect("a block"));
        assert_eq!(refused, wanted);
    }
    assert!(read_past(&disk, 1, 20, 2).is_ok() && read_past(&disk, 2, 20, 2).is_ok(), "nothing has changed");
    forget_in(&disk, 20..21, "1..2").expect("both epochs are named");
    assert!(read_past(&disk, 1, 20, 1).is_err() && read_past(&disk, 2, 20, 1).is_err());
    assert!(ask(&disk, Op::Read, 20, 1) == content(20, 3));
}

#[test]
fn a_hold_on_any_epoch_that_shows_a_version_keeps_it() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let hold = |name: &str, epochs: &str| {
        let (name, epochs) = (name.into(), Epochs::from(epochs));
        call(&disk, &Call::Hold { name, epochs, who: "legal".into(), why: "subpoena".into() })
    };
    hold("case-4711", "1").expect("it is held");
    let refused = forget_in(&disk, BLOCKS, "1").expect_err("epoch 1 is held");
    assert!(refused.contains("case-4711"), "{refused}");
    forget_in(&disk, BLOCKS, "2").expect("what epoch 2 shows of them, epoch 1 does not");
    assert!(read_past(&disk, 1, 2, 4).is_ok() && read_past(&disk, 2, 2, 1).is_err());
}

#[test]
fn a_forget_in_one_epoch_is_on_record_differs_in_comparisons_and_cannot_be_restored() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    let answer = forget_in(&disk, 32..34, "1").expect("it is forgotten");
    let ranges = json!([{ "start": 32 * BLOCK_BYTES, "len": 8192 }]);
    assert_eq!(answer, json!({ "ranges": ranges, "from": 1, "to": 1, "done": true }));
    let diff =
        call(&disk, &Call::Diff { from: "1".into(), to: Some("2".into()), start: 0, ranges: Vec::new() })
            .expect("a list");
    let found = diff["ranges"].as_array().expect("ranges");
    assert!(found.contains(&json!({ "start": 32 * BLOCK_BYTES, "len": 8 * BLOCK_BYTES })), "{diff}");
    let refused = call(&disk, &Call::Restore { at: "1".into() }).expect_err("a part of it is gone");
    assert!(refused.contains("4096 bytes at 131072 are forgotten"), "{refused}");
    assert!(ask(&disk, Op::Read, 0, 1) == content(0, 3), "nothing was written");
    // Another state of the same blocks can.
    call(&disk, &Call::Restore { at: "2".into() }).expect("epoch 2 is whole");
    assert!(ask(&disk, Op::Read, 0, 1) == content(0, 2));
    disk.close(true, |_| true);
    let log = std::fs::read_to_string(bench.path().join("audit.jsonl")).expect("the log");
    let scope = r#""from":1,"to":1,"blocks":{"start":131072,"len":8192},"only":true"#;
    assert_eq!(log.matches(scope).count(), 2, "the intent, and the receipt: {log}");
}

#[test]
fn a_forget_in_one_epoch_that_is_killed_at_once_shows_nothing_and_goes_on_at_the_next_start() {
    let bench = Bench::new(Seal::RandomKey);
    let (disk, _) = filled(&bench);
    for blocks in [BLOCKS, 32..36] {
        let call = Call::ForgetBlocks {
            ranges: range(blocks),
            epochs: Some(Epochs::from("1")),
            current: false,
            wait: false,
        };
        disk.reply(&call, None, &mut |_, _| true).expect("the intent is durable");
    }
    assert!(read_past(&disk, 1, 2, 1).is_err() && read_past(&disk, 1, 35, 1).is_err(), "from the reply on");
    stop(disk, false);
    let disk = bench.open();
    assert!(read_past(&disk, 1, 2, 1).is_err() && read_past(&disk, 1, 35, 1).is_err(), "after a start, too");
    wait_until_forgotten(&disk);
    check_first_forgotten(&disk, "in the end");
}
