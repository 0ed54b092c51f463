//! How worn a flash chip is, for people.

use super::bytes;
use super::waiting::{duration, line};
use crate::front::control::WearAnswer;
use crate::proof::{ChipFound, ChipPage};
use std::fmt::{self, Write};

/// The wear of a chip, and how long it lasts.
pub(super) fn text(out: &mut String, it: &WearAnswer) -> fmt::Result {
    let (chip, disk, block) = (bytes(it.chip_bytes), bytes(it.disk_bytes), bytes(it.block_bytes));
    line(
        out,
        "chip",
        &format!("{}: {chip} in {} blocks of {block}; the disk uses {disk}", it.chip, it.blocks),
    )?;
    let (least, mean, most) = (it.erases_min, it.erases_mean, it.erases_max);
    line(
        out,
        "erases",
        &format!("{mean} a block on average, {least} to {most}; a block bears {}", it.endurance),
    )?;
    line(out, "bad", &format!("{} blocks; {} more may go bad", it.bad_blocks, it.spare_blocks))?;
    if !it.stuck_blocks.is_empty() {
        let numbers: Vec<String> = it.stuck_blocks.iter().map(u32::to_string).collect();
        let what = "neither erase nor can be overwritten, and may hold deleted content: destroy the chip";
        line(out, "stuck", &format!("blocks {} {what}", numbers.join(", ")))?;
    }
    let life = match it.life_ms {
        Some(life_ms) => format!("{} at the pace of the last days", duration(life_ms)),
        None => {
            "not known yet: a server notes the wear while it runs, and an hour of that is too little".into()
        }
    };
    line(out, "life", &life)?;
    it.operations.map_or(Ok(()), |done| {
        let time = duration(done.micros / 1000);
        let (reads, programs, erases) = (done.reads, done.programs, done.erases);
        let what = format!(
            "{reads} pages read, {programs} programmed, {erases} blocks erased: {time} on such a chip"
        );
        line(out, "counted", &what)
    })
}

/// What a proof says of a chip.
pub(super) fn proven(out: &mut String, it: &ChipFound) -> fmt::Result {
    for ChipPage { block, page, at } in it.pages.iter().take(10) {
        match at {
            Some(at) => writeln!(
                out,
                "DEAD CONTENT in page {page} of block {block} of the chip (byte {at} of its disk)"
            )?,
            None => writeln!(out, "UNKNOWN CONTENT in page {page} of block {block} of the chip")?,
        }
    }
    let (pages, bad, older) = (it.pages_read, it.bad_blocks, it.older_versions);
    writeln!(
        out,
        "chip         {pages} pages read raw, those of {bad} bad blocks too: {} with dead content; {older} older versions of other content",
        it.remains
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worn_chip_is_told_with_its_life_and_the_blocks_that_are_stuck() {
        let mut it = WearAnswer {
            name: "box".into(),
            chip: "nand:/dev/mtd4".into(),
            chip_bytes: 1 << 30,
            disk_bytes: 800 << 20,
            page_bytes: 2048,
            block_bytes: 131_072,
            blocks: 8192,
            erases_min: 90,
            erases_mean: 100,
            erases_max: 105,
            bad_blocks: 3,
            stuck_blocks: vec![7, 19],
            spare_blocks: 160,
            endurance: 100_000,
            life_ms: Some(20 * 31_536_000_000),
            operations: None,
        };
        let told = |it: &WearAnswer| {
            let mut out = String::new();
            text(&mut out, it).map(|()| out).expect("memory")
        };
        let all = told(&it);
        for words in
            ["8192 blocks of 128.00 KiB", "100 a block", "160 more", "blocks 7, 19 neither", "20 years"]
        {
            assert!(all.contains(words), "{words}: {all}");
        }
        (it.life_ms, it.stuck_blocks) = (None, Vec::new());
        assert!(told(&it).contains("not known yet") && !told(&it).contains("stuck"));
    }
}
