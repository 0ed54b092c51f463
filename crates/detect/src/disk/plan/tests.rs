use crate::disk::partition::tests::{Image, entry, image};
use crate::disk::plan::{Plan, plan};
use crate::formats::format::Prober;
use quietus_core::base::units::Extent;

const EXT2: &[Prober] = &[crate::formats::ext2::probe];

fn planned(image: &Image) -> Plan {
    image.seen(|len, contents| plan(len, EXT2, contents))
}

fn refusals(plan: &Plan) -> Vec<Option<String>> {
    plan.regions.iter().map(|it| it.refused.as_ref().map(ToString::to_string)).collect()
}

/// The magic number of a superblock of ext2 that begins 1024 bytes before.
fn superblock(image: &mut Image) {
    image.bytes[1024 + 0x38..][..2].copy_from_slice(&[0x53, 0xEF]);
}

fn two() -> Image {
    image(8).mbr(&[entry(0x83, 63, 2000), entry(0x83, 4096, 4096)])
}

#[test]
fn a_file_system_and_a_table_on_one_disk_are_both_left_alone() {
    let mut both = two();
    superblock(&mut both);
    let plan = planned(&both);
    let why = "the disk has a partition table, and a file system of its own: clear the one that is not \
               used, for instance with wipefs";
    assert_eq!(refusals(&plan), [Some(why.to_string()), Some(why.to_string())]);
    assert_eq!(plan.summary(0), why);
    let mut alone = image(8);
    superblock(&mut alone);
    assert_eq!(refusals(&planned(&alone)), [None]);
}

#[test]
fn a_foreign_disk_is_left_alone() {
    let mut image = image(8);
    image.bytes[512..520].copy_from_slice(b"LABELONE");
    assert_eq!(planned(&image).why_none(), "it is a physical volume of LVM");
    let mut image = two();
    image.bytes[512..520].copy_from_slice(b"LABELONE");
    let refusals = refusals(&planned(&image));
    assert!(refusals.iter().all(|it| it.as_ref().is_some_and(|it| it.contains("is a physical volume"))));
}

#[test]
fn a_broken_gpt_leaves_nothing_to_watch() {
    let plan = planned(&image(8).mbr(&[entry(0xEE, 1, u32::MAX)]));
    assert_eq!(plan.regions, []);
    assert!(plan.summary(0).starts_with("its partition table is broken: the first copy is invalid"));
}

#[test]
fn a_partition_that_begins_with_its_table_is_the_whole_disk() {
    let mut first = entry(0x06, 0, 8 << 11);
    first[0] = 0x80;
    let plan = planned(&image(8).mbr(&[first]));
    assert_eq!((plan.regions[0].number, plan.regions[0].extent), (None, Extent::new(0, 8 << 20)));
    let plan = planned(&image(8).mbr(&[first, entry(0x83, 63, 2000)]));
    assert_eq!(plan.regions.len(), 2, "that is a table, whatever it means");
}
