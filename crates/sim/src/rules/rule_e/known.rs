//! Kept histories: each once failed, or shows the purpose of one rule.

use crate::rules::rule_e::fuzz::Step;
use crate::rules::rule_e::fuzz::Step::{Cached, Clients, Cut, Pass, Proven, Read, Restart};
use crate::rules::rule_e::fuzz::{Page, file, put, supers};
use crate::rules::rule_e::toy::{Bytes, Inode, MAP, TABLE, table};
use quietus_core::watch::Verdict::{self, ConservativeOverwrite, Dead};
use quietus_detect::formats::format::Block;

/// A history of an empty file system, and the fate of a block.
#[derive(Clone, Debug)]
pub struct Known {
    /// The fact that the history shows.
    pub name: &'static str,
    /// The steps.
    pub steps: Vec<Step>,
    /// The block that the history is about.
    pub block: Block,
    /// The verdict on the block at the end, of all that may be handed out.
    pub verdict: Option<Verdict>,
}

fn known(name: &'static str, block: Block, verdict: Option<Verdict>, steps: &[&[Step]]) -> Known {
    Known { name, steps: steps.concat(), block, verdict }
}

/// Block 3 is not destroyed, though the evidence is durable.
fn lives(name: &'static str, steps: &[&[Step]]) -> Known {
    known(name, 3, None, &[&steps.concat(), &[Cut, Proven]])
}

/// Block 3 is dead at the end.
fn dies(name: &'static str, steps: &[&[Step]]) -> Known {
    known(name, 3, Some(Dead), steps)
}

/// A map is written that shows just these blocks of data allocated.
fn map(allocated: &[Block]) -> Step {
    let page: Bytes = std::array::from_fn(|n| u8::from(n < 3 || allocated.contains(&(n as Block))));
    Step::Put(MAP, Page(page))
}

fn files(inodes: &[Inode]) -> Step {
    Step::Put(TABLE, Page(table(inodes)))
}

fn data(block: Block) -> Step {
    put(block, &[3, block as u8])
}

/// All kept histories.
pub fn histories() -> Vec<Known> {
    let ([in_use, clean, _], gone, rewritten) = (supers(), Inode::default(), Some(ConservativeOverwrite));
    // The map leaves before block 3 is allocated, and arrives after it was written.
    let overtaken = [Read, in_use, data(3), map(&[4])];
    let twice = [Clients(2), map(&[4]), map(&[4]), Clients(1)];
    let again = [Read, in_use, clean, in_use, data(3), Pass(1500), Read];
    let one = |generation| files(&[gone, file(generation, [0, 0], 3, 0)]);
    let unread = [Read, in_use, map(&[3, 4]), one(1), put(3, &[4]), data(4), clean, Restart, in_use];
    let lost = [Pass(1500), Pass(1500), map(&[]), Pass(100), Cut, Proven, clean, files(&[]), Read];
    let two = files(&[file(2, [0, 0], 0, 0), file(1, [0, 0], 3, 0)]);
    let unknown = [Read, in_use, map(&[3, 5]), two, put(3, &[0, 5]), data(5), clean, Restart, in_use];
    let lost_at_once = [Pass(1500), Pass(1500), map(&[3]), Cut, put(3, &[]), clean, one(1), Proven, Read];
    let owner = |generation| files(&[file(generation, [3, 0], 0, 0)]);
    let undone = [Read, in_use, owner(1), Pass(1500), data(3), data(3), Pass(10_000_000), owner(2)];
    // A file, its block of pointers and its data come to another file in the same places, once nothing of
    // the first is suspicious any more.
    let named = |generation| [data(3), map(&[3, 4]), files(&[file(generation, [0, 0], 4, 0)]), put(4, &[3])];
    let settled = [in_use, Pass(1500), clean, Pass(1500), Read].repeat(20);
    let renewed = [&[Read, in_use], &named(1)[..], &[clean, Read], &settled, &[in_use], &named(2)].concat();
    let levels = levels();
    [
        unwritten(),
        vec![
            known(
                "pointers_lost_before_they_were_read_are_evidence_that_must_be_durable",
                4,
                None,
                &[&unread, &lost],
            ),
            known(
                "pointers_lost_before_anybody_knew_of_them_are_evidence_that_must_be_durable",
                5,
                None,
                &[&unknown, &lost_at_once],
            ),
            known("what_lay_below_a_death_that_a_crash_undid_is_destroyed", 3, rewritten, &[&undone]),
            lives("a_map_that_was_overtaken_by_a_write_proves_nothing", &[&overtaken]),
            lives("a_map_that_two_connections_bring_proves_nothing", &[&overtaken[..3], &twice]),
            lives(
                "a_map_that_comes_again_proves_nothing",
                &[&overtaken, &[Clients(0), Clients(1), map(&[4])]],
            ),
            lives(
                "a_map_that_comes_again_to_another_run_of_the_server_proves_nothing",
                &[&overtaken[..3], &[Restart, Read, map(&[4])]],
            ),
            lives("a_guest_that_sleeps_may_have_all_to_write", &[&overtaken, &[Pass(10_000_000), data(4)]]),
            lives("a_map_read_again_proves_nothing_against_what_was_written_since", &[&again]),
            known(
                "the_same_pointers_of_another_generation_are_others",
                3,
                rewritten,
                &[&renewed, &[clean, Read]],
            ),
            dies("data_of_a_block_that_changed_its_owner_and_its_level_names_nothing", &[&levels]),
        ],
    ]
    .concat()
}

/// Block 3 is a file's, which gives up its content there: the inode calls it unwritten.
fn unwritten() -> Vec<Known> {
    let ([in_use, clean, _], owner) = (supers(), file(1, [3, 0], 0, 0));
    let written = [Read, in_use, data(3), map(&[3]), files(&[owner])];
    let unwritten = Inode { unwritten: 1, ..owner };
    let (gives_up, active) = (files(&[unwritten]), [Pass(1000), data(4)].repeat(20));
    let both = files(&[unwritten, file(1, [3, 0], 0, 0)]);
    let (gone, at_rest) = (Inode::default(), [clean, Pass(700), Read, Cut, Proven]);
    vec![
        dies(
            "what_an_owner_gave_up_in_place_dies_after_activity",
            &[&written, &[gives_up], &active, &[Cut, Proven]],
        ),
        dies(
            "what_two_owners_had_reserved_at_once_dies_at_rest",
            &[&written, &[files(&[unwritten, unwritten]), files(&[gone, unwritten])], &at_rest],
        ),
        dies(
            "what_is_paged_to_below_an_unwritten_extent_dies_at_rest",
            &[&written, &[gives_up, data(3)], &at_rest],
        ),
        lives(
            "what_an_owner_writes_lives_though_it_says_so_after_the_superblock",
            &[&written, &[gives_up, data(3), clean, Pass(100), files(&[owner]), Pass(700), Read]],
        ),
        lives("what_is_paged_to_below_an_unwritten_extent_lives", &[&written, &[gives_up, data(3)], &active]),
        lives(
            "what_is_paged_to_below_an_unwritten_extent_lives_though_an_unchecked_map_shows_it_free",
            &[&written, &[gives_up, data(3), Pass(1500), map(&[]), Pass(1500), map(&[])]],
        ),
        lives("what_another_owner_names_lives_below_an_unwritten_extent", &[&written, &[both], &active]),
        lives(
            "below_an_extent_that_was_unwritten_before_an_attach_everything_lives",
            &[&written, &[gives_up, data(3), Restart, Read], &active],
        ),
        lives(
            "an_owner_that_writes_first_and_says_so_later_keeps_it",
            &[&written, &[gives_up, Pass(1000), files(&[owner])], &active],
        ),
    ]
}

/// Block 4 is the old owner's of level 2, and then the new one's of level 1, whose data, block 5, begins like a
/// pointer to block 3.
fn levels() -> Vec<Step> {
    let [in_use, ..] = supers();
    let new = file(1, [0, 0], 4, 0);
    let owners =
        [Read, in_use, map(&[3, 4, 5]), files(&[file(1, [0, 0], 0, 4)]), put(4, &[5]), Read, put(5, &[3])];
    let change = [Read, Read, files(&[file(1, [0, 0], 0, 4), new]), files(&[file(0, [0, 0], 0, 0), new])];
    let freed = [Pass(2000), map(&[4, 5]), Read, Read, Read, Cut, Proven];
    [&owners[..], &change, &freed].concat()
}

/// Histories above a cache in which live data is destroyed unless the rules are told of the cache.
pub fn cached() -> Vec<Known> {
    let [in_use, clean, _] = supers();
    let written = [Cached(true), Read, in_use, data(3)];
    // The map leaves the guest before block 3 is allocated.
    vec![
        lives("a_map_that_is_held_back_proves_nothing", &[&written, &[Pass(1500), Pass(1500), map(&[4])]]),
        lives(
            "the_second_of_two_maps_that_are_held_back_proves_nothing",
            &[&written, &[map(&[4]), map(&[4, 5])]],
        ),
        lives("an_unmount_that_overtakes_the_map_proves_nothing", &[&written, &[clean, Pass(700), Read]]),
    ]
}
