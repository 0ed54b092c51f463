//! A cache between a guest and its disk, which holds writes back, merges them and sends them in any
//! order: a host's page cache, with another one below it.
//!
//! Each of the two layers has one copy of a block, the newest that it was given. A write passes
//! both within [`HOLD_MS`] of the guest's time; nothing more is known of its way.

use quietus_core::watch::Attached;
use quietus_detect::formats::format::Block;
use std::collections::BTreeMap;

/// Longest time that the cache holds a write back.
pub const HOLD_MS: u64 = 3000;

/// Possible steps of the cache itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// The upper layer hands a block to the lower one.
    Sink(Block),
    /// The lower layer sends a block.
    Emit(Block),
    /// A block that was sent is sent again: a part of the same page was written.
    Resend(Block),
    /// Both layers send all that they hold.
    Flush,
    /// The cache is put between the guest and its disk, or is removed once it is empty.
    Between(bool),
}

/// Copies of blocks, and since when the guest's oldest write waits in each.
type Layer<T> = BTreeMap<Block, (T, u64)>;

/// See the module's documentation. `T` is the content that is written to a block.
#[derive(Clone, Hash, Debug)]
pub struct Cache<T> {
    is_between: bool,
    upper: Layer<T>,
    lower: Layer<T>,
    /// Contents that were sent, as long as nothing newer was.
    sent: BTreeMap<Block, T>,
    now_ms: u64,
}

impl<T: Clone> Cache<T> {
    /// An empty cache. Unless it `is_between` the guest and its disk, every write passes.
    pub fn new(is_between: bool) -> Self {
        let (upper, lower) = (Layer::new(), Layer::new());
        Self { is_between, upper, lower, sent: BTreeMap::new(), now_ms: 0 }
    }

    /// How a server that knows of the cache takes the guest to be attached.
    pub fn attached(&self) -> Attached {
        if self.is_between { Attached::Cached { hold_ms: HOLD_MS } } else { Attached::Direct }
    }

    /// Blocks whose newest write waits here, each layer's from below.
    pub fn waiting(&self) -> impl Iterator<Item = (Block, &T)> {
        self.lower.iter().chain(&self.upper).map(|(block, (content, _))| (*block, content))
    }

    /// Takes what the guest writes to `block`, or returns it if the cache is not between. The time
    /// of the oldest write that waits for the block counts.
    #[must_use]
    pub fn take(&mut self, block: Block, content: T) -> Option<T> {
        if !self.is_between {
            return Some(content);
        }
        let since = self.upper.get(&block).map_or(self.now_ms, |it| it.1);
        self.upper.insert(block, (content, since));
        None
    }

    /// Lets `step` happen; returns the writes that it sends, in order.
    #[must_use]
    pub fn happen(&mut self, step: Step) -> Vec<(Block, T)> {
        match step {
            Step::Sink(block) => {
                self.sink(block);
                Vec::new()
            }
            Step::Emit(block) => self.emit(block).into_iter().collect(),
            Step::Resend(block) => self.resend(block).into_iter().collect(),
            Step::Flush => self.send_all(|_| true),
            Step::Between(is) => {
                let sent = if is { Vec::new() } else { self.send_all(|_| true) };
                self.is_between = is;
                self.sent.clear();
                sent
            }
        }
    }

    /// Lets milliseconds pass; returns what has waited for as long as it may.
    #[must_use]
    pub fn pass(&mut self, ms: u64) -> Vec<(Block, T)> {
        self.now_ms += ms;
        let end = self.now_ms;
        self.send_all(|since| end - since > HOLD_MS)
    }

    /// The host loses its power, and its cache with it.
    pub fn lose(&mut self) {
        (self.upper, self.lower, self.sent) = (Layer::new(), Layer::new(), BTreeMap::new());
    }

    fn sink(&mut self, block: Block) {
        let Some((content, since)) = self.upper.remove(&block) else { return };
        let since = self.lower.get(&block).map_or(since, |it| it.1.min(since));
        self.lower.insert(block, (content, since));
    }

    fn emit(&mut self, block: Block) -> Option<(Block, T)> {
        let (content, _) = self.lower.remove(&block)?;
        self.sent.insert(block, content.clone());
        Some((block, content))
    }

    /// The last copy of `block` that was sent, unless the lower layer holds a newer one, which will be sent.
    fn resend(&self, block: Block) -> Option<(Block, T)> {
        let sent = self.sent.get(&block).filter(|_| !self.lower.contains_key(&block));
        sent.map(|content| (block, content.clone()))
    }

    /// Sends both copies of each block that is due by the time since which one waits.
    fn send_all(&mut self, is_due: impl Fn(u64) -> bool) -> Vec<(Block, T)> {
        let waiting = self.lower.iter().chain(&self.upper);
        let due: Vec<_> = waiting.filter(|(_, it)| is_due(it.1)).map(|(block, _)| *block).collect();
        let mut sent = Vec::new();
        for block in due {
            sent.extend(self.emit(block));
            self.sink(block);
            sent.extend(self.emit(block));
        }
        sent
    }

    /// Possible next steps, the likely ones more than once.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<_> = self.upper.keys().flat_map(|it| [Step::Sink(*it); 2]).collect();
        steps.extend(self.lower.keys().flat_map(|it| [Step::Emit(*it); 2]));
        steps.extend(self.sent.keys().map(|it| Step::Resend(*it)));
        steps.extend((!self.upper.is_empty() || !self.lower.is_empty()).then_some(Step::Flush));
        steps
    }
}
