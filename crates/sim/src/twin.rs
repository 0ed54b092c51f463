//! Both versions of some rules, driven by the same events.

use quietus_core::units::{Addr, Extent, Millis};
use quietus_core::watch::{Attached, Content, Moment, Observation, Scope, Verdict};
use quietus_detect::format::Block;
use quietus_detect::rule::Rule;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::Hasher;
use std::ops::Range;

/// Figures of a version that the other version must share, by the names that the product's status
/// gives them.
pub type Census = Vec<(&'static str, u64)>;

/// A second version of some rules. A name of an [`Observation`] or of a part of
/// [`quietus_core::watch::Observer`] means the same here.
pub trait Version: fmt::Debug {
    /// New content arrives.
    fn arrived(&mut self, now: Millis, extent: Extent<Addr>, content: Content<'_>);

    /// The number of connected clients changes.
    fn connected(&mut self, _now: Millis, _clients: usize) {}

    /// The attachment of the guest changes.
    fn attached(&mut self, _now: Millis, _attached: Attached) {}

    /// The guest reads `extent`.
    fn read(&mut self, _extent: Extent<Addr>) {}

    /// Blocks that must be seen before `extent` changes.
    fn needs(&self, extent: Extent<Addr>) -> BTreeSet<Block>;

    /// `seen`, whole blocks, holds `old`, and `extent` gets `content` next.
    fn overwriting(&mut self, extent: Extent<Addr>, content: Content<'_>, seen: Extent<Addr>, old: &[u8]);

    /// Blocks that the version wants to read.
    fn wants(&self) -> BTreeSet<Block>;

    /// Content of a block that was wanted.
    fn given(&mut self, extent: Extent<Addr>, content: Option<&[u8]>);

    /// Time passes.
    fn tick(&mut self, now: Millis);

    /// Evidence begins to be made durable.
    fn cut(&mut self);

    /// The evidence is durable.
    fn proven(&mut self);

    /// All that is to be done now: `layers` and `all` as in
    /// [`quietus_core::watch::Scope`].
    fn due(&self, layers: bool, all: bool) -> BTreeMap<Block, Verdict>;

    /// `verdict` on `block` was handed out; with `all`, before it settled.
    fn handed_out(&mut self, block: Block, verdict: Verdict, all: bool);

    /// The parts of `extent` to be destroyed before it is written.
    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>>;

    /// Figures of the version's knowledge.
    fn census(&self) -> Census;

    /// Whether inference has stopped.
    fn is_over(&self) -> bool;

    /// Whether something hung on a time that the rules do not fix exactly.
    fn is_unsure(&self) -> bool;

    /// Adds everything that matters later to `hasher`.
    fn digest(&self, hasher: &mut dyn Hasher);
}

/// Two versions of some rules, and the disk that they watch, in blocks of `BYTES`.
#[derive(Debug)]
pub struct Twin<const BYTES: usize> {
    rule: Box<dyn Rule>,
    /// The reference; gone once something hung on a time that the rules do not fix.
    literal: Option<Box<dyn Version>>,
    disk: Vec<[u8; BYTES]>,
    now: Millis,
    clients: usize,
    attached: Attached,
    /// Whatever is wanted is read before anything else happens.
    reads_at_once: bool,
}

/// The bytes of `block`.
fn place<const BYTES: usize>(block: Block) -> Extent<Addr> {
    Extent::new(u64::from(block) * BYTES as u64, BYTES as u64)
}

/// The blocks that `extent` touches.
fn touched<const BYTES: usize>(extent: Extent<Addr>) -> Range<Block> {
    (extent.start.0 / BYTES as u64) as Block..extent.end().div_ceil(BYTES as u64) as Block
}

impl<const BYTES: usize> Twin<BYTES> {
    /// Both versions, as they begin to watch `disk`.
    #[must_use]
    pub fn new(
        rule: Box<dyn Rule>,
        literal: Option<Box<dyn Version>>,
        disk: Vec<[u8; BYTES]>,
        now: Millis,
    ) -> Self {
        Self { rule, literal, disk, now, clients: 0, attached: Attached::Direct, reads_at_once: false }
    }

    /// From here on each version reads what it wants before anything else
    /// happens: how much they remember of what was written is their own matter.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.reads_at_once = true;
        self.read_all();
        self
    }

    fn observe(&mut self, observation: Observation<'_>) {
        self.rule
            .observe(Moment { now: self.now, clients: self.clients, attached: self.attached }, observation);
    }

    fn read_all(&mut self) {
        if !self.reads_at_once {
            return;
        }
        while let Some(extent) = self.rule.wants() {
            let content = self.read(extent);
            self.observe(Observation::Given { extent, content: Some(&content) });
        }
        while let Some(block) = self.literal_wants().pop_first() {
            let extent = place::<BYTES>(block);
            let content = self.read(extent);
            self.tell(|it, _| it.given(extent, Some(&content)));
        }
    }

    /// The product without the reference.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { literal: None, ..self }
    }

    /// The content of `block`.
    #[must_use]
    pub fn content(&self, block: Block) -> &[u8; BYTES] {
        &self.disk[block as usize]
    }

    /// The content of the disk.
    #[must_use]
    pub fn disk(&self) -> &[[u8; BYTES]] {
        &self.disk
    }

    /// Destroys the content of `block`: neither version is told.
    pub fn destroy(&mut self, block: Block) {
        self.disk[block as usize].fill(0);
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Whether inference has stopped.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.rule.has_changed() || self.rule.broken().is_some()
    }

    /// The knowledge of the rules, for telling states apart; none once it hangs on a time that the
    /// rules do not fix.
    #[must_use]
    pub fn literal(&self) -> Option<&dyn Version> {
        self.literal.as_deref()
    }

    /// Writes `bytes` from `extent` on, as the guest. Returns what is to be destroyed before; that
    /// is asked for only if there are `layers`.
    ///
    /// # Errors
    /// The two disagree.
    pub fn write(&mut self, extent: Extent<Addr>, bytes: &[u8], layers: bool) -> Result<Vec<Block>, String> {
        let taken = if layers { self.take(extent)? } else { Vec::new() };
        self.change(extent, Content::Bytes(bytes))?;
        Ok(taken)
    }

    /// Sets the number of connected clients.
    pub fn connected(&mut self, clients: usize) {
        self.clients = clients;
        self.observe(Observation::Clients);
        self.tell(|it, now| it.connected(now, clients));
    }

    /// Sets the attachment of the guest.
    pub fn attached(&mut self, attached: Attached) {
        self.attached = attached;
        self.observe(Observation::Attached);
        self.tell(|it, now| it.attached(now, attached));
    }

    /// Reads `block`, as the guest.
    ///
    /// # Errors
    /// The two disagree.
    pub fn look(&mut self, block: Block) -> Result<(), String> {
        self.observe(Observation::Read(place::<BYTES>(block)));
        self.tell(|it, _| it.read(place::<BYTES>(block)));
        self.compare()
    }

    /// Frees `block`, as the guest.
    ///
    /// # Errors
    /// The two disagree.
    pub fn free(&mut self, block: Block) -> Result<(), String> {
        self.change(place::<BYTES>(block), Content::Zeros)
    }

    fn take(&mut self, extent: Extent<Addr>) -> Result<Vec<Block>, String> {
        let bytes = |parts: &[Extent<Addr>]| -> BTreeSet<u64> {
            parts.iter().flat_map(|it| it.start.0..it.end()).collect()
        };
        let ours = self.rule.take_suspicious(extent);
        if let Some(literal) = &mut self.literal {
            let theirs = literal.take_suspicious(extent);
            agree("to be destroyed before a write", &bytes(&ours), &bytes(&theirs))?;
        }
        Ok(ours.into_iter().flat_map(touched::<BYTES>).collect())
    }

    fn change(&mut self, extent: Extent<Addr>, content: Content<'_>) -> Result<(), String> {
        self.observe(Observation::Arrived { extent, content });
        self.tell(|it, now| it.arrived(now, extent, content));
        if !self.is_over() {
            self.see(extent, content)?;
        }
        self.put(extent, content);
        self.read_all();
        self.compare()
    }

    /// Shows the content of `extent`, just before it gets `content`.
    fn see(&mut self, extent: Extent<Addr>, content: Content<'_>) -> Result<(), String> {
        let needs = self.rule.needs(extent);
        let blocks: BTreeSet<_> = needs.iter().copied().flat_map(touched::<BYTES>).collect();
        if let Some(literal) = &self.literal {
            agree("needed before a write", &blocks, &literal.needs(extent))?;
        }
        for seen in needs {
            let old = self.read(seen);
            self.observe(Observation::Overwriting { extent, content, seen, old: &old });
            self.tell(|it, _| it.overwriting(extent, content, seen, &old));
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

    /// Reads one block that is wanted; false: none is.
    ///
    /// # Errors
    /// The two disagree.
    pub fn read_one(&mut self) -> Result<bool, String> {
        let Some(extent) = self.rule.wants() else {
            agree("wanted at last", &BTreeSet::new(), &self.literal_wants())?;
            return Ok(false);
        };
        let content = self.read(extent);
        self.observe(Observation::Given { extent, content: Some(&content) });
        self.tell(|it, _| it.given(extent, Some(&content)));
        self.compare()?;
        Ok(true)
    }

    fn literal_wants(&self) -> BTreeSet<Block> {
        let literal = self.literal.as_ref().filter(|it| !it.is_over());
        literal.map_or_else(BTreeSet::new, |it| it.wants())
    }

    /// Tells the reference, as long as that is sure.
    fn tell(&mut self, what: impl FnOnce(&mut dyn Version, Millis)) {
        if let Some(literal) = &mut self.literal {
            what(&mut **literal, self.now);
        }
        self.literal.take_if(|it| it.is_unsure());
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// The two disagree.
    pub fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.now.0 += ms;
        self.observe(Observation::Tick);
        self.tell(|it, now| it.tick(now));
        self.read_all();
        self.compare()
    }

    /// Begins to make the evidence durable.
    pub fn cut(&mut self) {
        self.observe(Observation::Cut);
        self.tell(|it, _| it.cut());
    }

    /// Makes the evidence durable.
    pub fn proven(&mut self) {
        self.observe(Observation::Proven);
        self.tell(|it, _| it.proven());
    }

    /// Takes all verdicts that there are.
    ///
    /// # Errors
    /// The two disagree.
    pub fn verdicts(&mut self, layers: bool, all: bool) -> Result<BTreeMap<Block, Verdict>, String> {
        let scope = Scope { layers, all, is_busy: &|_| false };
        let mut ours = BTreeMap::new();
        while let Some((extent, verdict)) = self.rule.verdict(scope) {
            for block in touched::<BYTES>(extent) {
                if let Some(twice) = ours.insert(block, verdict) {
                    return Err(format!("block {block} is handed out twice: {twice:?}, {verdict:?}"));
                }
            }
        }
        if let Some(literal) = &mut self.literal {
            agree("handed out", &ours, &literal.due(layers, all))?;
            ours.iter().for_each(|(block, verdict)| literal.handed_out(*block, *verdict, all));
        }
        self.compare()?;
        Ok(ours)
    }

    /// Compares everything that shows.
    fn compare(&self) -> Result<(), String> {
        let Some(literal) = &self.literal else { return Ok(()) };
        agree("over", &self.is_over(), &literal.is_over())?;
        if literal.is_over() {
            return Ok(());
        }
        let (census, figures) = (literal.census(), self.rule.figures());
        let is_told = |name| census.iter().any(|(it, _)| *it == name);
        let mut figures: Census = figures.into_iter().filter(|(name, _)| is_told(*name)).collect();
        figures.sort_unstable();
        agree("known", &figures, &census)
    }
}

fn agree<T: PartialEq + std::fmt::Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}: the product says {ours:?}, the page {theirs:?}"))
}
