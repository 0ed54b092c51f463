use crate::rules::rule_j::log::*;

fn area(flavour: Flavour) -> Area {
    Area { first: 3, len: 12, base: 0, block_bytes: 1024, flavour }
}

fn logged() -> Logged {
    let content = |n: u8| vec![n; 1024];
    let mut contents: BTreeMap<_, _> = (20..24).map(|it| (it, content(it as u8))).collect();
    contents.insert(1, [&MAGIC[..], &[7; 1020]].concat());
    Logged { tid: 9, contents, revoked: vec![30, 31] }
}

fn laid(area: Area, logged: &Logged, at: At) -> Vec<Vec<u8>> {
    let mut log = vec![vec![0; 1024]; area.len as usize];
    for (at, bytes) in area.encode(logged, at) {
        log[at as usize] = bytes;
    }
    log
}

#[test]
fn what_is_logged_is_read_back_wherever_it_begins() {
    for (flavour, at) in [Flavour::Plain, Flavour::Summed].into_iter().zip([1, 7]) {
        let (area, logged) = (area(flavour), logged());
        let log = laid(area, &logged, at);
        let found = area.decode(9, at, |at| &log[at as usize]);
        assert_eq!(found, Some((logged, area.ahead(at, 9))), "{flavour:?}");
    }
}

#[test]
fn a_transaction_that_lacks_a_block_of_its_own_is_not_there() {
    let (area, logged) = (area(Flavour::Summed), logged());
    for (lost, _) in area.encode(&logged, 7) {
        let mut log = laid(area, &logged, 7);
        log[lost as usize].fill(0);
        assert_eq!(area.decode(9, 7, |at| &log[at as usize]), None, "without {lost}");
    }
}

#[test]
fn the_superblock_says_where_the_log_begins() {
    let area = area(Flavour::Summed);
    let tail = Tail { start: 4, tid: 77 };
    assert_eq!(area.tail(&area.superblock(tail)), Some(tail));
    assert_eq!(area.tail(&[0; 1024]), None);
}
