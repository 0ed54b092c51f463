//! How the page's version shows itself to whoever compares.

use super::{Cell, Literal, Stage};
use crate::twin::{Census, Version};
use quietus_core::units::{Addr, Extent, Millis};
use quietus_core::watch::{Attached, Content, Verdict};
use quietus_detect::format::{Block, Format};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

impl<F: Format> Literal<F> {
    fn count(&self, is: impl Fn(&Cell) -> bool) -> u64 {
        self.cells.values().filter(|it| is(it)).count() as u64
    }
}

impl<F: Format> Version for Literal<F> {
    fn arrived(&mut self, now: Millis, extent: Extent<Addr>, content: Content<'_>) {
        Self::arrived(self, now, extent, content);
    }

    fn connected(&mut self, now: Millis, clients: usize) {
        Self::connected(self, now, clients);
    }

    fn attached(&mut self, now: Millis, attached: Attached) {
        Self::attached(self, now, attached);
    }

    fn read(&mut self, extent: Extent<Addr>) {
        Self::read(self, extent);
    }

    fn needs(&self, extent: Extent<Addr>) -> BTreeSet<Block> {
        Self::needs(self, extent)
    }

    fn overwriting(&mut self, extent: Extent<Addr>, content: Content<'_>, seen: Extent<Addr>, old: &[u8]) {
        Self::overwriting(self, extent, content, seen, old);
    }

    fn wants(&self) -> BTreeSet<Block> {
        Self::wants(self)
    }

    fn given(&mut self, extent: Extent<Addr>, content: Option<&[u8]>) {
        Self::given(self, extent, content);
    }

    fn tick(&mut self, now: Millis) {
        Self::tick(self, now);
    }

    fn cut(&mut self) {
        Self::cut(self);
    }

    fn proven(&mut self) {
        Self::proven(self);
    }

    fn due(&self, layers: bool, all: bool) -> BTreeMap<Block, Verdict> {
        Self::due(self, layers, all)
    }

    fn handed_out(&mut self, block: Block, verdict: Verdict, all: bool) {
        Self::handed_out(self, block, verdict, all);
    }

    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        Self::take_suspicious(self, extent)
    }

    fn census(&self) -> Census {
        let fixed = u64::from(self.format.blocks()) - self.cells.len() as u64;
        let unproven = |it: &Cell| matches!(it.stage, Some(Stage::Unsynced | Stage::Syncing));
        let mut census = vec![
            ("live", self.count(|it| it.live) + fixed),
            ("suspicious", self.count(|it| it.suspicious)),
            ("unconfirmed", self.count(|it| it.unconfirmed.is_some())),
            ("dead, evidence not durable yet", self.count(unproven)),
            ("dead, still named", self.count(|it| it.stage == Some(Stage::Referenced))),
            ("named by pointers", self.cells.keys().filter(|it| self.names(**it) > 0).count() as u64),
        ];
        census.sort_unstable();
        census
    }

    fn is_over(&self) -> bool {
        Self::is_over(self)
    }

    fn is_unsure(&self) -> bool {
        Self::is_unsure(self)
    }

    fn digest(&self, mut hasher: &mut dyn Hasher) {
        Self::digest(self, &mut hasher);
    }
}
