//! Both versions of the rules, driven by the same events.

use crate::rule_e::literal::{Census, Literal};
use crate::rule_e::toy::{Bytes, Toy, place, touched};
use quietus_core::units::{Addr, Extent, Millis};
use quietus_core::watch::{Content, Scope, Verdict};
use quietus_detect::format::{Block, Format};
use quietus_detect::options::Options;
use quietus_detect::rule::Rule;
use quietus_detect::rule_e::RuleE;
use std::collections::{BTreeMap, BTreeSet};

/// Two versions of the rules, and the disk that they watch.
#[derive(Debug)]
pub struct Twin<F: Format = Toy> {
    rule: RuleE,
    /// Gone once something hung on a time that the rules do not fix.
    literal: Option<Literal<F>>,
    disk: Vec<Bytes>,
    now: Millis,
}

impl<F: Format + Copy + 'static> Twin<F> {
    /// Both begin to watch `disk`. `seen_from_start` as for
    /// [`RuleE::attach`].
    #[must_use]
    pub fn attach(format: F, disk: Vec<Bytes>, options: Options, now: Millis, seen_from_start: bool) -> Self {
        Self {
            rule: RuleE::attach(Box::new(format), options, now, seen_from_start),
            literal: Some(Literal::attach(format, options, now, seen_from_start)),
            disk,
            now,
        }
    }

    /// The product without the literal version.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { literal: None, ..self }
    }

    /// What lies in `block`.
    #[must_use]
    pub fn content(&self, block: Block) -> &Bytes {
        &self.disk[block as usize]
    }

    /// What lies on the disk.
    #[must_use]
    pub fn disk(&self) -> &[Bytes] {
        &self.disk
    }

    /// Destroys what lies in `block`: neither version is told.
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
        self.rule.is_broken()
    }

    /// What the rules know, for telling states apart; none once it hangs on a
    /// time that they do not fix.
    #[must_use]
    pub fn literal(&self) -> Option<&Literal<F>> {
        self.literal.as_ref()
    }

    /// The guest writes `bytes` from `extent` on. What is to be destroyed
    /// before is returned; asked for only if there are `layers`.
    ///
    /// # Errors
    /// The two disagree.
    pub fn write(&mut self, extent: Extent<Addr>, bytes: &[u8], layers: bool) -> Result<Vec<Block>, String> {
        let taken = if layers { self.take(extent)? } else { Vec::new() };
        self.change(extent, Content::Bytes(bytes))?;
        Ok(taken)
    }

    /// The guest frees `block`.
    ///
    /// # Errors
    /// The two disagree.
    pub fn free(&mut self, block: Block) -> Result<(), String> {
        self.change(place(block), Content::Zeros)
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
        Ok(ours.into_iter().flat_map(touched).collect())
    }

    fn change(&mut self, extent: Extent<Addr>, content: Content<'_>) -> Result<(), String> {
        self.rule.arrived(self.now, extent, content);
        self.tell(|it, now| it.arrived(now, extent, content));
        if !self.is_over() {
            self.see(extent, content)?;
        }
        self.put(extent, content);
        self.compare()
    }

    /// Shows what `extent` holds, just before it gets `content`.
    fn see(&mut self, extent: Extent<Addr>, content: Content<'_>) -> Result<(), String> {
        let needs = self.rule.needs(extent);
        let blocks: BTreeSet<_> = needs.iter().copied().flat_map(touched).collect();
        if let Some(literal) = &self.literal {
            agree("needed before a write", &blocks, &literal.needs(extent))?;
        }
        for seen in needs {
            let old = self.read(seen);
            self.rule.overwriting(extent, content, seen, &old);
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

    /// Reads one thing that is wanted; false: nothing is.
    ///
    /// # Errors
    /// The two disagree.
    pub fn read_one(&mut self) -> Result<bool, String> {
        let Some(extent) = self.rule.wants() else {
            agree("wanted at last", &BTreeSet::new(), &self.literal_wants())?;
            return Ok(false);
        };
        let content = self.read(extent);
        self.rule.given(extent, Some(&content));
        self.tell(|it, _| it.given(extent, Some(&content)));
        self.compare()?;
        Ok(true)
    }

    fn literal_wants(&self) -> BTreeSet<Block> {
        let literal = self.literal.as_ref().filter(|it| !it.is_over());
        literal.map_or_else(BTreeSet::new, Literal::wants)
    }

    /// Tells the literal version, as long as it is sure.
    fn tell(&mut self, what: impl FnOnce(&mut Literal<F>, Millis)) {
        if let Some(literal) = &mut self.literal {
            what(literal, self.now);
        }
        self.literal.take_if(|it| it.is_unsure());
    }

    /// Time passes.
    ///
    /// # Errors
    /// The two disagree.
    pub fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.now.0 += ms;
        self.rule.tick(self.now);
        self.tell(Literal::tick);
        self.compare()
    }

    /// The evidence begins to be made durable.
    pub fn cut(&mut self) {
        self.rule.cut();
        self.tell(|it, _| it.cut());
    }

    /// It is durable.
    pub fn proven(&mut self) {
        self.rule.proven();
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
            for block in touched(extent) {
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

    /// Compares all that shows.
    fn compare(&self) -> Result<(), String> {
        let Some(literal) = &self.literal else { return Ok(()) };
        agree("over", &self.rule.is_broken(), &literal.is_over())?;
        if literal.is_over() {
            return Ok(());
        }
        agree("known", &figures(&self.rule), &literal.census())
    }
}

/// What the product's status tells of its state.
fn figures(rule: &RuleE) -> Census {
    let figures: BTreeMap<_, _> = rule.figures().into_iter().collect();
    Census {
        live: figures["live"],
        suspicious: figures["suspicious"],
        doubted: figures["doubted"],
        unproven: figures["dead, evidence not durable yet"],
        still_named: figures["dead, still named"],
        named: figures["named by pointers"],
    }
}

fn agree<T: PartialEq + std::fmt::Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}: the product says {ours:?}, the page {theirs:?}"))
}
