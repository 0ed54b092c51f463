//! The knowledge of rule E, saved at a clean stop as bytes (`docs/formats/view.md`).

use crate::formats::format::Block;
use crate::rules::rule::deaths::Deaths;
use crate::rules::rule::history::RecentBlocks;
use crate::rules::rule::sets::{put_map, put_rows, put_sets, take_map, take_rows, take_sets};
use crate::rules::rule_e::RuleE;
use crate::rules::rule_e::names::Names;
use crate::rules::rule_e::unwritten::Unwritten;
use quietus_core::base::fields::Fields;
use roaring::RoaringBitmap;

const SETS: usize = 12;
/// First byte of a view: in use, and the mount was observed. 1: in use. 0: not in use.
const MOUNT_OBSERVED: u8 = 2;

impl RuleE {
    pub(super) fn known(&self) -> Option<Vec<u8>> {
        if self.classes.as_ref().is_some_and(|marks| !marks.is_whole()) {
            return None;
        }
        if self.is_broken() || !self.survey.is_done() || !self.names.is_settled() || !self.unknown.is_empty()
        {
            return None;
        }
        let [condemned, below] = self.deaths.sets();
        let sets: [&RoaringBitmap; SETS] = [
            &self.live,
            &self.suspicious,
            &self.unconfirmed.all(),
            &self.lately.all(),
            &self.names.referenced,
            &self.names.guessed,
            &self.names.uncertain.all(),
            &condemned,
            &below,
            &self.unwritten.named,
            &self.unwritten.empty,
            &self.unwritten.hollow,
        ];
        let in_use = if self.mount_observed { MOUNT_OBSERVED } else { u8::from(self.in_use) };
        let mut bytes = vec![in_use, u8::from(self.survey.rereads_maps())];
        put_sets(sets, &mut bytes);
        put_map(&self.names.again, &mut bytes);
        let pointers = self.names.pointers.iter();
        put_rows(pointers.map(|(block, level)| [*block, u32::from(*level)]), &mut bytes);
        put_map(&self.unwritten.again, &mut bytes);
        if let Some(marks) = &self.classes {
            marks.put(&mut bytes);
        }
        Some(bytes)
    }

    pub(super) fn resumed(&mut self, view: &[u8]) -> Option<()> {
        let blocks = self.format.blocks();
        let mut fields = Fields(view);
        let [in_use, rereads] = fields.array()?;
        let sets: [RoaringBitmap; SETS] = take_sets(&mut fields, blocks)?;
        let [live, suspicious, unconfirmed, lately, referenced, guessed, uncertain, rest @ ..] = sets;
        let [condemned, below, unwritten, empty, hollow] = rest;
        let names = Names::restore([referenced, guessed, uncertain], &mut fields, blocks)?;
        let unwritten_again = take_map(&mut fields, blocks)?;
        let classes = match &self.classes {
            Some(marks) => Some(marks.restored(&mut fields)?),
            None => None,
        };
        if !fields.is_empty() {
            return None;
        }
        self.classes = classes;
        self.survey.skip_inodes();
        if rereads == 0 {
            self.survey.skip_maps();
        }
        (self.in_use, self.mount_observed) = (in_use != 0, in_use == MOUNT_OBSERVED);
        (self.live, self.suspicious, self.names) = (live, suspicious, names);
        (self.unconfirmed, self.lately) = (RecentBlocks::kept(&unconfirmed), RecentBlocks::kept(&lately));
        self.deaths = Deaths::restore(condemned, &below, self.clock.now);
        self.unwritten = Unwritten::restore([unwritten, empty, hollow], unwritten_again);
        Some(())
    }
}

impl Names {
    /// Whether every pointer was followed, no pointer is about to be, and no block of pointers is claimed
    /// twice, which only a broken file system does.
    pub(super) fn is_settled(&self) -> bool {
        self.are_read() && self.pointers_again.is_empty()
    }

    fn restore(sets: [RoaringBitmap; 3], fields: &mut Fields<'_>, blocks: Block) -> Option<Self> {
        let [referenced, guessed, uncertain] = sets;
        let again = take_map(fields, blocks)?;
        let levels = take_rows::<2>(fields, blocks)?.into_iter();
        let pointers = levels.map(|[block, level]| Some((block, u8::try_from(level).ok()?)));
        let pointers = pointers.collect::<Option<_>>()?;
        Some(Self {
            referenced,
            again,
            guessed,
            pointers,
            uncertain: RecentBlocks::kept(&uncertain),
            ..Self::default()
        })
    }
}
