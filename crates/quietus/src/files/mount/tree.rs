//! The states as a tree of numbered entries.

use super::View;
use super::about::{about, kind};
use super::fresh::{Fresh, PAUSE};
use super::kept::Kept;
use super::paths::{Path, Paths};
use super::states::{Epoch, States};
use crate::files::{Disk, Error, Target, epochs};
use crate::host::fuse::{self, About, Cache, Errno, FOREVER, FileType, Inodes, Listed, ROOT, Shown};
use quietus_files::{ExtendedAttribute, FileId};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

/// The name of the current state.
const NOW: &str = "now";
/// Entries of listings that are kept, while programs read them part by part.
const LISTED_MAX: usize = 1 << 20;

/// A state in a view. A folder is another one in each view: the kernel takes no folder in two places.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct At {
    view: View,
    epoch: Epoch,
}

/// The identity of an entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Entry {
    /// The folder of the views.
    Views,
    /// A view.
    View(View),
    /// A day, counted from 1970 on.
    Day(u64),
    /// The root folder of a state.
    State(At),
    /// A file of a state.
    File(At, FileId),
    /// What is at a path in any state: a folder, or a folder of the versions of a file.
    Path(Path),
}

impl Entry {
    /// The epoch that it is of, if it is of one.
    fn epoch(&self) -> Epoch {
        match self {
            Self::State(at) | Self::File(at, _) => at.epoch,
            _ => None,
        }
    }

    /// How long it is certain to stay as it is: files of an epoch do not change, but the epoch may be forgotten.
    fn valid(&self) -> Duration {
        match self {
            Self::Views | Self::View(_) => FOREVER,
            Self::File(at, _) if at.epoch.is_some() => FOREVER,
            _ => PAUSE,
        }
    }
}

/// The views that are mounted, and for whom.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) views: Vec<View>,
    /// Whether the one view has no folder of its own.
    pub(super) is_alone: bool,
    /// Whether the modes of folders matter: other users are let in.
    pub(super) for_others: bool,
}

/// The states of a disk as a tree.
pub(super) struct Tree<'a> {
    disk: &'a Rc<Disk>,
    terms: Terms,
    states: States<'a>,
    paths: Paths<'a>,
    /// The kept epochs; `None` if they could not be listed last time.
    kept: Option<Rc<Kept>>,
    fresh: Fresh,
    /// The folder where each entry was found first.
    inodes: Inodes<Entry, u64>,
    listings: Cache<u64, Vec<Listed>>,
    began: SystemTime,
}

impl<'a> Tree<'a> {
    /// The tree of the views of `terms`.
    pub(super) fn new(
        disk: &'a Rc<Disk>,
        target: &'a Target,
        terms: Terms,
        is_asked: &'a dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let began = Instant::now();
        let kept = Some(Rc::new(Kept::new(&epochs(disk)?)));
        let root = if terms.is_alone { Entry::View(terms.views[0]) } else { Entry::Views };
        Ok(Self {
            disk,
            terms,
            states: States::new(disk, target),
            paths: Paths::new(disk, target, is_asked),
            kept,
            fresh: Fresh::since(began),
            inodes: Inodes::new(root, ROOT),
            listings: Cache::new(LISTED_MAX),
            began: SystemTime::now(),
        })
    }

    /// The kept epochs.
    fn kept(&mut self) -> Result<Rc<Kept>, Errno> {
        if self.fresh.is_over() {
            let began = Instant::now();
            let kept = match epochs(self.disk) {
                Ok(lines) => Some(Kept::new(&lines)),
                Err(why) => {
                    self.states.say(format!("cannot list the epochs: {why}"));
                    None
                }
            };
            let known = self.kept.iter().flat_map(|it| it.epochs());
            if !known.copied().all(|epoch| kept.as_ref().is_some_and(|it| it.has(epoch))) {
                self.states.forget();
            }
            (self.kept, self.fresh) = (kept.map(Rc::new), Fresh::since(began));
        }
        self.kept.clone().ok_or(Errno::EIO)
    }

    /// The entry of that number, unless it is of an epoch that is forgotten.
    fn entry(&mut self, number: u64) -> Result<Entry, Errno> {
        let (entry, _) = self.inodes.get(number).ok_or(Errno::ESTALE)?;
        let entry = entry.clone();
        match entry.epoch() {
            Some(epoch) if !self.kept()?.has(epoch) => Err(Errno::ESTALE),
            _ => Ok(entry),
        }
    }

    /// The state and the file of an entry.
    fn file(&mut self, number: u64) -> Result<(Epoch, FileId), Errno> {
        match self.entry(number)? {
            Entry::File(at, file) => Ok((at.epoch, file)),
            Entry::State(at) => Ok((at.epoch, self.states.root(at.epoch)?)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The entry of that name in a folder.
    fn child(&mut self, folder: &Entry, name: &[u8]) -> Result<Option<Entry>, Errno> {
        let kept = self.kept()?;
        let text = str::from_utf8(name).unwrap_or_default();
        let state = |view, epoch: Epoch| Entry::State(At { view, epoch });
        Ok(match folder {
            Entry::Views => self.terms.views.iter().find(|it| it.name() == text).map(|it| Entry::View(*it)),
            Entry::View(View::Epochs) if text == NOW => Some(state(View::Epochs, None)),
            Entry::View(view @ View::Epochs) => {
                let epoch =
                    text.parse().ok().filter(|epoch: &u64| kept.has(*epoch) && epoch.to_string() == text);
                epoch.map(|epoch| state(*view, Some(epoch)))
            }
            Entry::View(View::Times) => kept.day(text).map(Entry::Day),
            Entry::View(view @ View::Gmt) => kept.at_gmt(text).map(|epoch| state(*view, Some(epoch))),
            Entry::View(View::Files) => self.below(&kept, &Path::from([]), name)?,
            Entry::Path(path) => self.below(&kept, path, name)?,
            Entry::Day(day) => kept.at(*day, text).map(|epoch| state(View::Times, Some(epoch))),
            Entry::State(at) => {
                let root = self.states.root(at.epoch)?;
                self.states.entry(at.epoch, root, name)?.map(|file| Entry::File(*at, file))
            }
            Entry::File(at, folder) => {
                self.states.entry(at.epoch, *folder, name)?.map(|file| Entry::File(*at, file))
            }
        })
    }

    fn is_folder(&mut self, path: &Path) -> Result<bool, Errno> {
        let kept = self.kept()?;
        Ok(self.paths.is_folder(&mut self.states, &kept, path)? == Some(true))
    }

    /// What is below a path: entries of a folder, versions of a file.
    fn below(&mut self, kept: &Kept, path: &Path, name: &[u8]) -> Result<Option<Entry>, Errno> {
        if self.paths.is_folder(&mut self.states, kept, path)? != Some(true) {
            let found = self.paths.version(&mut self.states, path, name)?;
            return Ok(found.map(|(epoch, file)| Entry::File(At { view: View::Files, epoch }, file)));
        }
        let path = join(path, name);
        let found = self.paths.is_folder(&mut self.states, kept, &path)?;
        Ok(found.map(|_| Entry::Path(path)))
    }

    /// The names and kinds of the entries of a folder.
    fn listing(&mut self, folder: &Entry) -> Result<Vec<Listed>, Errno> {
        let kept = self.kept()?;
        let folders = |names: Vec<String>| Ok(names.into_iter().map(|it| listed_folder(it.into())).collect());
        match folder {
            Entry::Views => folders(self.terms.views.iter().map(|it| it.name().into()).collect()),
            Entry::View(View::Epochs) => {
                let epochs = kept.epochs().iter().map(u64::to_string);
                folders(epochs.chain([NOW.into()]).collect())
            }
            Entry::View(View::Times) => folders(kept.days()),
            Entry::View(View::Gmt) => folders(kept.gmt()),
            Entry::Day(day) => folders(kept.times(*day)),
            Entry::View(View::Files) => self.path_listing(&kept, &Path::from([])),
            Entry::Path(path) => self.path_listing(&kept, path),
            Entry::State(_) | Entry::File(..) => Err(Errno::EINVAL),
        }
    }

    fn path_listing(&mut self, kept: &Kept, path: &Path) -> Result<Vec<Listed>, Errno> {
        match self.paths.is_folder(&mut self.states, kept, path)? {
            None => Err(Errno::ENOENT),
            Some(true) => {
                let names = self.paths.names(&mut self.states, kept, path)?;
                Ok(names.into_iter().map(listed_folder).collect())
            }
            Some(false) => {
                let mut listed = Vec::new();
                for number in self.paths.versions(path)? {
                    let name = number.to_string().into_bytes();
                    let Some((epoch, file)) = self.paths.version(&mut self.states, path, &name)? else {
                        continue;
                    };
                    listed.push(Listed { name, kind: kind(self.states.attributes(epoch, file)?.kind) });
                }
                Ok(listed)
            }
        }
    }

    /// Entries of a folder of a state, with their kinds. The kind of one that cannot be read does not matter.
    fn files(
        &mut self,
        (epoch, folder): (Epoch, FileId),
        from: usize,
        most: usize,
    ) -> Result<Vec<Listed>, Errno> {
        let entries = self.states.entries(epoch, folder)?;
        let part = entries.iter().skip(from).take(most);
        let listed = part.map(|entry| {
            let found = self.states.attributes(epoch, entry.file);
            Listed { name: entry.name.clone(), kind: found.map_or(FileType::RegularFile, |it| kind(it.kind)) }
        });
        Ok(listed.collect())
    }

    /// All of an entry but its content.
    fn about(&mut self, entry: &Entry) -> Result<About, Errno> {
        Ok(match entry {
            Entry::File(at, file) => about(&self.states.attributes(at.epoch, *file)?),
            Entry::State(at) => self.about_state(at.epoch)?,
            Entry::Views | Entry::View(_) | Entry::Day(_) | Entry::Path(_) => About::folder(self.began),
        })
    }

    /// The root folder of a state. It is opened for its mode alone, and only where the mode matters: programs list all epochs.
    fn about_state(&mut self, epoch: Epoch) -> Result<About, Errno> {
        let closed = epoch.and_then(|epoch| self.kept.as_ref()?.closed(epoch));
        let plain = About::folder(closed.unwrap_or(self.began));
        if !self.terms.for_others {
            return Ok(plain);
        }
        // In what cannot be read there is nothing to protect.
        let Ok(root) = self.states.root(epoch) else { return Ok(plain) };
        let root = about(&self.states.attributes(epoch, root)?);
        Ok(About { mode: root.mode, owner: root.owner, ..plain })
    }

    /// Gives the kernel the number of an entry in the folder `parent` once more. Below a path, names may come to mean other versions.
    fn numbered(&mut self, parent: (u64, &Entry), entry: Entry, about: About) -> Shown {
        let valid = match parent.1 {
            Entry::Path(_) => PAUSE,
            _ => entry.valid(),
        };
        let number = self.inodes.look_up(entry, |_| parent.0);
        Shown { number, about, valid }
    }
}

fn join(path: &Path, name: &[u8]) -> Path {
    [&**path, b"/", name].concat().into()
}

fn listed_folder(name: Vec<u8>) -> Listed {
    Listed { name, kind: FileType::Directory }
}

impl fuse::Tree for Tree<'_> {
    fn look_up(&mut self, parent: u64, name: &[u8]) -> Result<Shown, Errno> {
        let folder = self.entry(parent)?;
        let entry = self.child(&folder, name)?.ok_or(Errno::ENOENT)?;
        let about = self.about(&entry)?;
        Ok(self.numbered((parent, &folder), entry, about))
    }

    fn look_up_listed(&mut self, parent: u64, listed: &Listed) -> Result<Shown, Errno> {
        let folder = self.entry(parent)?;
        let entry = match &folder {
            // Whether such a path is a folder or a file is found out once a program wants to know.
            Entry::View(View::Files) => Entry::Path(join(&Path::from([]), &listed.name)),
            Entry::Path(path) if self.is_folder(path)? => Entry::Path(join(path, &listed.name)),
            _ => self.child(&folder, &listed.name)?.ok_or(Errno::ENOENT)?,
        };
        match self.about(&entry) {
            Ok(about) => Ok(self.numbered((parent, &folder), entry, about)),
            // The error is that of the entry, once a program asks for it.
            Err(_) => {
                let about = About::new(listed.kind, 0, 0, (0, 0), self.began);
                let shown = self.numbered((parent, &folder), entry, about);
                Ok(Shown { valid: Duration::ZERO, ..shown })
            }
        }
    }

    fn forget(&mut self, number: u64, times: u64) {
        self.inodes.forget(number, times);
    }

    fn shown(&mut self, number: u64) -> Result<Shown, Errno> {
        let entry = self.entry(number)?;
        Ok(Shown { number, about: self.about(&entry)?, valid: entry.valid() })
    }

    fn parent(&self, number: u64) -> Result<u64, Errno> {
        self.inodes.get(number).map(|(_, parent)| *parent).ok_or(Errno::ESTALE)
    }

    fn list(&mut self, number: u64, from: usize, most: usize) -> Result<Vec<Listed>, Errno> {
        let entry = self.entry(number)?;
        if matches!(entry, Entry::State(_) | Entry::File(..)) {
            let folder = self.file(number)?;
            return self.files(folder, from, most);
        }
        let kept = self.listings.get(&number).filter(|_| from > 0);
        let all = match kept {
            Some(listing) => listing,
            None => {
                let listing = self.listing(&entry)?;
                let count = listing.len();
                self.listings.keep(number, listing, count)
            }
        };
        Ok(all.iter().skip(from).take(most).cloned().collect())
    }

    fn link(&mut self, number: u64) -> Result<Vec<u8>, Errno> {
        let (epoch, file) = self.file(number)?;
        self.states.link(epoch, file)
    }

    fn read(&mut self, number: u64, offset: u64, bytes: u32) -> Result<Vec<u8>, Errno> {
        let (epoch, file) = self.file(number)?;
        self.states.read(epoch, file, offset, bytes)
    }

    fn extended(&mut self, number: u64) -> Result<Vec<ExtendedAttribute>, Errno> {
        match self.entry(number)? {
            Entry::File(at, file) => self.states.extended(at.epoch, file),
            _ => Ok(Vec::new()),
        }
    }
}
