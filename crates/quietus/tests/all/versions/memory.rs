//! What was destroyed on the root is not left in the memory of the server either.

use crate::versions::served::{BLOCK, Bench};
use quietus_core::base::zeros::is_zeros;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

const CELL: usize = 32;
const PAGE: usize = 4096;
const PIECE: usize = 1 << 20;

/// The cells in the root, as they lie there.
fn cells(bench: &Bench) -> BTreeSet<Vec<u8>> {
    let root = std::fs::read(bench.disk.path().join("root")).expect("the root");
    let places = [4096, 4608].into_iter().chain((8192..root.len()).step_by(CELL));
    let all = places.map(|at| root[at..at + CELL].to_vec());
    all.filter(|cell| !is_zeros(cell)).collect()
}

/// Which of these are in the memory of a process; `None` if the host does not let us look.
fn found(process: u32, wanted: &BTreeSet<Vec<u8>>) -> Option<BTreeSet<Vec<u8>>> {
    let mut first = [false; 256];
    wanted.iter().for_each(|cell| first[usize::from(cell[0])] = true);
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).ok()?;
    let mut all = BTreeSet::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).expect("an address");
        for at in (number(from)..number(to)).step_by(PIECE - CELL) {
            let mut bytes = vec![0; PIECE.min(number(to) - at)];
            if memory.read_exact_at(&mut bytes, at as u64).is_err() {
                continue;
            }
            search(&bytes, (&first, wanted), &mut all);
        }
    }
    Some(all)
}

fn search(bytes: &[u8], (first, wanted): (&[bool; 256], &BTreeSet<Vec<u8>>), all: &mut BTreeSet<Vec<u8>>) {
    for page in (0..bytes.len()).step_by(PAGE) {
        let end = (page + PAGE).min(bytes.len());
        if bytes[page..end] == [0; PAGE][..end - page] {
            continue;
        }
        for at in (page..end).filter(|at| first[usize::from(bytes[*at])]) {
            if let Some(cell) = bytes.get(at..at + CELL).and_then(|it| wanted.get(it)) {
                all.insert(cell.clone());
            }
        }
    }
}

#[test]
fn cells_that_were_destroyed_are_not_in_the_memory_of_the_server() {
    let bench = Bench::new(&["--size", "8M", "--epoch", "manual"]);
    let server = bench.serve();
    let mut seen = cells(&bench);
    let mut note = || seen.extend(cells(&bench));
    for round in 1..=3 {
        let mut client = bench.connect("").expect("the disk");
        for block in 0..64 {
            assert_eq!(client.write(0, block * BLOCK as u64, &[round; BLOCK]), 0);
        }
        bench.disk.json("epoch", &[]);
        note();
    }
    // The forgets write the index, which brings stubs home; and then cells of pages die.
    for epoch in ["1", "2", "last"] {
        bench.forget(epoch);
        note();
    }
    for n in 0..100 {
        bench.write(n, 9);
    }
    bench.disk.json("shred", &["--now"]);
    let now = cells(&bench);
    let destroyed: BTreeSet<_> = seen.difference(&now).cloned().collect();
    assert!(destroyed.len() >= 3, "{} cells were destroyed", destroyed.len());
    let process = server.child.id();
    let Some(in_use) = found(process, &now) else { return };
    assert!(!in_use.is_empty(), "the search is blind");
    let left = found(process, &destroyed).expect("it was let before");
    assert_eq!(left.len(), 0, "of {} destroyed cells", destroyed.len());
}
