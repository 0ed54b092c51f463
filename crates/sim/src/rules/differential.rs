//! Both versions of some rules, driven by the same events.

use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{Attached, Class, Content, Moment, Observation, Scope, Verdict};
use quietus_detect::formats::format::Block;
use quietus_detect::rules::rule::Rule;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::Hasher;
use std::ops::Range;

/// Figures of a version that the other version must share, by the names that the product's status
/// gives them.
pub type Census = Vec<(&'static str, u64)>;

/// A second version of some rules. A name of a part of [`quietus_core::watch::Observer`] means the
/// same here.
pub trait Version: fmt::Debug {
    fn observe(&mut self, at: Moment, observation: Observation<'_>);

    /// Blocks that must be seen before `extent` changes.
    fn needs(&self, extent: Extent<Addr>) -> BTreeSet<Block>;

    /// Blocks that the version wants to read.
    fn wants(&self) -> BTreeSet<Block>;

    /// The work that is due now, layers too; `all` as in [`quietus_core::watch::Scope`].
    fn due(&self, all: bool) -> BTreeMap<Block, Verdict>;

    /// `verdict` on `block` was handed out; with `all`, before it settled.
    fn handed_out(&mut self, block: Block, verdict: Verdict, all: bool);

    /// The parts of `extent` to be destroyed before it is written.
    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>>;

    fn census(&self) -> Census;

    fn is_over(&self) -> bool;

    /// Whether the outcome hung on a time that the rules do not fix exactly.
    fn is_unsure(&self) -> bool;

    /// Adds everything that matters later to `hasher`.
    fn digest(&self, hasher: &mut dyn Hasher);
}

/// The versions that watch the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watchers {
    /// The product, and the reference beside it.
    Both,
    /// The product alone.
    Product,
    /// The reference alone.
    Reference,
}

/// Up to two versions of some rules, and the disk that they watch, in blocks of `BYTES`.
#[derive(Debug)]
pub struct Differential<const BYTES: usize> {
    rule: Option<Box<dyn Rule>>,
    /// The reference; gone beside the product once something hung on a time that the rules do not
    /// fix.
    reference: Option<Box<dyn Version>>,
    pub disk: Vec<[u8; BYTES]>,
    pub now: Millis,
    clients: usize,
    attached: Attached,
    /// Blocks that a version wants are read before anything else happens.
    reads_at_once: bool,
}

/// The bytes of `block` on a disk of blocks of `block_bytes`.
pub fn place(block: Block, block_bytes: u32) -> Extent<Addr> {
    Extent::new(u64::from(block) * u64::from(block_bytes), u64::from(block_bytes))
}

fn touched<const BYTES: usize>(extent: Extent<Addr>) -> Range<Block> {
    (extent.start.0 / BYTES as u64) as Block..extent.end().div_ceil(BYTES as u64) as Block
}

impl<const BYTES: usize> Differential<BYTES> {
    /// Both versions, as they begin to watch `disk`.
    pub fn new(
        rule: Box<dyn Rule>,
        reference: Box<dyn Version>,
        disk: Vec<[u8; BYTES]>,
        now: Millis,
    ) -> Self {
        Self {
            rule: Some(rule),
            reference: Some(reference),
            disk,
            now,
            clients: 0,
            attached: Attached::Direct,
            reads_at_once: false,
        }
    }

    /// The versions that are among the `watchers`.
    pub fn watched_by(self, watchers: Watchers) -> Self {
        let rule = self.rule.filter(|_| watchers != Watchers::Reference);
        let reference = self.reference.filter(|_| watchers != Watchers::Product);
        Self { rule, reference, ..self }
    }

    /// From here on each version reads what it wants before anything else
    /// happens: how much they remember of what was written is their own matter.
    pub fn at_once(mut self) -> Self {
        self.reads_at_once = true;
        self.read_all();
        self
    }

    pub fn observe(&mut self, observation: Observation<'_>) {
        self.rule_observes(observation);
        self.literal_observes(observation);
    }

    fn rule_observes(&mut self, observation: Observation<'_>) {
        let at = self.moment();
        self.rule.iter_mut().for_each(|it| it.observe(at, observation));
    }

    fn literal_observes(&mut self, observation: Observation<'_>) {
        let at = self.moment();
        self.reference.iter_mut().for_each(|it| it.observe(at, observation));
        if self.rule.is_some() {
            self.reference.take_if(|it| it.is_unsure());
        }
    }

    fn moment(&self) -> Moment {
        Moment { now: self.now, clients: self.clients, attached: self.attached }
    }

    /// Each version reads until it wants nothing, without the other.
    fn read_all(&mut self) {
        if !self.reads_at_once {
            return;
        }
        while let Some(extent) = self.rule.as_mut().and_then(|it| it.wants()) {
            let content = self.read(extent);
            self.rule_observes(given(extent, &content));
        }
        while let Some(extent) = self.reference_wants().first().map(|it| place(*it, BYTES as u32)) {
            let content = self.read(extent);
            self.literal_observes(given(extent, &content));
        }
    }

    /// The class of the content of `block`, as the product has it.
    pub fn class(&self, block: Block) -> Option<Class> {
        let classes = self.rule.as_ref()?.classes(place(block, BYTES as u32));
        classes.first().map(|(_, class)| *class)
    }

    pub fn is_over(&self) -> bool {
        let reference = || self.reference.as_ref().is_some_and(|it| it.is_over());
        self.rule.as_ref().map_or_else(reference, |it| it.has_changed() || it.broken().is_some())
    }

    /// Whether nothing more is to be learned: inference has stopped, or hung on a time that the rules do not fix.
    pub fn is_done(&self) -> bool {
        self.is_over() || self.reference.is_none()
    }

    /// Adds what tells two states apart to `hasher`: the disk, and the knowledge of the rules.
    pub fn digest(&self, hasher: &mut dyn Hasher) {
        hasher.write(self.disk.as_flattened());
        self.reference.iter().for_each(|it| it.digest(hasher));
    }

    /// Writes `bytes` at `from` in `block`, as the guest. Returns the blocks to destroy before that.
    pub fn write(&mut self, block: Block, from: usize, bytes: &[u8]) -> Result<Vec<Block>, String> {
        let start = place(block, BYTES as u32).start.0 + from as u64;
        let extent = Extent::new(start, bytes.len() as u64);
        let taken = self.take(extent)?;
        self.change(extent, Content::Bytes(bytes))?;
        Ok(taken)
    }

    pub fn connected(&mut self, clients: usize) {
        self.clients = clients;
        self.observe(Observation::Clients);
    }

    pub fn attached(&mut self, attached: Attached) {
        self.attached = attached;
        self.observe(Observation::Attached);
    }

    pub fn look(&mut self, block: Block) -> Result<(), String> {
        self.observe(Observation::Read(place(block, BYTES as u32)));
        self.compare()
    }

    pub fn free(&mut self, block: Block) -> Result<(), String> {
        self.change(place(block, BYTES as u32), Content::Zeros)
    }

    fn take(&mut self, extent: Extent<Addr>) -> Result<Vec<Block>, String> {
        let bytes = |parts: Vec<Extent<Addr>>| -> BTreeSet<u64> {
            parts.iter().flat_map(|it| it.start.0..it.end()).collect()
        };
        let ours = self.rule.as_mut().map(|it| bytes(it.take_suspicious(extent)));
        let theirs = self.reference.as_mut().map(|it| bytes(it.take_suspicious(extent)));
        let taken = agreed("to be destroyed before a write", ours, theirs)?;
        let blocks: BTreeSet<_> = taken.into_iter().map(|it| (it / BYTES as u64) as Block).collect();
        Ok(blocks.into_iter().collect())
    }

    fn change(&mut self, extent: Extent<Addr>, content: Content<'_>) -> Result<(), String> {
        self.observe(Observation::Arrived { extent, content });
        if !self.is_over() {
            self.see(extent, content)?;
        }
        self.put(extent, content);
        self.read_all();
        self.compare()
    }

    /// Shows the content of `extent`, just before it gets `content`.
    fn see(&mut self, extent: Extent<Addr>, content: Content<'_>) -> Result<(), String> {
        let ours = self.rule.as_ref().map(|it| it.needs(extent));
        let blocks = ours.iter().map(|it| it.iter().copied().flat_map(touched::<BYTES>).collect()).next();
        let theirs = self.reference.as_ref().map(|it| it.needs(extent));
        let blocks = agreed("needed before a write", blocks, theirs)?;
        for old_extent in
            ours.unwrap_or_else(|| blocks.into_iter().map(|it| place(it, BYTES as u32)).collect())
        {
            let old = self.read(old_extent);
            self.observe(Observation::Overwriting { extent, content, old_extent, old: &old });
        }
        Ok(())
    }

    fn read(&self, extent: Extent<Addr>) -> Vec<u8> {
        let (from, to) = (extent.start.0 as usize, extent.end() as usize);
        self.disk.as_flattened()[from..to].to_vec()
    }

    fn put(&mut self, extent: Extent<Addr>, content: Content<'_>) {
        let (from, to) = (extent.start.0 as usize, extent.end() as usize);
        let place = &mut self.disk.as_flattened_mut()[from..to];
        match content {
            Content::Bytes(bytes) => place.copy_from_slice(bytes),
            Content::Zeros => place.fill(0),
        }
    }

    /// Reads one block that a version wants; false if neither wants any.
    pub fn read_one(&mut self) -> Result<bool, String> {
        let theirs = self.reference_wants();
        let ours = match &mut self.rule {
            Some(rule) => rule.wants(),
            None => theirs.first().map(|it| place(*it, BYTES as u32)),
        };
        let Some(extent) = ours else {
            return agree("blocks wanted at the end", &BTreeSet::new(), &theirs).map(|()| false);
        };
        let content = self.read(extent);
        self.observe(given(extent, &content));
        self.compare()?;
        Ok(true)
    }

    fn reference_wants(&self) -> BTreeSet<Block> {
        let reference = self.reference.as_ref().filter(|it| !it.is_over());
        reference.map_or_else(BTreeSet::new, |it| it.wants())
    }

    pub fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.now.0 += ms;
        self.observe(Observation::Tick);
        self.read_all();
        self.compare()
    }

    pub fn verdicts(&mut self, all: bool) -> Result<BTreeMap<Block, Verdict>, String> {
        let ours = self.rule.as_mut().map(|it| handed_out::<BYTES>(&mut **it, all)).transpose()?;
        let theirs = self.reference.as_ref().map(|it| it.due(all));
        let verdicts = agreed("handed out", ours, theirs)?;
        if let Some(reference) = &mut self.reference {
            verdicts.iter().for_each(|(block, verdict)| reference.handed_out(*block, *verdict, all));
        }
        self.compare()?;
        Ok(verdicts)
    }

    /// Compares all that the two versions show.
    fn compare(&self) -> Result<(), String> {
        let (Some(rule), Some(reference)) = (&self.rule, &self.reference) else { return Ok(()) };
        agree("over", &self.is_over(), &reference.is_over())?;
        if reference.is_over() {
            return Ok(());
        }
        let (mut census, figures) = (reference.census(), rule.figures());
        census.sort_unstable();
        let is_told = |name| census.iter().any(|(it, _)| *it == name);
        let mut figures: Census = figures.into_iter().filter(|(name, _)| is_told(*name)).collect();
        figures.sort_unstable();
        agree("known", &figures, &census)
    }
}

fn given(extent: Extent<Addr>, content: &[u8]) -> Observation<'_> {
    Observation::Given { extent, content: Some(content) }
}

/// All verdicts of `rule`, one for each block.
fn handed_out<const BYTES: usize>(
    rule: &mut dyn Rule,
    all: bool,
) -> Result<BTreeMap<Block, Verdict>, String> {
    let (scope, mut verdicts) = (Scope { layers: true, all, is_busy: &|_| false }, BTreeMap::new());
    while let Some((extent, verdict)) = rule.verdict(scope) {
        for block in touched::<BYTES>(extent) {
            if let Some(twice) = verdicts.insert(block, verdict) {
                return Err(format!("block {block} is handed out twice: {twice:?}, {verdict:?}"));
            }
        }
    }
    Ok(verdicts)
}

/// The answer of the versions that watch, which must agree.
fn agreed<T: PartialEq + fmt::Debug>(what: &str, ours: Option<T>, theirs: Option<T>) -> Result<T, String> {
    if let (Some(ours), Some(theirs)) = (&ours, &theirs) {
        agree(what, ours, theirs)?;
    }
    ours.or(theirs).ok_or_else(|| "no version of the rules watches the disk".into())
}

/// Compares what the product and the page say of `what`.
pub fn agree<T: PartialEq + fmt::Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}: the product says {ours:?}, the page {theirs:?}"))
}
