//! The oracles are tested with a disk that lies: they must object.

use crate::guests::world::*;
use crate::verdict::Oracle;
use quietus_core::base::units::Pos;
use quietus_core::media::medium::Medium;
use quietus_core::owed::ledger::Cause;
use quietus_core::request::{Refusal, Reply};
use quietus_core::volume::{Done, Receipt};

const BLOCK: u64 = 4096;

fn spot() -> Extent<Addr> {
    Extent::new(2 * BLOCK, BLOCK)
}

fn world() -> World {
    let setup = Setup { policy: "purge-2", punch: true, in_flight_max: 4, ..Setup::plain(16 * BLOCK) };
    World::new(&History { seed: 0, setup, steps: Vec::new() }).expect("a new disk opens")
}

/// A disk with content at the spot, on the medium.
fn written() -> World {
    let mut world = world();
    for (tag, ask) in [(1, Ask::Write), (2, Ask::Flush)] {
        world.send(Tag(tag), ask, spot(), false).expect("it is sent");
        world.until(|world| world.pending.is_empty()).expect("it is done");
    }
    world
}

/// Writes a pattern of this byte over the spot, behind the disk's back.
fn overwrite(world: &World, byte: u8) {
    world.server.media.data.write(Pos(spot().start.0), &[byte; BLOCK as usize], true).expect("a write");
}

fn objection(result: Judged) -> Oracle {
    result.expect_err("an oracle objects").oracle
}

fn receipt(act: Done) -> Receipt {
    Receipt { act, cause: Cause::Trim, passes: 2, extent: spot(), forgot: None }
}

#[test]
fn a_receipt_for_what_lies_below_is_true_if_nothing_does() {
    let mut world = written();
    world.server.judge_receipt(&receipt(Done::Rewritten)).expect("there is only what is there now");
    overwrite(&world, 0);
    assert_eq!(objection(world.server.judge_receipt(&receipt(Done::Rewritten))), Oracle::Forensic);
}

#[test]
fn one_pass_of_two_is_not_enough_and_both_are() {
    let mut world = written();
    for pattern in [0xaa, 0] {
        assert_eq!(objection(world.server.judge_receipt(&receipt(Done::Shredded))), Oracle::Forensic);
        overwrite(&world, pattern);
    }
    world.server.judge_receipt(&receipt(Done::Shredded)).expect("it had its passes");
}

#[test]
fn a_copy_in_the_journal_is_found() {
    let mut world = written();
    let mut copy = vec![0; BLOCK as usize];
    fill(Tag(1), spot().start.0, &mut copy);
    world.server.media.journal.write(Pos(40960), &copy, true).expect("a write");
    assert_eq!(objection(world.server.judge_receipt(&receipt(Done::Rewritten))), Oracle::Forensic);
    assert_eq!(objection(world.judge_drained()), Oracle::Forensic);
}

#[test]
fn a_death_that_nothing_was_done_about_is_found() {
    let mut world = written();
    world.judge_drained().expect("nothing has died yet");
    world.model.died(Tag(3), spot());
    assert_eq!(objection(world.judge_drained()), Oracle::Forensic);
}

#[test]
fn content_below_a_conservative_overwrite_is_found_once_it_is_not_current() {
    let mut world = written();
    world.model.rewritten(Tag(3), spot());
    world.judge_drained().expect("what is there now is kept");
    overwrite(&world, 0);
    assert_eq!(objection(world.judge_drained()), Oracle::Forensic);
}

fn flush(world: &World) -> Pending {
    let about = world.book.about(Ask::Flush);
    Pending { ask: Ask::Flush, extent: Extent::default(), fua: false, since: 1, reading: None, about }
}

#[test]
fn a_request_that_is_never_replied_to_is_found() {
    let mut world = world();
    let lost = flush(&world);
    world.pending.insert(RequestId(9), lost);
    assert_eq!(objection(world.drain()), Oracle::Liveness);
}

#[test]
fn replies_must_have_a_request_and_refusals_a_reason() {
    let mut world = written();
    assert_eq!(objection(world.replied(2, RequestId(1), Ok(Reply::default()))), Oracle::Replies);
    for refusal in [Refusal::Io("?".into()), Refusal::ReadOnly, Refusal::ShuttingDown] {
        let pending = flush(&world);
        world.pending.insert(RequestId(9), pending);
        assert_eq!(objection(world.replied(2, RequestId(9), Err(refusal))), Oracle::Replies);
    }
}

#[test]
fn content_that_changes_behind_the_disk_is_found() {
    let mut world = written();
    let mut other = vec![0; BLOCK as usize];
    fill(Tag(7), spot().start.0, &mut other);
    world.server.media.data.write(Pos(spot().start.0), &other, true).expect("a write");
    assert_eq!(objection(world.read_everything()), Oracle::Safety);
}

#[test]
fn the_same_seed_is_the_same_history_to_the_last_act() {
    for seed in 0..50 {
        let history = History::from_seed(seed);
        assert_eq!(history, History::from_seed(seed));
        assert_eq!(verdict(&history), verdict(&history));
    }
}
