//! Which epochs change a range, and where a part of two states differs: as the control socket answers.

use crate::versions::judge::{Bench, filled};
use quietus::front::control::{Call, LivesAt};
use quietus::open_disk::OpenDisk;
use quietus_core::base::units::BLOCK_BYTES;
use quietus_seal::Seal;
use serde_json::{Value, json};
use std::ops::Range;

fn call(disk: &OpenDisk, call: &Call) -> Result<Value, String> {
    let reply = disk.reply(call, None, &mut |_, _| true);
    reply.map(|it| json!(it)).map_err(|refused| refused.to_string())
}

/// First byte and length of some runs of blocks.
fn ranges(runs: &[Range<u64>]) -> Vec<(u64, u64)> {
    runs.iter().map(|run| (run.start * BLOCK_BYTES, (run.end - run.start) * BLOCK_BYTES)).collect()
}

fn lives(disk: &OpenDisk, from: &str, runs: &[Range<u64>], start: Option<LivesAt>) -> Result<Value, String> {
    call(disk, &Call::Lives { from: from.into(), ranges: ranges(runs), start })
}

fn diff(disk: &OpenDisk, runs: &[Range<u64>]) -> Result<Value, String> {
    call(disk, &Call::Diff { from: "1".into(), to: Some("2".into()), start: 0, ranges: ranges(runs) })
}

// In `filled`, epoch 2 writes blocks 0 to 15 and frees blocks 32 to 39; the open epoch writes blocks 0 to 7.

#[test]
fn each_range_has_the_epochs_that_change_it() {
    let bench = Bench::new(Seal::None);
    let (disk, _) = filled(&bench);
    let runs = [0..4, 16..32, 30..33, 100..101];
    let answer = lives(&disk, "1", &runs, None).expect("an answer");
    assert_eq!(answer["ranges"], json!([[2], [], [2], []]), "{answer}");
    let epochs = answer["epochs"].as_array().expect("epochs");
    assert_eq!((epochs.len(), &epochs[0]["epoch"], &epochs[0]["before"]), (1, &json!(2), &json!(1)));
    assert!(epochs[0]["closed"].is_string() && answer["next"].is_null(), "{answer}");
    let rest = lives(&disk, "1", &runs, Some(LivesAt { range: 1, block: 31, epoch: 2 })).expect("an answer");
    assert_eq!(rest["ranges"], json!([[], [], [2], []]), "{rest}");
    let none = lives(&disk, "2", &runs, None).expect("an answer");
    assert_eq!((&none["ranges"], &none["epochs"]), (&json!([[], [], [], []]), &json!([])));
    let why = lives(&disk, "1", &[0..1, 0..1 << 40], None).expect_err("the disk is smaller");
    assert!(why.contains("not within the disk"), "{why}");
}

#[test]
fn a_part_of_two_states_is_compared() {
    let bench = Bench::new(Seal::None);
    let (disk, _) = filled(&bench);
    let answer = diff(&disk, &[8..20, 30..33, 50..60]).expect("an answer");
    let [one, other] =
        [(8, 8), (32, 1)].map(|(at, n)| json!({ "start": at * BLOCK_BYTES, "len": n * BLOCK_BYTES }));
    assert_eq!((&answer["ranges"], &answer["next"]), (&json!([one, other]), &Value::Null), "{answer}");
    let why = diff(&disk, &[30..33, 8..20]).expect_err("out of order");
    assert!(why.contains("before the end of the one before"), "{why}");
}
