//! What the literal machine promises, and how each fault breaks it.

use super::Literal;
use crate::keylife::Step::{
    Crash, Doubt, Flush, Kill, Purge, Rewrite, RewriteNext, Sector, Settle, Start, Trim, Write,
};
use crate::keylife::{Answer, BLOCKS, Fault, Read, SECTORS, Server, Step, places};

/// A machine, and the contents that a read of each sector may show.
struct Watched {
    machine: Literal,
    may_show: [[Vec<u32>; SECTORS]; BLOCKS],
    /// The number of the last content.
    contents: u32,
    /// What showed when the flush under way began: those contents and newer ones may show once it ends.
    flushed: Option<(u8, Answer)>,
    rewritten: Option<(usize, u8, u32)>,
}

impl Watched {
    fn new(fault: Option<Fault>) -> Self {
        let may_show = std::array::from_fn(|block| std::array::from_fn(|_| vec![block as u32 + 1]));
        let machine = Literal::new(fault);
        Self { machine, may_show, contents: BLOCKS as u32, flushed: None, rewritten: None }
    }

    /// Lets `step` happen. An error is the first promise that is broken.
    fn step(&mut self, step: Step) -> Result<(), String> {
        if !self.machine.allows(step) {
            return Err(format!("illegal: {step:?}"));
        }
        let before = self.machine.answer();
        self.machine.step(step);
        match step {
            Write(block) => {
                self.contents += 1;
                self.may_show[usize::from(block)].iter_mut().for_each(|it| it.push(self.contents));
            }
            Rewrite(block) => {
                self.contents += 1;
                self.may_show[usize::from(block)].iter_mut().for_each(|it| it.push(self.contents));
                self.rewritten = Some((block.into(), 1, self.contents));
            }
            RewriteNext => {
                let (block, done, content) = self.rewritten.take().ok_or("no rewrite")?;
                if done == 6 {
                    self.may_show[block].iter_mut().for_each(|it| *it = vec![content]);
                } else {
                    self.rewritten = Some((block, done + 1, content));
                }
            }
            Trim(block) => self.may_show[usize::from(block)].iter_mut().for_each(|it| *it = vec![0]),
            Flush => {
                let (done, shown) = self.flushed.take().unwrap_or((0, before));
                if done == 3 {
                    self.flushed(&shown);
                } else {
                    self.flushed = Some((done + 1, shown));
                }
            }
            Crash(_) | Kill => (self.flushed, self.rewritten) = (None, None),
            _ => {}
        }
        self.judge()
    }

    /// A flush has ended that began when `shown` showed.
    fn flushed(&mut self, shown: &Answer) {
        for (may, shown) in self.may_show.as_flattened_mut().iter_mut().zip(shown.reads.as_flattened()) {
            let oldest = match shown {
                Read::Content(it) => *it,
                Read::Zeros => 0,
                Read::Waits | Read::Garbage => continue,
            };
            if may.contains(&oldest) {
                may.retain(|it| *it >= oldest);
            }
        }
    }

    fn judge(&self) -> Result<(), String> {
        let answer = self.machine.answer();
        if answer.server == Server::Refused {
            return Err("the disk is lost".into());
        }
        if let Some(content) = answer.receipts.intersection(&answer.opens).next() {
            return Err(format!("content {content} has a receipt and opens"));
        }
        for (may, shown) in self.may_show.as_flattened().iter().zip(answer.reads.as_flattened()) {
            let is_shown = match shown {
                Read::Waits => true,
                Read::Zeros => may.contains(&0),
                Read::Content(it) => may.contains(it),
                Read::Garbage => return Err("a live block reads as garbage".into()),
            };
            if !is_shown {
                return Err(format!("a read shows {shown:?} where {may:?} may show"));
            }
        }
        Ok(())
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), String> {
        steps.iter().try_for_each(|it| self.step(*it))
    }
}

/// Plays `lives`, one after another.
fn play(fault: Option<Fault>, lives: &[&[Step]]) -> Result<Watched, String> {
    let mut watched = Watched::new(fault);
    lives.iter().try_for_each(|it| watched.steps(it))?;
    Ok(watched)
}

const FLUSH: &[Step] = &[Flush; 4];
const START: &[Step] = &[Start; 4];
const PURGE: &[Step] = &[Purge; 10];
/// A dead block gets new content.
const RENEWED: &[Step] = &[Trim(0), Write(0), Sector(0), Sector(0)];

fn shows(watched: &Watched, block: usize, read: Read) {
    assert_eq!(watched.machine.answer().reads[block], [read; SECTORS]);
}

#[test]
fn dead_content_opens_until_a_purge_and_has_its_receipt_then() {
    let life = &[Write(0), Sector(0), Sector(0), Flush, Flush, Flush, Flush, Trim(0)];
    let mut watched = play(None, &[life]).unwrap();
    shows(&watched, 0, Read::Zeros);
    let answer = watched.machine.answer();
    assert!(answer.opens.is_superset(&[1, 4].into()) && answer.receipts.is_empty());
    watched.steps(PURGE).unwrap();
    let answer = watched.machine.answer();
    assert_eq!((answer.opens, answer.receipts), ([2, 3].into(), [1, 4].into()));
    watched.steps(&[&[Crash(0)], START].concat()).unwrap();
    shows(&watched, 0, Read::Zeros);
    shows(&watched, 2, Read::Content(3));
}

#[test]
fn an_early_cell_lives_through_a_crash_once_a_flush_has_named_it() {
    let mut watched = play(None, &[RENEWED, FLUSH, &[Crash(0)], START]).unwrap();
    shows(&watched, 0, Read::Content(4));
    watched.steps(PURGE).unwrap();
    assert_eq!(watched.machine.answer().receipts, [1].into());
    let lost = play(None, &[RENEWED, &FLUSH[..3], &[Crash(0)], START]).unwrap();
    shows(&lost, 0, Read::Zeros);
}

#[test]
fn a_staged_block_is_put_back() {
    let life: &[Step] = &[Rewrite(1), RewriteNext, RewriteNext, Crash(0)];
    let mut watched = play(None, &[life, START]).unwrap();
    assert_eq!(watched.machine.answer().server, Server::Down(4));
    watched.steps(&[Start; 3]).unwrap();
    shows(&watched, 1, Read::Content(4));
    watched.steps(PURGE).unwrap();
    assert_eq!(watched.machine.answer().receipts, [2].into());
}

#[test]
fn a_root_in_doubt_is_settled_either_way() {
    for reached in [false, true] {
        let doubt = [Trim(2), Purge, Purge, Purge, Doubt { reached }, Settle, Settle];
        let mut watched = play(None, &[&doubt]).unwrap();
        watched.steps(&PURGE[..if reached { 5 } else { 10 }]).unwrap();
        assert_eq!(watched.machine.answer().receipts, [3].into());
        assert!(watched.machine.answer().opens == [1, 2].into());
    }
}

#[test]
fn a_busy_root_gives_the_batch_free() {
    let mut watched = play(None, &[&[Trim(2), Purge, Purge, Purge, Step::Busy, Write(2)]]).unwrap();
    assert!(watched.machine.answer().opens.contains(&3));
    watched.steps(&[Sector(2), Sector(2)]).unwrap();
    watched.steps(FLUSH).unwrap();
    watched.steps(PURGE).unwrap();
    assert_eq!(watched.machine.answer().receipts, [3].into());
}

/// The steps after which each fault has broken a promise.
fn broken_by(fault: Fault) -> Vec<Step> {
    match fault {
        Fault::KeepPageCell | Fault::SpareRoot | Fault::ReceiptBeforeRoot => [&[Trim(0)], PURGE].concat(),
        Fault::TopBeforePages => [&[Trim(0)], &PURGE[..6], &[Crash(places::root(1)), Start]].concat(),
        Fault::StartUnsynced => {
            [&[Trim(0)], &PURGE[..4], &[Kill], START, &[Crash(places::root(1)), Start]].concat()
        }
        Fault::UnsettledRoot => {
            let doubt = [Trim(1), Purge, Purge, Purge, Doubt { reached: true }, Settle, Settle];
            [&doubt, RENEWED, FLUSH, &[Crash(places::root(0))], START].concat()
        }
        Fault::SpareWritten => [RENEWED, PURGE].concat(),
        Fault::FrameBeforeData | Fault::ClearBeforeCell => [RENEWED, FLUSH, &[Crash(0)], START].concat(),
        Fault::NameUnended => [&RENEWED[..3], FLUSH, &[Sector(0), Crash(0)], START].concat(),
        Fault::OneHalf => [&[Trim(1)], &PURGE[..3], RENEWED, FLUSH, &PURGE[3..], &[Kill], START].concat(),
        Fault::FreshUnderLive => [&[Write(0), Sector(0), Crash(places::data(0, 0))], START].concat(),
        Fault::ActiveAtOnce => [&[Rewrite(0), RewriteNext, Crash(0)], START].concat(),
        Fault::NeverActive => [&[Rewrite(0)], &[RewriteNext; 6][..], &[Crash(0)], START].concat(),
    }
}

#[test]
fn each_fault_breaks_a_promise_that_the_machine_keeps_without_it() {
    for fault in Fault::ALL {
        let steps = broken_by(fault);
        let mut whole = Watched::new(None);
        for step in &steps {
            // A settled root goes on with its purge, and what is synced is not in the cache.
            let step = match step {
                Crash(mask) => Crash(mask & whole.machine.answer().unsynced),
                step => *step,
            };
            if whole.machine.allows(step) {
                whole.step(step).unwrap_or_else(|broken| panic!("without {fault:?}, {step:?}: {broken}"));
            }
        }
        let mut faulty = Watched::new(Some(fault));
        let broken = steps.iter().position(|it| {
            let broken = faulty.step(*it);
            assert!(!broken.as_ref().is_err_and(|it| it.starts_with("illegal")), "{fault:?}: {broken:?}");
            broken.is_err()
        });
        assert_eq!(broken, Some(steps.len() - 1), "{fault:?} breaks a promise at the last step");
    }
}

/// All steps but crashes.
fn all_steps() -> Vec<Step> {
    let mut all = vec![Flush, RewriteNext, Purge, Step::Busy, Settle, Kill, Start];
    all.extend([false, true].map(|reached| Doubt { reached }));
    (0..BLOCKS as u8).for_each(|it| all.extend([Write(it), Sector(it), Trim(it), Rewrite(it)]));
    all
}

/// Plays lives by chance; returns the first promise that is broken.
fn by_chance(fault: Option<Fault>, lives: u64, check: impl Fn(&Literal)) -> Result<(), String> {
    // What is under way goes on more often than something else happens, as a purge takes ten steps.
    let often: [&[Step]; 3] =
        [&[Purge; 12], &[Start; 8], &[Flush, Flush, RewriteNext, RewriteNext, RewriteNext]];
    let (all, mut state) = ([all_steps(), often.concat()].concat(), 1_u64);
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..lives {
        let (mut watched, mut story) = (Watched::new(fault), Vec::new());
        for _ in 0..150 {
            let legal: Vec<Step> = all.iter().copied().filter(|it| watched.machine.allows(*it)).collect();
            let step = match draw(40) {
                0 => Crash(watched.machine.answer().unsynced & draw(1 << 17) as u32),
                _ if legal.is_empty() => continue,
                // Kills are rare.
                _ => match legal[draw(legal.len())] {
                    Kill if draw(8) > 0 => continue,
                    step => step,
                },
            };
            story.push(step);
            watched.step(step).map_err(|broken| format!("{broken}: {story:?}"))?;
            check(&watched.machine);
        }
    }
    Ok(())
}

#[test]
fn no_life_by_chance_breaks_a_promise() {
    by_chance(None, 3_000, |_| {}).unwrap();
}

/// The canonical machine answers as the machine does, but for the numbers of contents.
#[test]
fn a_canonical_machine_behaves_like_its_own() {
    let shape = |it: &Answer| {
        let reads = it.reads.as_flattened().iter().map(std::mem::discriminant).collect::<Vec<_>>();
        (it.server, reads, it.unsynced, it.opens.len())
    };
    by_chance(None, 30, |machine| {
        let canonical = machine.canonical();
        assert_eq!(canonical, canonical.canonical());
        assert_eq!(shape(&canonical.answer()), shape(&machine.answer()));
        for step in all_steps() {
            assert_eq!(canonical.allows(step), machine.allows(step), "{step:?}");
            if machine.allows(step) {
                let (mut left, mut right) = (canonical.clone(), machine.clone());
                left.step(step);
                right.step(step);
                assert_eq!(left.canonical(), right.canonical(), "{step:?}");
            }
        }
    })
    .unwrap();
}

#[test]
fn lives_that_leave_the_same_behind_are_equal() {
    let cycle = [RENEWED, FLUSH, PURGE, FLUSH].concat();
    // A purge that ends leaves zeros in both cases, and two purges the same slot of the root.
    let lived = |cycles: usize| play(None, &vec![&cycle[..]; cycles]).unwrap().machine.canonical();
    assert_eq!(lived(2), lived(4));
    assert_ne!(lived(2), lived(3));
}

#[test]
fn chance_finds_each_fault() {
    for fault in Fault::ALL {
        let broken = by_chance(Some(fault), 3_000, |_| {});
        assert!(broken.is_err_and(|it| !it.starts_with("illegal")), "{fault:?} breaks no promise");
    }
}
