//! The content of a file, as runs of bytes of the source.

use crate::clusters::{Chain, Clusters, read};
use crate::{Attributes, Error, Kind, Run, Source};
use quietus_core::base::units::{Addr, Extent};
use std::ops::Range;

/// Where content lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    /// In one piece, from this byte of the source on.
    Piece(u64),
    /// In the chain that begins with this cluster.
    Chain(u32),
}

/// Content: its place, and how much of it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stream {
    pub place: Place,
    /// Bytes from the first on that were written.
    pub bytes: u64,
    /// The chain may end before that: `bytes` is a limit.
    pub is_open: bool,
}

/// A file: what its entry says of it, and its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    pub attributes: Attributes,
    pub stream: Stream,
}

/// The attributes of a folder of which nothing is noted.
pub(crate) fn plain(bytes: u64) -> Attributes {
    Attributes {
        kind: Kind::Folder,
        bytes,
        allocated_bytes: bytes,
        mode: None,
        owner: None,
        links: None,
        modified: None,
        accessed: None,
        changed: None,
        born: None,
    }
}

impl Node {
    /// The node, if it is a folder.
    pub(crate) fn folder(self) -> Result<Self, Error> {
        if self.attributes.kind == Kind::Folder { Ok(self) } else { Err(Error::NotA("folder")) }
    }

    /// The node, if it is a regular file.
    fn regular(self) -> Result<Self, Error> {
        if self.attributes.kind == Kind::Regular { Ok(self) } else { Err(Error::NotA("regular file")) }
    }
}

/// Bytes of a stream that lie together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// The first byte within the stream.
    pub at: u64,
    /// Where the bytes lie in the source.
    pub place: Extent<Addr>,
}

/// A walk along a stream.
#[derive(Debug)]
pub(crate) struct Walk {
    is_open: bool,
    /// The next byte of the stream.
    at: u64,
    end: u64,
    from: From,
}

/// Where a walk is.
#[derive(Debug)]
enum From {
    Piece(u64),
    Chain(Chain),
}

impl Walk {
    /// A walk along the bytes `part` of `stream`, as far as they were written.
    pub(crate) fn new(clusters: &Clusters, stream: Stream, part: Range<u64>) -> Result<Self, Error> {
        let end = part.end.min(stream.bytes);
        let from = match stream.place {
            _ if part.start >= end => From::Piece(0),
            Place::Piece(at) => From::Piece(at),
            Place::Chain(first) => {
                let index = part.start / clusters.layout.cluster_bytes;
                let reached = clusters.reached.filter(|it| it.first == first && it.index <= index);
                From::Chain(reached.map_or_else(|| clusters.chain(first), Ok)?)
            }
        };
        Ok(Self { is_open: stream.is_open, at: part.start, end, from })
    }

    /// The next part, as long as it can be; `None` at the end.
    ///
    /// A part before damage is given, and the error comes with the call after that.
    pub(crate) fn next(
        &mut self,
        clusters: &mut Clusters,
        source: &mut dyn Source,
    ) -> Result<Option<Part>, Error> {
        if self.at >= self.end {
            return Ok(None);
        }
        if let From::Piece(start) = self.from {
            let part = Part { at: self.at, place: Extent::new(start + self.at, self.end - self.at) };
            self.at = self.end;
            return Ok(Some(part));
        }
        let mut place: Option<Extent<Addr>> = None;
        let at = self.at;
        while self.at < self.end {
            let next = match self.cluster(clusters, source) {
                Ok(Some(next)) => next,
                Err(error) if place.is_none() => return Err(error),
                Ok(None) | Err(_) => break,
            };
            let joined = match place {
                None => next,
                Some(place) if place.end() == next.start.0 => {
                    Extent::new(place.start.0, place.len + next.len)
                }
                Some(_) => break,
            };
            self.at += next.len;
            place = Some(joined);
        }
        Ok(place.map(|place| Part { at, place }))
    }

    /// The bytes of the next cluster that belong to the walk; `None` if an open chain ends before.
    fn cluster(
        &mut self,
        clusters: &mut Clusters,
        source: &mut dyn Source,
    ) -> Result<Option<Extent<Addr>>, Error> {
        let From::Chain(chain) = &mut self.from else { return Ok(None) };
        let cluster_bytes = clusters.layout.cluster_bytes;
        let is_there = clusters.seek(source, chain, self.at / cluster_bytes)?;
        clusters.reached = Some(*chain);
        if !is_there && self.is_open {
            self.end = self.at;
            return Ok(None);
        }
        if !is_there {
            return Err(clusters.too_short(chain, self.end));
        }
        let within = self.at % cluster_bytes;
        let bytes = (cluster_bytes - within).min(self.end - self.at);
        Ok(Some(Extent::new(clusters.layout.at(chain.cluster) + within, bytes)))
    }
}

/// Steps behind the last cluster of a file, for each of its clusters, in which a loop among them is found (Brent's bound is 3 in all).
const STEPS_BEHIND: u64 = 3;

impl Walk {
    /// Ends a walk to the end of its stream. A chain that comes back within the stream never ends: it is followed until that shows.
    ///
    /// Any other damage behind the stream is not its own: drivers do not look there, and write the last entry of a chain late.
    fn finish(self, clusters: &mut Clusters, source: &mut dyn Source) -> Result<(), Error> {
        let From::Chain(mut chain) = self.from else { return Ok(()) };
        let last = (chain.index + 1).saturating_mul(1 + STEPS_BEHIND);
        match clusters.seek(source, &mut chain, last) {
            Err(error) if clusters.is_link(source, chain) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Clusters {
    /// Bytes of the clusters of `stream`.
    pub(crate) fn measure(&mut self, source: &mut dyn Source, stream: Stream) -> Result<u64, Error> {
        let mut walk = Walk::new(self, stream, 0..stream.bytes)?;
        let mut bytes = 0;
        while let Some(part) = walk.next(self, source)? {
            bytes += part.place.len;
        }
        Ok(bytes)
    }

    /// As [`crate::Volume::runs`].
    pub(crate) fn runs(
        &mut self,
        source: &mut dyn Source,
        node: Node,
        found: &mut dyn FnMut(Run) -> bool,
    ) -> Result<(), Error> {
        let stream = node.regular()?.stream;
        let mut walk = Walk::new(self, stream, 0..stream.bytes)?;
        while let Some(Part { at, place }) = walk.next(self, source)? {
            if !found(Run { at, bytes: place.len, place: Some(place.start) }) {
                return Ok(());
            }
        }
        walk.finish(self, source)
    }

    /// As [`crate::Volume::read`].
    pub(crate) fn content(
        &mut self,
        source: &mut dyn Source,
        node: Node,
        at: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, Error> {
        let Node { attributes, stream } = node.regular()?;
        let end = at.saturating_add(bytes as u64).min(attributes.bytes);
        let mut content = vec![0; end.saturating_sub(at) as usize];
        let mut walk = Walk::new(self, stream, at..end)?;
        while let Some(part) = walk.next(self, source)? {
            let to = (part.at - at) as usize;
            content[to..to + part.place.len as usize].copy_from_slice(&read(source, part.place)?);
        }
        if end >= stream.bytes {
            walk.finish(self, source)?;
        }
        Ok(content)
    }
}
