//! Who has which clusters: the folders say it, from the root on, and the table.
//!
//! 1. Each folder is read once, all of them are one roll, and nothing that was read before is used: who asks knows by his reads what the answer
//!    depends on.
//! 2. A chain counts to its end, also behind the size of its file. A cluster that several files have is given with each of them.
//! 3. What is wrong within the size of a file, or comes back to itself, is an error: then it is not known who has what. Behind the size a
//!    chain may end in any way: drivers do not look there, and write the last entry of a chain late.

use crate::clusters::walk::{Place, Stream};
use crate::clusters::{Chain, Clusters};
use crate::{Error, FileId, Owner, Owners, Roll, Source};
use quietus_core::base::units::{Addr, Extent};
use std::collections::HashSet;

/// The roll of everything.
const ALL: Roll = Roll { number: 0, at: Addr(0) };
/// Most clusters of a volume whose owners are looked at: 16 TiB of 128 KiB each.
const CLUSTERS_MAX: u32 = 1 << 27;
/// Most files and folders.
const CLAIMS_MAX: usize = 1 << 20;
/// How often all clusters together may be told, as files can share them.
const TIMES_MAX: u64 = 2;

/// What an entry of a folder says of clusters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub owner: Owner,
    /// The clusters. Those of a chain hold `bytes` of it at least, if it is not open.
    pub stream: Stream,
    pub is_folder: bool,
}

/// The folders of a volume.
pub(crate) trait Folders {
    /// Reads what decides where all lies, so that it is known that what follows depends on it.
    fn touch(&self, source: &mut dyn Source) -> Result<(), Error>;

    fn clusters(&mut self) -> &mut Clusters;

    /// What the volume says of its root.
    fn top(&self) -> Stream;

    /// Calls `found` for each entry of a folder that is in use.
    fn claims(
        &mut self,
        source: &mut dyn Source,
        folder: Stream,
        found: &mut dyn FnMut(Claim) -> Result<(), Error>,
    ) -> Result<(), Error>;
}

impl<T: Folders> Owners for T {
    fn rolls(&mut self, _: &mut dyn Source) -> Result<Vec<Roll>, Error> {
        Ok(vec![ALL])
    }

    /// All folders, and all chains. The file system itself has what lies before the clusters, and the clusters of folders.
    fn roll(
        &mut self,
        source: &mut dyn Source,
        _: Roll,
        found: &mut dyn FnMut(Owner, Extent<Addr>),
    ) -> Result<(), Error> {
        self.touch(source)?;
        found(Owner::System, Extent::new(0, self.clusters().layout.heap));
        walk(self, source, None, found)
    }

    /// All folders up to the file's are read: a place where its entry would lie may be of any content.
    fn owned(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        found: &mut dyn FnMut(Extent<Addr>),
    ) -> Result<(), Error> {
        self.touch(source)?;
        walk(self, source, Some(file), &mut |_, extent| found(extent))
    }
}

/// Calls `found` for each extent of clusters that has an owner; if a file is `wanted`, for those of that file.
pub(crate) fn walk(
    volume: &mut dyn Folders,
    source: &mut dyn Source,
    wanted: Option<FileId>,
    found: &mut dyn FnMut(Owner, Extent<Addr>),
) -> Result<(), Error> {
    let mut tally = Tally::new(volume.clusters())?;
    let (mut pending, mut seen) = (Vec::new(), HashSet::new());
    let top = Claim { owner: Owner::System, stream: volume.top(), is_folder: true };
    let mut claims = vec![top];
    loop {
        for claim in claims.drain(..) {
            let is_wanted = wanted.is_none_or(|file| claim.owner == Owner::File(file));
            if is_wanted || claim.is_folder {
                volume.clusters().claim(source, claim.stream, &mut tally, &mut |extent| {
                    if is_wanted {
                        found(claim.owner, extent);
                    }
                })?;
            }
            if is_wanted && wanted.is_some() {
                return Ok(());
            }
            if claim.is_folder && seen.insert((claim.stream.place, claim.stream.bytes)) {
                pending.push(claim.stream);
            }
        }
        let Some(folder) = pending.pop() else { return Ok(()) };
        volume.claims(source, folder, &mut |claim| {
            tally.count_claim()?;
            claims.push(claim);
            Ok(())
        })?;
    }
}

/// What may still be told of a volume.
struct Tally {
    claims: usize,
    clusters: u64,
}

impl Tally {
    /// A tally of a volume, of which nothing is known that was read before.
    fn new(clusters: &mut Clusters) -> Result<Self, Error> {
        clusters.forget();
        let count = clusters.layout.clusters;
        if count > CLUSTERS_MAX {
            return Err(Error::Unsupported(format!(
                "the volume has {count} clusters, more than {CLUSTERS_MAX}"
            )));
        }
        Ok(Self { claims: CLAIMS_MAX, clusters: TIMES_MAX * u64::from(count) })
    }

    fn count_claim(&mut self) -> Result<(), Error> {
        let left = self.claims.checked_sub(1);
        self.claims =
            left.ok_or_else(|| Error::Unsupported(format!("the volume has more than {CLAIMS_MAX} files")))?;
        Ok(())
    }

    fn count_clusters(&mut self, count: u64) -> Result<(), Error> {
        let left = self.clusters.checked_sub(count);
        self.clusters =
            left.ok_or_else(|| Error::Unsupported("files share more clusters than the volume has".into()))?;
        Ok(())
    }
}

impl Clusters {
    /// Forgets what was read of the table.
    fn forget(&mut self) {
        (self.piece, self.reached) = (Vec::new(), None);
    }

    /// Calls `found` for the extents of all clusters of `stream`.
    fn claim(
        &mut self,
        source: &mut dyn Source,
        stream: Stream,
        tally: &mut Tally,
        found: &mut dyn FnMut(Extent<Addr>),
    ) -> Result<(), Error> {
        match stream.place {
            // A root in a fixed place lies before the clusters.
            Place::Piece(at) if self.layout.cluster_of(at).is_none() => Ok(()),
            Place::Piece(_) if stream.bytes == 0 => Ok(()),
            Place::Piece(at) => {
                let bytes = self.layout.allocated(stream.bytes);
                tally.count_clusters(bytes / self.layout.cluster_bytes)?;
                found(Extent::new(at, bytes));
                Ok(())
            }
            Place::Chain(first) => {
                let chain = self.chain(first)?;
                let bytes = if stream.is_open { 0 } else { stream.bytes };
                self.claim_chain(source, chain, bytes, tally, found)
            }
        }
    }

    /// The same of the chain that begins at `chain`, which has to hold `bytes`.
    fn claim_chain(
        &mut self,
        source: &mut dyn Source,
        mut chain: Chain,
        bytes: u64,
        tally: &mut Tally,
        found: &mut dyn FnMut(Extent<Addr>),
    ) -> Result<(), Error> {
        let cluster_bytes = self.layout.cluster_bytes;
        let mut extent: Extent<Addr> = Extent::new(self.layout.at(chain.cluster), cluster_bytes);
        loop {
            tally.count_clusters(1)?;
            let is_behind = (chain.index + 1).saturating_mul(cluster_bytes) >= bytes;
            match self.step(source, &mut chain) {
                Ok(true) => {}
                Ok(false) if is_behind => break,
                Ok(false) => return Err(self.too_short(&chain, bytes)),
                Err(Error::Damaged(_)) if is_behind && !self.is_link(source, chain) => break,
                Err(error) => return Err(error),
            }
            let at = self.layout.at(chain.cluster);
            if at == extent.end() {
                extent = Extent::new(extent.start.0, extent.len + cluster_bytes);
            } else {
                found(std::mem::replace(&mut extent, Extent::new(at, cluster_bytes)));
            }
        }
        found(extent);
        Ok(())
    }
}
