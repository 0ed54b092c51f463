//! The life of a marked block, enumerated, with one block and two files: in each state everything that can happen, against
//! the page word for word ([`page`]; "TrueErase", section 6).
//!
//! The states are those of the page alone ([`graph`]). The product is driven through all of them in [`lives`].

pub mod graph;
mod guest;
mod judge;
pub mod lives;
mod page;
mod product;

use crate::machine::content::{Tag, fill};
use crate::rules::differential::agree;
use crate::rules::rule_e::marks::image::place;
use guest::{BLOCK, Disk, FILES, Inode, Put};
use judge::Judge;
use page::{Owed, Page, Receipts};
use product::Product;
use quietus_core::owed::ledger::Due;
use quietus_core::request::Op;
use quietus_core::watch::Class;

/// An event, which is tried in any state.
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
    /// A block is written that means nothing to the rules.
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
    /// All events that may happen with `files` files.
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

/// Begins the message about an event that both versions exclude.
const ILLEGAL: &str = "illegal";

/// The product, the page, and the guest's disk.
struct Life<'a> {
    all: &'a [Step],
    product: Product,
    disk: Disk,
    page: Page,
    judge: Judge,
    /// All receipts that the page has given.
    told: Receipts,
    writes: u32,
}

impl<'a> Life<'a> {
    fn new(all: &'a [Step]) -> Result<Self, String> {
        let (product, disk, page, judge) = (Product::new()?, Disk::default(), Page::new(), Judge::default());
        let life = Self { all, product, disk, page, judge, told: [0; 3], writes: 0 };
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

    /// Lets `step` happen, and compares all that shows then.
    fn step(&mut self, step: Step) -> Result<(), String> {
        if !self.allows(step)? {
            return Err(format!("{ILLEGAL}: {step:?}"));
        }
        let before = self.product.class();
        let was_freed = matches!(self.product.due()[..], [Due::Free { .. }]);
        self.happens(step)?;
        let told = self.page.step(step);
        self.told.iter_mut().zip(told).for_each(|(sum, it)| *sum += it);
        let is_declassed = before == Some(Class::Sensitive) && self.product.class() == Some(Class::Plain);
        if is_declassed && !self.is_destroyed(step, was_freed) {
            return Err("promise: sensitive content became plain".into());
        }
        self.judge.judge(&self.product)?;
        self.compare()
    }

    /// Whether all that was sensitive before `step` is destroyed, or its destruction is owed. `was_freed`: the block was owed
    /// as plain.
    fn is_destroyed(&self, step: Step, was_freed: bool) -> bool {
        match (step, &self.product.due()[..]) {
            // What the guest frees itself is owed, and zeros are plain.
            (Step::Trim, [Due::Free { .. }]) => was_freed,
            (Step::Trim, _) | (_, [Due::ConservativeOverwrite]) => true,
            (_, [Due::Suspicious]) => self.product.server.is_bare(place(BLOCK), true),
            (_, []) => self.product.server.is_bare(place(BLOCK), false),
            _ => false,
        }
    }

    fn happens(&mut self, step: Step) -> Result<(), String> {
        let put = match step {
            Step::Time => return Ok(self.product.pass()?),
            Step::Act => return Ok(self.product.act()?),
            Step::Trim => {
                self.judge.freed();
                return Ok(self.product.ask(Op::Trim, place(BLOCK))?);
            }
            Step::Mount | Step::Crash => self.disk.mount(),
            Step::Unmount => self.disk.unmount(),
            Step::Map(is_allocated) => self.disk.put_map(is_allocated),
            Step::Nothing => Disk::put_nothing(),
            Step::Data => {
                self.writes += 1;
                let mut content = vec![0; place(BLOCK).len as usize];
                fill(Tag(self.writes), place(BLOCK).start.0, &mut content);
                self.judge.written(Tag(self.writes));
                Put { block: BLOCK, content }
            }
            _ => {
                let mut inodes = self.disk.inodes;
                step.change(&mut inodes);
                self.judge.inodes_written(inodes);
                self.disk.put_inodes(inodes)
            }
        };
        Ok(self.product.ask(Op::Write(put.content.into()), place(put.block))?)
    }

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
        agree("owed", &owed, &self.page.owed)?;
        agree("receipts", &self.product.receipts(), &self.told)?;
        agree("syncs under way", &self.product.syncs(), &self.page.syncs())?;
        self.all.iter().try_for_each(|step| self.allows(*step).map(|_| ()))
    }
}
