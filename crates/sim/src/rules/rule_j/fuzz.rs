//! Any writes of a guest to a journal and beside it, in any order, in parts,
//! twice, with numbers of any sort: the two versions of rule J must agree.

use crate::rules::differential::{Differential, Watchers};
use crate::rules::rule_e::search::Space;
use crate::rules::rule_e::toy::{BLOCK_BYTES, Inode, MAP, SUPER, Super, TABLE, Toy, table};
use crate::rules::rule_e::wide::widened;
use crate::rules::rule_j::device::WIDE_BYTES;
use crate::rules::rule_j::log::{Area, At, Flavour, Logged, MAGIC, Tail, Tid};
use crate::rules::rule_j::reference::Reading;
use crate::rules::rule_j::rules::differential;
use quietus_core::base::units::Millis;
use quietus_core::watch::Observation;
use quietus_detect::formats::format::Block;
use quietus_detect::rules::options::{Grade, Options};
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// Blocks of the journal, its superblock too.
const JOURNAL: u32 = 9;
/// The first block of the log.
const FIRST: At = 1;
const DATA: u32 = 2;
/// Contents that make a transaction as long as the log.
const LONG: u32 = 5;
/// Milliseconds that a tool's writes are doubted for.
const SETTLE_MS: u64 = 8000;
/// `settle`, in milliseconds; twice as long is less than a gap may count for.
const SHORT_MS: u64 = 400;
const HALF: usize = WIDE_BYTES as usize / 2;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Shape {
    /// A map: a bit for each block of data; and whether it has to be escaped.
    Map(u8, bool),
    Other,
    /// Inodes: whether a file has the blocks of data, and a bit for each that it has not written.
    Inodes(bool, u8),
    /// A map, something else, and a revocation.
    Much(u8),
    /// As many contents as the log has blocks.
    Long,
}

/// A superblock of the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Says {
    /// The log is empty; the number that follows is this much higher than the next one.
    Empty(i8),
    /// The tail is where the next transaction begins, with a number this much
    /// higher.
    Here(i8),
    /// The tail is where the log was begun last.
    Begin,
    /// The tail is at the log's first block, with a number this much higher.
    First(i8),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// All of a block of data is written.
    Data(Block),
    Half(Block),
    Free(Block),
    /// Block n of the transaction arrives.
    Piece(usize),
    /// One half of block n arrives.
    Part(usize, bool),
    /// All blocks of the transaction arrive, in order, and the next transaction is begun.
    All,
    /// The next transaction is begun, whatever of this one has arrived.
    Turn,
    Becomes(Shape),
    /// A commit block, with a number this much higher, this far behind the beginning.
    Stray(u32, i8),
    /// A block that is not a header, at that offset behind the beginning.
    Junk(u32),
    Tail(Says),
    /// Half of a block of data is written.
    HalfTail(Says),
    /// The map is written in its place: a bit for each block of data.
    Map(u8),
    /// The superblock is written, and says whether the file system is clean.
    Super(bool),
    Cut,
    Proven,
    /// Verdicts are carried out; if true, also those that may still settle by themselves.
    Act(bool),
    Pass(u64),
}

/// A part of all that can happen, which is searched by itself.
#[derive(Clone, Debug)]
pub struct Theme {
    pub name: &'static str,
    /// The disk at first: an empty log, and a file system that says that
    /// it is whole, or that it is mounted.
    pub was_clean: bool,
    /// Whether the rules have watched the file system from the start.
    pub seen_from_start: bool,
    pub grade: Grade,
    /// How long a tool's writes are doubted, in milliseconds.
    pub settle_ms: u64,
    pub flavour: Flavour,
    /// The number of the first transaction.
    pub tid: Tid,
    /// Steps that have happened before.
    pub before: Vec<Step>,
    pub steps: Vec<Step>,
}

/// Two versions of the rule, and a guest that knows no rules.
#[derive(Debug)]
pub struct Fuzz {
    area: Area,
    differential: Differential<{ WIDE_BYTES as usize }>,
    steps: Vec<Step>,
    /// The transaction that is being written, and where it begins.
    shape: Shape,
    next: (Tid, At),
    /// Where the log was begun last.
    begun: Tail,
}

impl Fuzz {
    /// A disk with an empty log, all of whose data is free, and what has
    /// happened to it `before`.
    pub fn new(theme: &Theme) -> Self {
        let block_bytes = WIDE_BYTES;
        let toy = Toy { journal: JOURNAL, block_bytes, ..Toy::new(TABLE + 1 + JOURNAL + DATA) };
        let (first, flavour) = (toy.journal_first(), theme.flavour);
        let area = Area { first, len: JOURNAL, base: 0, block_bytes, flavour };
        let mut disk = vec![[0; WIDE_BYTES as usize]; toy.blocks as usize];
        let is_clean = theme.was_clean;
        disk[SUPER as usize][..BLOCK_BYTES]
            .copy_from_slice(&Super { is_clean, mended: 0, mounts: 0 }.bytes());
        disk[MAP as usize].copy_from_slice(&map(area, 0, false));
        disk[first as usize].copy_from_slice(&area.superblock(Tail { start: 0, tid: theme.tid }));
        let options = Options {
            grade: theme.grade,
            reorder_window_ms: 10,
            settle_ms: theme.settle_ms,
            ..Options::default()
        };
        let differential = differential(
            |disk| Box::new(toy.found(&disk[SUPER as usize])),
            area,
            (Watchers::Both, Reading::Page),
            disk,
            options,
            Millis(1_000_000),
            theme.seen_from_start,
        );
        let next = (theme.tid, FIRST);
        let begun = Tail { start: FIRST, tid: theme.tid };
        let mut this =
            Self { area, differential, steps: theme.steps.clone(), shape: Shape::Map(0, false), next, begun };
        theme.before.iter().for_each(|it| this.step(*it).expect("both agree on the beginning"));
        this
    }

    fn pieces(&self) -> Vec<(At, Vec<u8>)> {
        let (tid, at) = self.next;
        let map = |bits, escaped| (MAP, map(self.area, bits, escaped).to_vec());
        let something = |block| (block, vec![7; WIDE_BYTES as usize]);
        let (contents, revoked) = match self.shape {
            Shape::Map(bits, escaped) => (vec![map(bits, escaped)], Vec::new()),
            Shape::Other => (vec![something(TABLE)], Vec::new()),
            Shape::Inodes(is_there, unwritten) => (vec![(TABLE, inodes(is_there, unwritten))], Vec::new()),
            Shape::Much(bits) => (vec![map(bits, true), something(TABLE)], vec![TABLE]),
            Shape::Long => ((TABLE..TABLE + LONG).map(something).collect(), Vec::new()),
        };
        let contents = contents.into_iter().collect();
        self.area.encode(&Logged { tid, contents, revoked }, at)
    }

    fn piece(&mut self, n: usize, part: Range<usize>) -> Result<(), String> {
        let pieces = self.pieces();
        pieces.get(n).map_or(Ok(()), |(at, bytes)| self.write(self.area.block(*at), part.start, &bytes[part]))
    }

    fn turn(&mut self) {
        let (tid, at) = self.next;
        self.next = (tid.wrapping_add(1), self.area.ahead(at, self.pieces().len() as u32));
    }

    fn number(&self, higher: i8) -> Tid {
        self.next.0.wrapping_add_signed(higher.into())
    }

    fn tail(&mut self, says: Says) -> Tail {
        let tail = match says {
            Says::Empty(higher) => Tail { start: 0, tid: self.number(higher) },
            Says::Here(higher) => Tail { start: self.next.1, tid: self.number(higher) },
            Says::Begin => return self.begun,
            Says::First(higher) => Tail { start: FIRST, tid: self.number(higher) },
        };
        self.next = (tail.tid, tail.start.max(FIRST));
        self.begun = Tail { start: self.next.1, tid: tail.tid };
        tail
    }

    fn write_log(&mut self, at: At, bytes: &[u8]) -> Result<(), String> {
        self.write(self.area.block(at), 0, bytes)
    }

    fn write(&mut self, block: Block, from: usize, bytes: &[u8]) -> Result<(), String> {
        self.differential.write(block, from, bytes).map(drop)
    }

    fn write_tail(&mut self, says: Says, len: usize) -> Result<(), String> {
        let tail = self.tail(says);
        self.write_log(0, &self.area.superblock(tail)[..len])
    }
}

/// A block of inodes, perhaps with a file that has both blocks of data.
fn inodes(is_there: bool, unwritten: u8) -> Vec<u8> {
    let direct = [FIRST_DATA as u8, FIRST_DATA as u8 + 1];
    let file = Inode { generation: 1, links: 1, direct, unwritten, ..Inode::default() };
    widened(&table(&[if is_there { file } else { Inode::default() }]), WIDE_BYTES)
}

/// A map that has those blocks of data allocated that `bits` say.
fn map(area: Area, bits: u8, escaped: bool) -> [u8; WIDE_BYTES as usize] {
    let mut bytes = [0; WIDE_BYTES as usize];
    let first_data = (area.first + area.len) as usize;
    bytes[..first_data].fill(1);
    if escaped {
        bytes[..4].copy_from_slice(&MAGIC);
    }
    for n in 0..DATA as usize {
        bytes[first_data + n] = bits >> n & 1;
    }
    bytes
}

impl Space for Fuzz {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        self.steps.clone()
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Data(block) => self.write(block, 0, &[0xda; 2 * HALF])?,
            Step::Half(block) => self.write(block, 0, &[0xda; HALF])?,
            Step::Free(block) => self.differential.free(block)?,
            Step::Piece(n) => self.piece(n, 0..2 * HALF)?,
            Step::Part(n, false) => self.piece(n, 0..HALF)?,
            Step::Part(n, true) => self.piece(n, HALF..2 * HALF)?,
            Step::All => {
                self.pieces().iter().try_for_each(|(at, bytes)| self.write_log(*at, bytes))?;
                self.turn();
            }
            Step::Turn => self.turn(),
            Step::Becomes(shape) => self.shape = shape,
            Step::Stray(ahead, higher) => {
                let logged = Logged { tid: self.number(higher), ..Logged::default() };
                let commit = self.area.encode(&logged, FIRST).pop().expect("there is a commit block").1;
                self.write_log(self.area.ahead(self.next.1, ahead), &commit)?;
            }
            Step::Junk(ahead) => self.write_log(self.area.ahead(self.next.1, ahead), &[0x11; 2 * HALF])?,
            Step::Tail(says) => self.write_tail(says, 2 * HALF)?,
            Step::HalfTail(says) => self.write_tail(says, HALF)?,
            Step::Map(bits) => self.write(MAP, 0, &map(self.area, bits, false))?,
            Step::Super(is_clean) => {
                let bytes = Super { is_clean, mended: 0, mounts: 0 }.bytes();
                self.write(SUPER, 0, &widened(&bytes, WIDE_BYTES))?;
            }
            Step::Cut => self.differential.observe(Observation::Cut),
            Step::Proven => self.differential.observe(Observation::Proven),
            Step::Act(all) => drop(self.differential.verdicts(all)?),
            Step::Pass(ms) => self.differential.pass(ms)?,
        }
        Ok(())
    }

    fn digest(&self, mut hasher: &mut dyn Hasher) {
        (self.shape, self.next, self.begun).hash(&mut hasher);
        self.differential.digest(hasher);
    }

    fn is_over(&self) -> bool {
        self.differential.is_done()
    }
}

const FIRST_DATA: Block = TABLE + 1 + JOURNAL;
const LOG_BLOCK: Block = TABLE + 1 + 2;

/// Everything at once, for walks: a theme of its own for each `seed`.
pub fn everything(seed: u64) -> Theme {
    let grades = [Grade::Generation, Grade::Generation, Grade::Block, Grade::Content];
    let mut steps = Vec::new();
    steps.extend((0..7).flat_map(|n| [Step::Piece(n), Step::Part(n, false), Step::Part(n, true)]));
    steps.extend([Step::All; 16]);
    steps.extend([Step::Turn; 4]);
    let maps = (0..4).flat_map(|bits| [Shape::Map(bits, false), Shape::Map(bits, true), Shape::Much(bits)]);
    steps.extend(maps.chain([Shape::Other, Shape::Long]).map(Step::Becomes));
    let inodes = (0..4).map(|it| Shape::Inodes(true, it)).chain([Shape::Inodes(false, 0)]);
    steps.extend(inodes.map(Step::Becomes));
    steps.extend((0..3).flat_map(|it| [Step::Stray(it, -1), Step::Stray(it, 0), Step::Junk(it)]));
    let blocks = [FIRST_DATA, FIRST_DATA + 1, LOG_BLOCK];
    steps.extend(
        blocks.into_iter().flat_map(|it| [Step::Data(it), Step::Data(it), Step::Half(it), Step::Free(it)]),
    );
    steps.extend([Says::Begin, Says::Here(0), Says::Here(1), Says::Empty(0), Says::Empty(1)].map(Step::Tail));
    steps.extend([Says::Here(0), Says::Empty(1)].map(Step::HalfTail));
    if !seed.is_multiple_of(3) {
        steps.extend([Step::Stray(1, 1), Step::Tail(Says::Empty(-2)), Step::Tail(Says::First(-1))]);
    }
    steps.extend((0..4).map(Step::Map));
    steps.extend([Step::Super(false), Step::Super(true), Step::Pass(600), Step::Pass(SETTLE_MS)]);
    steps.extend([Step::Pass(2000); 2]);
    steps.extend([Step::Cut, Step::Proven, Step::Cut, Step::Proven, Step::Act(true), Step::Act(false)]);
    Theme {
        name: "arbitrary writes to a journal",
        was_clean: seed.is_multiple_of(2),
        seen_from_start: seed % 5 < 3,
        grade: grades[(seed / 2) as usize % 4],
        settle_ms: if seed % 11 < 6 { SHORT_MS } else { SETTLE_MS },
        flavour: if seed % 7 < 4 { Flavour::Plain } else { Flavour::Summed },
        tid: if seed % 4 < 2 { 5 } else { Tid::MAX - 2 },
        before: Vec::new(),
        steps,
    }
}

/// Parts that are searched each by itself: few steps, so that it goes deep.
pub fn themes() -> Vec<Theme> {
    let theme = |name, before: &[Step], steps: &[&[Step]]| Theme {
        name,
        was_clean: true,
        seen_from_start: true,
        grade: Grade::Generation,
        settle_ms: SETTLE_MS,
        flavour: Flavour::Plain,
        tid: 5,
        before: before.to_vec(),
        steps: steps.concat(),
    };
    let mounted = [Step::Super(false), Step::Tail(Says::First(0))];
    let server = [Step::Cut, Step::Proven, Step::Act(false)];
    let data = [Step::Data(FIRST_DATA), Step::Half(FIRST_DATA), Step::Free(FIRST_DATA)];
    let maps = [Shape::Map(0, false), Shape::Map(1, true), Shape::Other].map(Step::Becomes);
    let pieces = [0, 1, 2].map(Step::Piece);
    let parts = [1, 2].map(|n| [Step::Part(n, false), Step::Part(n, true)]).concat();
    let shapes = [Shape::Map(0, false), Shape::Much(1), Shape::Long].map(Step::Becomes);
    let tails = [Says::Begin, Says::Here(0), Says::Here(1), Says::Empty(0), Says::Empty(-2)].map(Step::Tail);
    let strays = [Step::Stray(0, -1), Step::Stray(1, 0), Step::Stray(2, 1), Step::Junk(1)];
    let prepared = [Shape::Inodes(true, 0), Shape::Inodes(true, 1), Shape::Map(3, false)].map(Step::Becomes);
    let rest = [Step::Tail(Says::Empty(0)), Step::Super(false), Step::Super(true), Step::Pass(2000)];
    let places = [Step::Map(0), Step::Map(1), Step::Super(false), Step::Super(true), Step::Pass(600)];
    vec![
        theme("commits", &mounted, &[&maps, &data, &server, &[Step::All]]),
        theme("pieces", &mounted, &[&pieces, &[Step::Turn], &data[..1], &server, &maps]),
        theme("parts of pieces", &mounted, &[&pieces, &parts, &data[..1], &server]),
        theme("tails", &mounted, &[&tails, &maps[..2], &data[..1], &server, &[Step::All]]),
        theme("strays", &mounted, &[&strays, &pieces, &[Step::All, Step::Turn], &tails[..2]]),
        theme("shapes", &mounted, &[&shapes, &pieces, &[Step::All, Step::Piece(4)], &tails[1..2]]),
        theme("maps in place", &[], &[&places, &maps[..2], &data[..2], &server, &[Step::All], &tails[3..4]]),
        Theme {
            settle_ms: SHORT_MS,
            ..theme("unwritten", &mounted, &[&prepared, &data, &server, &[Step::All, Step::Pass(2000)]])
        },
        Theme {
            settle_ms: SHORT_MS,
            ..theme("unwritten, at rest", &mounted, &[&prepared, &data[..1], &server, &[Step::All], &rest])
        },
        Theme {
            was_clean: false,
            seen_from_start: false,
            tid: Tid::MAX,
            ..theme("an attach amid traffic", &[], &[&maps, &data[..1], &tails, &strays[..2], &[Step::All]])
        },
        Theme {
            grade: Grade::Block,
            flavour: Flavour::Summed,
            ..theme("by block", &mounted, &[&maps, &data, &tails[..3], &server, &[Step::All]])
        },
    ]
}
