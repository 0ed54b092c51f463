//! A laboratory that looks for items that are to be gone.

use std::collections::BTreeSet;

use memchr::memmem;
use quietus_core::base::units::Extent;
use quietus_core::media::medium::Medium;
use quietus_vault::chunk::VaultKey;
use quietus_vault::container::Class;

use super::items::Item;
use crate::machine::content::{Tag, marks};
use crate::machine::medium::SimMedium;
use crate::verdict::{Judged, found};

/// Objects to anything of `items` on the media.
pub fn examine(media: [&SimMedium; 2], key: &VaultKey, items: &[Item]) -> Judged {
    let tags: BTreeSet<Tag> = items.iter().filter(|item| item.is_raw()).map(|item| item.tag()).collect();
    for medium in media {
        let all = Extent::new(0, medium.size());
        let trace = medium.inspect(|remains| {
            remains
                .iter()
                .find(|(_, trace)| tags.contains(&trace.tag))
                .map(|(at, trace)| format!("{at:?}, {trace:?}"))
        });
        if let Some(trace) = trace {
            return Err(found(format!("a laboratory finds {trace}")));
        }
        let look = |bytes: &[u8]| look(bytes, key, &tags, items);
        let is_settled = medium.peek(all, |cache| medium.peek_durable(all, |durable| cache == durable));
        let in_cache = if is_settled { None } else { medium.peek(all, look) };
        if let Some(item) = in_cache.or_else(|| medium.peek_durable(all, look)) {
            return Err(found(item));
        }
    }
    Ok(())
}

/// Whether the item can be read in `bytes`, or its fingerprint.
pub fn is_in(bytes: &[u8], key: &VaultKey, item: Item) -> bool {
    let tags = BTreeSet::from_iter(item.is_raw().then(|| item.tag()));
    look(bytes, key, &tags, &[item]).is_some()
}

/// The `items` that can be read in `bytes`.
fn look(bytes: &[u8], key: &VaultKey, tags: &BTreeSet<Tag>, items: &[Item]) -> Option<String> {
    if let Some(mark) = marks(bytes).find(|mark| tags.contains(&mark.tag)) {
        return Some(format!("the content {mark:?} can be read"));
    }
    items.iter().find_map(|item| {
        // Raw content is found by its tag.
        let is_there = !item.is_raw() && memmem::find(bytes, &item.needle()).is_some();
        let is_named = matches!(item, Item::Content(_)) && {
            let fingerprint = key.fingerprint(Class::Data, &item.bytes());
            memmem::find(bytes, &fingerprint.0).is_some()
        };
        match (is_there, is_named) {
            (true, _) => Some(format!("{item:?} can be read")),
            (_, true) => Some(format!("the fingerprint of {item:?} can be read")),
            _ => None,
        }
    })
}

/// Objects to any name or content in the catalog, dead or alive.
pub fn examine_catalog(catalog: &SimMedium, last_number: u32) -> Judged {
    let betrays = |bytes: &[u8]| {
        marks(bytes).next().is_some()
            || (1..=last_number).any(|number| {
                [Item::Content(number), Item::Name(number)]
                    .iter()
                    .any(|item| memmem::find(bytes, &item.needle()).is_some())
            })
    };
    match catalog.peek(Extent::new(0, catalog.size()), betrays) {
        true => Err(found("a name or content is in the catalog".into())),
        false => Ok(()),
    }
}
