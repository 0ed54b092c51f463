//! The life of a marked block, enumerated, nearest states first, with one block and two files: in each state everything that can
//! happen, against the page word for word ([`page`]; "TrueErase", section 6).

mod guest;
mod page;
mod product;

use crate::content::{Tag, fill};
use crate::rule_e::marks::image::place;
use crate::soak::split;
use crate::verdict::caught;
use guest::{BLOCK, Disk, FILES, Inode, Put};
use page::{Owed, Page, Receipts};
use product::Product;
use quietus_core::ledger::Due;
use quietus_core::request::Op;
use quietus_core::watch::Class;
use std::collections::HashSet;

/// Something that may happen, in any state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Time passes.
    Time,
    /// The oldest sync under way ends.
    Act,
    /// The superblock says that the file system is mounted,
    Mount,
    /// unmounted,
    Unmount,
    /// or mounted once more, after a crash.
    Crash,
    /// The map shows the block allocated or free.
    Map(bool),
    /// The block is written from end to end.
    Data,
    /// The guest frees the block itself.
    Trim,
    /// Something is written that means nothing.
    Nothing,
    /// An inode comes into use, with the flag or without; it names the block, or does not.
    Create {
        /// Number of the file.
        file: usize,
        /// The inode has the flag.
        has_flag: bool,
        /// The inode names the block.
        names: bool,
    },
    /// An inode is not in use any more.
    Delete(usize),
    /// An inode belongs to another file, without the flag, which names what the old one did.
    Renew(usize),
    /// An inode gets the flag, or loses it.
    Flag(usize, bool),
    /// An inode comes to name the block, or names it no more.
    Name(usize, bool),
    /// The block passes from this file to the other one, in one write.
    HandOver(usize),
}

impl Step {
    /// Everything that may happen, with so many files.
    fn all(files: usize) -> Vec<Self> {
        let mut all = vec![Self::Time, Self::Act, Self::Mount, Self::Unmount, Self::Crash, Self::Map(false)];
        all.extend([Self::Map(true), Self::Data, Self::Trim, Self::Nothing]);
        for file in 0..files {
            for names in [false, true] {
                all.extend([Self::Create { file, has_flag: false, names }, Self::Name(file, names)]);
            }
            all.extend([Self::Delete(file), Self::Renew(file)]);
            all.extend((files == FILES).then_some(Self::HandOver(file)));
        }
        for is_on in [false, true] {
            all.extend([Self::Create { file: 0, has_flag: true, names: is_on }, Self::Flag(0, is_on)]);
        }
        all
    }

    /// Changes the inodes, if the step is about them.
    fn change(self, inodes: &mut [Inode; FILES]) {
        match self {
            Self::Create { file, has_flag, names } => {
                let generation = !inodes[file].generation;
                inodes[file] = Inode { is_in_use: true, has_flag, names, generation };
            }
            Self::Delete(file) => {
                inodes[file] = Inode { generation: inodes[file].generation, ..Inode::default() };
            }
            Self::Renew(file) => {
                (inodes[file].generation, inodes[file].has_flag) = (!inodes[file].generation, false);
            }
            Self::Flag(file, has_flag) => inodes[file].has_flag = has_flag,
            Self::Name(file, names) => inodes[file].names = names,
            Self::HandOver(from) => (inodes[from].names, inodes[1 - from].names) = (false, true),
            _ => {}
        }
    }
}

/// The product, the page, and the guest's disk.
struct Life {
    product: Product,
    disk: Disk,
    page: Page,
    /// All receipts that the page has given.
    told: Receipts,
    writes: u32,
}

impl Life {
    fn new() -> Result<Self, String> {
        let product = Product::new()?;
        let life = Self { product, disk: Disk::default(), page: Page::new(), told: [0; 3], writes: 0 };
        life.compare().map_err(|broken| format!("at the beginning: {broken}"))?;
        Ok(life)
    }

    /// Whether `step` can happen: what the product and the disk say, and what the page says.
    fn allows(&self, step: Step) -> Result<bool, String> {
        let ours = match step {
            Step::Time => self.product.syncs() == 0,
            Step::Act => self.product.syncs() > 0,
            _ => self.disk.allows(step),
        };
        agree("possible", &ours, &self.page.allows(step)).map(|()| ours)
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        let before = self.product.class();
        let was_freed = matches!(self.product.due()[..], [Due::Free { .. }]);
        self.happens(step)?;
        let told = self.page.step(step);
        self.told.iter_mut().zip(told).for_each(|(sum, it)| *sum += it);
        // What the guest frees itself is destroyed, and zeros are plain.
        let is_spared =
            step != Step::Trim || matches!(self.product.due()[..], [Due::Free { .. }]) && !was_freed;
        if before == Some(Class::Sensitive) && self.product.class() == Some(Class::Plain) && is_spared {
            return Err("promise: sensitive content became plain".into());
        }
        Ok(())
    }

    fn happens(&mut self, step: Step) -> Result<(), String> {
        let put = match step {
            Step::Time => return Ok(self.product.pass()?),
            Step::Act => return Ok(self.product.act()?),
            Step::Trim => return Ok(self.product.ask(Op::Trim, place(BLOCK))?),
            Step::Mount | Step::Crash => self.disk.mount(),
            Step::Unmount => self.disk.unmount(),
            Step::Map(is_allocated) => self.disk.put_map(is_allocated),
            Step::Nothing => Disk::put_nothing(),
            Step::Data => {
                self.writes += 1;
                let mut content = vec![0; place(BLOCK).len as usize];
                fill(Tag(self.writes), place(BLOCK).start.0, &mut content);
                Put { block: BLOCK, content }
            }
            _ => {
                let mut inodes = self.disk.inodes;
                step.change(&mut inodes);
                self.disk.put_inodes(inodes)
            }
        };
        Ok(self.product.ask(Op::Write(put.content.into()), place(put.block))?)
    }

    /// Compares everything that shows.
    fn compare(&self) -> Result<(), String> {
        agree("class", &self.product.class(), &Some(self.page.class()))?;
        agree("known", &self.product.figures(), &self.page.figures())?;
        let owed = match self.product.due()[..] {
            [] => None,
            [Due::Free { .. }] => Some(Owed::Free),
            [Due::Shred { .. }] => Some(Owed::Shred),
            [Due::ConservativeOverwrite] => Some(Owed::Below),
            [Due::Suspicious] => Some(Owed::BeforeWrite),
            _ => return Err("the block owes several things".into()),
        };
        agree("owed", &owed, &self.page.owed())?;
        agree("receipts", &self.product.receipts(), &self.told)?;
        agree("syncs under way", &self.product.syncs(), &self.page.syncs())
    }
}

fn agree<T: PartialEq + std::fmt::Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}: the product says {ours:?}, the page {theirs:?}"))
}

/// Result of an enumeration.
#[derive(Clone, Debug, Default)]
pub struct Enumerated {
    /// Reachable states.
    pub states: u64,
    /// Steps that were tried: each in each state.
    pub transitions: u64,
    /// Steps that cannot happen in their state, by both versions.
    pub illegal: u64,
    /// Steps of the longest of the shortest ways to a state.
    pub depth: usize,
    /// No state is left to look at.
    pub is_complete: bool,
    /// The shortest history that tells the two versions apart, a step a line, and how.
    pub failure: Option<(String, String)>,
}

/// A history, and the state that it leads to.
type Way = (Vec<Step>, Page);

/// What follows from one state.
#[derive(Default)]
struct Followed {
    illegal: u64,
    ways: Vec<Way>,
    failure: Option<(Vec<Step>, String)>,
}

/// The life after `history`.
fn lived(history: &[Step]) -> Result<Life, String> {
    caught(|| {
        let mut life = Life::new()?;
        history.iter().try_for_each(|step| life.step(*step)).map(|()| life)
    })
}

/// Tries every step after `history`.
fn followed(history: &[Step], steps: &[Step]) -> Followed {
    let mut followed = Followed::default();
    let life = match lived(history) {
        Ok(life) => life,
        Err(broken) => return Followed { failure: Some((history.to_vec(), broken)), ..followed },
    };
    for &step in steps {
        let longer = [history, &[step]].concat();
        let next = match life.allows(step) {
            Ok(false) => {
                followed.illegal += 1;
                continue;
            }
            Ok(true) => lived(&longer).and_then(|life| life.compare().map(|()| life.page)),
            Err(broken) => Err(broken),
        };
        match next {
            Ok(page) => followed.ways.push((longer, page)),
            Err(broken) => {
                followed.failure = Some((longer, broken));
                break;
            }
        }
    }
    followed
}

/// Tries every step with one or two `files` in every state that can be reached, up to `states_max`, nearest first; over all
/// processors. `progress` is told what is done so far, from time to time.
pub fn enumerated(files: usize, states_max: u64, progress: impl Fn(&Enumerated)) -> Enumerated {
    let steps = Step::all(files);
    let follow = |level: &[Vec<Step>]| split(level.len() as u64, |n| followed(&level[n as usize], &steps));
    enumerate(steps.len(), states_max, follow, progress)
}

/// The same with two files on this thread, for which a defect may be switched on.
pub fn enumerated_here(states_max: u64) -> Enumerated {
    let steps = Step::all(FILES);
    let follow = |level: &[Vec<Step>]| level.iter().map(|history| followed(history, &steps)).collect();
    enumerate(steps.len(), states_max, follow, |_| {})
}

fn enumerate(
    steps: usize,
    states_max: u64,
    follow: impl Fn(&[Vec<Step>]) -> Vec<Followed>,
    progress: impl Fn(&Enumerated),
) -> Enumerated {
    let mut all = Enumerated::default();
    let mut seen = HashSet::from([Page::new()]);
    let mut level = vec![Vec::new()];
    while !level.is_empty() && all.states < states_max && all.failure.is_none() {
        level.truncate((states_max - all.states) as usize);
        let found = follow(&level);
        all.states += level.len() as u64;
        all.transitions += (level.len() * steps) as u64;
        let mut next = Vec::new();
        for Followed { illegal, ways, failure } in found {
            all.illegal += illegal;
            all.failure = all.failure.take().or_else(|| failure.map(listed));
            next.extend(ways.into_iter().filter(|(_, page)| seen.insert(page.clone())).map(|(way, _)| way));
        }
        all.depth += usize::from(!next.is_empty());
        level = next;
        progress(&all);
    }
    all.is_complete = level.is_empty();
    all
}

fn listed((history, broken): (Vec<Step>, String)) -> (String, String) {
    (history.iter().map(|it| format!("    {it:?}\n")).collect(), broken)
}
