//! The states of a disk as a file system of this host, to read, by [FUSE](crate::host::fuse).
//!
//! 1. Nothing is opened before a program asks for it: listing the epochs opens no file system.
//! 2. What is kept in memory is bounded: open file systems, folders, content, histories, listings.
//! 3. A forgotten epoch is gone from the listings within [`fresh::PAUSE`], or ten times as long as it takes to list the epochs. Its entries that
//!    the kernel knows are errors from then on, and what was read of it is dropped.
//! 4. The current state is opened anew after the same time if the disk is served: only then a guest may change it.
//!
//! | question | where |
//! | --- | --- |
//! | the entries, and what is in each of them | `tree` |
//! | the kept epochs, and their names in dates | `kept` |
//! | file systems that are open, folders, content | `states` |
//! | what is at a path in any state | `paths` |
//! | attributes of a guest's file | `about` |
//! | when something is read anew | `fresh` |

mod about;
mod fresh;
mod kept;
mod paths;
mod states;
#[cfg(test)]
mod tests;
mod tree;

use super::{Disk, Error, Target};
use crate::host::fuse::Place;
use std::rc::Rc;
use tree::{Terms, Tree};

/// A way to arrange the states.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum View {
    /// By the number of the epoch; the current state is `now`.
    Epochs,
    /// By the day and time when the epoch closed.
    Times,
    /// By the path of a file, which is a folder of its versions.
    Files,
    /// By the time when the epoch closed, as Samba names it.
    Gmt,
}

impl View {
    /// The views that are shown side by side.
    const ALL: [Self; 3] = [Self::Epochs, Self::Times, Self::Files];

    /// The name of its folder, where it has one.
    fn name(self) -> &'static str {
        match self {
            Self::Epochs => "by-epoch",
            Self::Times => "by-time",
            Self::Files => "by-file",
            Self::Gmt => "gmt",
        }
    }
}

/// Shows the states of `disk` at `place`, until it is unmounted or `is_asked` to stop: each view in a folder of its own, or `only` one. Calls
/// `ready` once they can be seen.
pub fn mount(
    disk: &Rc<Disk>,
    target: &Target,
    place: &Place<'_>,
    only: Option<View>,
    ready: impl FnOnce(),
    is_asked: impl Fn() -> bool,
) -> Result<(), Error> {
    let views = match (only, disk.epochs_kept()?.is_some()) {
        (Some(view), true) => vec![view],
        (None, true) => View::ALL.to_vec(),
        (None | Some(View::Epochs), false) => {
            tracing::info!("{target} keeps no epochs: only its current state is shown");
            vec![View::Epochs]
        }
        (Some(_), false) => {
            let why = format!("{target} keeps no epochs, and has only its current state; leave out --only");
            return Err(Error::Refused(why.into()));
        }
    };
    let name = format!("quietus:{target}");
    let terms = Terms { views, is_alone: only.is_some(), for_others: place.is_for_others() };
    let mut tree = Tree::new(disk, target, terms, &is_asked)?;
    Ok(place.show(&mut tree, &name, ready, &is_asked)?)
}
