//! The only part that knows where bytes live.

mod held;
mod in_place;
pub mod overlay;

pub use in_place::InPlace;
pub use overlay::Overlay;

use crate::blocks::BlockSet;
use crate::place::{Place, Places};
use crate::request::Buf;
use crate::units::{Addr, Extent, Pos};
use std::fmt::Debug;

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
    /// the content is; none where it is zeros. One at a time: [`Store::sealed`]
    /// tells of its end.
    fn seal(&mut self) -> Vec<(Place, Option<Buf>)> {
        Vec::new()
    }

    /// What [`Store::seal`] said is durable.
    fn sealed(&mut self) {}

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
