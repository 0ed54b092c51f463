//! The only part that knows where bytes live.

mod held;
mod in_place;
pub mod overlay;

pub use in_place::InPlace;
pub use overlay::Overlay;

use crate::blocks::BlockSet;
use crate::request::Buf;
use crate::units::{Addr, Extent, Pos};
use std::fmt::Debug;
use std::ops::Range;

/// Which medium.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// The one that holds the disk's content.
    Data,
    /// The one that holds the journal.
    Journal,
    /// The one that says where content is, if it has no fixed place.
    Map,
    /// The image that shows through where the disk was not changed. It is only
    /// read.
    Base,
    /// None: it reads as zeros, and what is written there is not kept.
    Nowhere,
}

/// Where bytes lie that lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// On which medium.
    pub on: Target,
    /// Where there.
    pub extent: Extent<Pos>,
}

impl Place {
    /// The beginning of `on`: where acts take place that concern all of it.
    #[must_use]
    pub fn all_of(on: Target) -> Self {
        Self { on, extent: Extent::new(0, 0) }
    }
}

/// Where some bytes lie, in their order: in one place or in several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    first: Place,
    rest: Vec<Place>,
}

impl From<Place> for Places {
    fn from(first: Place) -> Self {
        Self { first, rest: Vec::new() }
    }
}

impl FromIterator<Place> for Places {
    /// # Panics
    /// If there is no place.
    fn from_iter<I: IntoIterator<Item = Place>>(all: I) -> Self {
        let mut all = all.into_iter();
        let mut places = Self::from(all.next().expect("some bytes lie in some place"));
        all.for_each(|place| places.push(place));
        places
    }
}

impl Places {
    /// Appends a place; one with the last if it goes on where that ends.
    pub fn push(&mut self, place: Place) {
        let last = self.rest.last_mut().unwrap_or(&mut self.first);
        if last.on == place.on && (last.on == Target::Nowhere || last.extent.end() == place.extent.start.0) {
            last.extent.len += place.extent.len;
        } else {
            self.rest.push(place);
        }
    }

    /// The first, or only one.
    #[must_use]
    pub fn first(&self) -> Place {
        self.first
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        std::iter::once(self.first).chain(self.rest.iter().copied())
    }

    /// All, each with the part of the bytes that lies there.
    pub fn parts(&self) -> impl Iterator<Item = (Place, Range<usize>)> + '_ {
        let mut from = 0;
        self.iter().map(move |place| {
            let part = from..from + place.extent.len as usize;
            from = part.end;
            (place, part)
        })
    }

    /// How many bytes lie there.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.iter().map(|place| place.extent.len).sum()
    }
}

/// Where the content of the disk lives, and which of it is data.
///
/// A store whose content has a fixed place needs no more than the methods
/// without a body.
pub trait Store: Debug + Send {
    /// Bytes of the disk that the guest sees.
    fn size(&self) -> u64;

    /// Where `extent` lives.
    ///
    /// # Panics
    /// If a part of the map for it is [absent](Store::absent).
    fn place(&self, extent: Extent<Addr>) -> Places;

    /// `extent` is about to be written; where to. A block of which it covers a
    /// part was [raised](Store::to_raise) before.
    ///
    /// # Panics
    /// As [`Store::place`], or if it [cannot grow](Store::is_closed).
    fn hold(&mut self, extent: Extent<Addr>) -> Places;

    /// What was written where [`Store::hold`] said is there now; or, if it
    /// failed, may be there in part.
    fn written(&mut self, extent: Extent<Addr>, is_there: bool) {
        let _ = (extent, is_there);
    }

    /// `extent` reads as zeros, and holds no data any more.
    ///
    /// # Panics
    /// As [`Store::place`].
    fn void(&mut self, extent: Extent<Addr>);

    /// Whether each block of `extent` shows content that lies in some place: in one
    /// of its own, or in the base.
    fn has_place(&self, extent: Extent<Addr>) -> bool {
        let _ = extent;
        false
    }

    /// `block`, which is dead, is about to be written, and reads as zeros from now
    /// on. Returns where its content lies: what is written goes elsewhere. These
    /// places are used again after [`Store::reclaim`].
    ///
    /// # Panics
    /// As [`Store::place`].
    fn leave(&mut self, block: Extent<Addr>) -> Vec<Place> {
        let _ = block;
        Vec::new()
    }

    /// What lay here is destroyed, and nothing that is durable names it.
    fn reclaim(&mut self, places: &[Extent<Pos>]) {
        let _ = places;
    }

    /// The first run within `extent` that holds data of its own, or may hold
    /// some: what could be destroyed.
    fn first_held(&self, extent: Extent<Addr>) -> Option<Extent<Addr>>;

    /// The first run within `extent` that shows data, or may show some.
    fn first_shown(&self, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        self.first_held(extent)
    }

    /// The first run within `extent` that shows data and can be made to show
    /// none.
    fn first_mortal(&self, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        self.first_held(extent)
    }

    /// Bytes in blocks that hold data, or may hold some.
    fn held_bytes(&self) -> u64;

    /// What it wants to know again after a clean stop.
    fn view(&self) -> Vec<u8>;

    /// The space of the medium that is nobody's, and destroyed, if content has no
    /// fixed place.
    fn vacant(&self) -> Option<BlockSet<Pos>> {
        None
    }

    /// Whether content has a fixed place, and so a place before it is written.
    fn is_fixed(&self) -> bool {
        true
    }

    /// The bytes that change together with those of `extent`.
    fn together(&self, extent: Extent<Addr>) -> Extent<Addr> {
        extent
    }

    /// The blocks of which `extent` covers a part only.
    fn edges(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let _ = extent;
        Vec::new()
    }

    /// The blocks of which `extent` covers a part, and that need a place of
    /// their own before that part is written or, with `zeros`, becomes zeros.
    fn to_raise(&self, extent: Extent<Addr>, zeros: bool) -> Vec<Extent<Addr>> {
        let _ = (extent, zeros);
        Vec::new()
    }

    /// The first part of the map that has to be read before anything is done
    /// with `extent`.
    fn absent(&self, extent: Extent<Addr>) -> Option<Place> {
        let _ = extent;
        None
    }

    /// A part of the map that was absent.
    fn loaded(&mut self, place: Place, bytes: &[u8]) {
        let _ = (place, bytes);
    }

    /// The first part of the map that has no space on the host yet and that a write of
    /// `extent` changes, or, if it `dies`, its death. Nothing of the kind is begun before
    /// that part has [its space](Store::reserved).
    fn lacks_space(&self, extent: Extent<Addr>, dies: bool) -> Option<Place> {
        let _ = (extent, dies);
        None
    }

    /// This part of the map has space on the host, and keeps it.
    fn reserved(&mut self, place: Place) {
        let _ = place;
    }

    /// Whether nothing may be written to a new place now.
    fn is_closed(&self) -> bool {
        false
    }

    /// Whether the map of `extent` is durable.
    fn is_sealed(&self, extent: Extent<Addr>) -> bool {
        let _ = extent;
        true
    }

    /// Whether so much of the map is not durable that it should be made so.
    fn wants_seal(&self) -> bool {
        false
    }

    /// What has to be written to the map to make it durable as it is now, once
    /// the content is. One at a time: [`Store::sealed`] tells of its end, or
    /// [`Store::left_unsealed`].
    fn seal(&mut self) -> Vec<(Place, Buf)> {
        Vec::new()
    }

    /// What [`Store::seal`] said is durable.
    fn sealed(&mut self) {}

    /// What [`Store::seal`] said is not durable: the host had no space for some of it.
    fn left_unsealed(&mut self) {}

    /// What there is to tidy up next, if anything: with `all`, even what is
    /// hardly worth it. One at a time, until [`Store::tidied`] or
    /// [`Store::left_untidy`].
    fn chore(&mut self, all: bool) -> Option<Chore> {
        let _ = all;
        None
    }

    /// Whether there is something to tidy up.
    fn has_chores(&self, all: bool) -> bool {
        let _ = all;
        false
    }

    /// Whether there may be copies of content in space that is nobody's.
    fn has_residue(&self) -> bool {
        false
    }

    /// Whether it is to be tidied up at once, not only when the disk is idle.
    fn is_tidy(&self) -> bool {
        false
    }

    /// `chore` is done; with what was read, if it was to read.
    fn tidied(&mut self, chore: &Chore, read: &[u8]) {
        let _ = (chore, read);
    }

    /// `content`, which a chore moves, is at its new place.
    ///
    /// # Panics
    /// As [`Store::place`].
    fn moved(&mut self, content: Extent<Addr>, to: Extent<Pos>) {
        let _ = (content, to);
    }

    /// `chore` was given up before its end.
    fn left_untidy(&mut self, chore: &Chore) {
        let _ = chore;
    }

    /// What there is to know of an overlay.
    fn overlay_status(&self) -> Option<overlay::OverlayStatus> {
        None
    }
}

/// Work on space that nobody's content lies in, or on where content lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chore {
    /// Destroy what lies here; it is nobody's.
    Destroy(Vec<Extent<Pos>>),
    /// Give this space back.
    Punch(Vec<Extent<Pos>>),
    /// Cut the medium off here.
    Shrink(Pos),
    /// Read this part of the map.
    Search(Extent<Pos>),
    /// Copy content to another place.
    Move {
        /// It.
        contents: Vec<Extent<Addr>>,
        /// To here: a place for each.
        to: Vec<Extent<Pos>>,
    },
}
