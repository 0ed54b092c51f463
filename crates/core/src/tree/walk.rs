//! A walk over a whole tree, some of whose pages may be damaged.

use super::{PageError, PageNo, Pages, Part, Tree};

/// A page to look at: its level, if its parent says that, and the keys that it has.
type Below<const K: usize> = (PageNo, Option<u8>, [u8; K], Option<[u8; K]>);

impl<const K: usize, const V: usize> Tree<K, V> {
    /// Tells `see` of all leaves, in the order of their keys, and of the pages that are damaged. `read` reads a page; some leaves
    /// are evicted when more than `most` pages are in memory.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn walk<E>(
        &self,
        pages: &mut Pages,
        most: usize,
        mut read: impl FnMut(PageNo) -> Result<Vec<u8>, E>,
        mut see: impl FnMut(Part<K, V>),
    ) -> Result<(), E> {
        let root = self.root.page.map(|page| (page, None, [0; K], None));
        let mut todo: Vec<Below<K>> = root.into_iter().collect();
        while let Some((page, level, from, to)) = todo.pop() {
            pages.evict(most);
            let loaded = match pages.get(page) {
                Ok(_) => Ok(()),
                Err(_) => pages.loaded(page, &read(page)?),
            };
            match loaded.and_then(|()| self.parts(pages, (page, level, from, to))) {
                Ok((Some(part), _)) => see(part),
                Ok((None, below)) => todo.extend(below.into_iter().rev()),
                Err(damage) => see(Part::Lost(damage, from, to)),
            }
        }
        Ok(())
    }

    /// The entries of a page in memory, or the pages below it.
    fn parts(
        &self,
        pages: &Pages,
        (page, level, from, to): Below<K>,
    ) -> Result<(Option<Part<K, V>>, Vec<Below<K>>), PageError> {
        let fail = |reason| PageError { page: u64::from(page.0), reason };
        let node = pages.get(page).map_err(|_| fail("no part of the index is to be there"))?;
        self.check_page(node, level).map_err(fail)?;
        if node.level() == 0 {
            let entries = (0..node.count()).map(|n| Self::entry_of(node, n));
            return Ok((Some(Part::Entries(entries.collect())), Vec::new()));
        }
        let key = |n: usize| <[u8; K]>::try_from(node.key(Self::INNER, n)).ok();
        let below = (0..node.count()).map(|n| {
            let from = if n == 0 { from } else { key(n).unwrap_or(from) };
            let to = if n + 1 < node.count() { key(n + 1) } else { to };
            (node.child(Self::INNER, n), Some(node.level() - 1), from, to)
        });
        Ok((None, below.collect()))
    }
}
