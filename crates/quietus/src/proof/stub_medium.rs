//! A look at all of a stub medium, or of a root: which stubs or cells lie there, compared with the index.

use crate::engine::Engine;
use crate::epochs;
use crate::host::media::DiskMedium;
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{BLOCK_BYTES, Extent, Pos, Session};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::MediumId;
use quietus_core::media::medium::{Medium, MediumError};
use quietus_core::request::{Judged, Question, Refusal};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes read at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes that one question is about.
const PAGE_BYTES: u64 = 4096;
/// Bytes by which a stub is known again.
const MARK_BYTES: usize = 16;
/// Most places of unneeded stubs that a report names.
const RESIDUE_MAX: usize = 1000;
/// How often a stub that no version names is looked at, before it counts: its destruction may just have ended.
const LOOKS: usize = 3;

/// The content of a stub medium, or of a root.
#[derive(Default)]
pub(crate) struct StubScan {
    /// Bytes that were read, by [`crate::host::media::Way`]; the rest are holes.
    pub(crate) read_ways: BTreeMap<String, u64>,
    /// Stubs of versions that the current state or a kept epoch shows; cells in use.
    pub(crate) live: u64,
    /// The slots of these versions, as the bytes of the data medium.
    pub(crate) slots: BlockSet<Pos>,
    /// The sessions in which these stubs were sealed.
    pub(crate) sessions: BTreeSet<Session>,
    /// Stubs or cells that are still to be destroyed.
    pub(crate) owed: u64,
    /// Where stubs lie that no version has, and damaged sectors of the log; or cells that are not in use.
    pub(crate) residue: Vec<u64>,
}

/// Why a stub medium cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The disk has no such medium.
    #[error("the disk has no stub medium or root")]
    None,
    /// The medium cannot be read.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The index cannot be asked.
    #[error("cannot compare the stubs with the index: {0}")]
    Refused(#[from] Refusal),
    /// A person interrupted the look.
    #[error("interrupted")]
    Interrupted,
}

impl StubScan {
    /// Reads the stub medium, or the root, of the disk that `engine` runs, around the host's cache. `go_on` says whether to.
    pub(crate) fn of(
        engine: &Engine,
        id: MediumId,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Self, ScanError> {
        let medium = engine.medium(id).ok_or(ScanError::None)?;
        let question = if id == MediumId::Root { Question::Cells } else { Question::Stubs };
        let looked = Looked { engine, medium, question };
        let (mut scan, size) = (Self::default(), medium.size());
        for run in medium.data_within(Extent::new(0, size)) {
            for piece in run.pieces(PIECE_BYTES) {
                let start = piece.start.0 / PAGE_BYTES * PAGE_BYTES;
                let end = piece.end().next_multiple_of(PAGE_BYTES).min(size);
                scan.look_at_piece(&looked, Extent::between(start, end))?;
                if !go_on() {
                    return Err(ScanError::Interrupted);
                }
            }
        }
        Ok(scan)
    }

    fn look_at_piece(&mut self, looked: &Looked<'_>, piece: Extent<Pos>) -> Result<(), ScanError> {
        let mut bytes = vec![0; piece.len as usize];
        let way = looked.medium.read_uncached(piece.start, &mut bytes)?;
        *self.read_ways.entry(way.name().into()).or_default() += piece.len;
        for (page, content) in piece.pieces(PAGE_BYTES).zip(bytes.chunks(PAGE_BYTES as usize)) {
            if !is_zeros(content) {
                self.add(looked.judge_page(page, content.to_vec())?);
            }
        }
        Ok(())
    }

    fn add(&mut self, judged: Judged) {
        self.live += judged.live.len() as u64;
        self.owed += judged.owed;
        self.sessions.extend(judged.sessions);
        judged.live.iter().for_each(|slot| self.slots.insert(Extent::new(slot.0 * BLOCK_BYTES, BLOCK_BYTES)));
        let room = RESIDUE_MAX.saturating_sub(self.residue.len());
        self.residue.extend(judged.residue.iter().take(room).map(|at| at.0));
    }
}

/// The medium that is looked at, and whom to ask what lies there.
struct Looked<'a> {
    engine: &'a Engine,
    medium: &'a DiskMedium,
    /// Whole sectors that lie somewhere, as a question about the stubs or the cells in them.
    question: fn(Pos, Vec<u8>) -> Question,
}

impl Looked<'_> {
    fn judge_page(&self, page: Extent<Pos>, mut bytes: Vec<u8>) -> Result<Judged, ScanError> {
        let mut judged = self.judge(page, &bytes)?;
        for _ in 1..LOOKS {
            if judged.residue.is_empty() {
                break;
            }
            let mut again = vec![0; bytes.len()];
            self.medium.read_uncached(page.start, &mut again)?;
            let now = self.judge(page, &again)?;
            let is_same = |at: &Pos| mark(page, &bytes, *at) == mark(page, &again, *at);
            judged.residue.retain(|at| is_same(at) && now.residue.contains(at));
            judged = Judged { residue: judged.residue, ..now };
            bytes = again;
        }
        Ok(judged)
    }

    fn judge(&self, page: Extent<Pos>, bytes: &[u8]) -> Result<Judged, Refusal> {
        let mut sectors = bytes.to_vec();
        // The last home of a file may end within its sector.
        sectors.resize(PAGE_BYTES as usize, 0);
        epochs::judge(self.engine, (self.question)(page.start, sectors))
    }
}

/// The mark of the stub or cell at `at`, of the `bytes` of a page.
fn mark(page: Extent<Pos>, bytes: &[u8], at: Pos) -> Option<&[u8]> {
    let from = (at.0 - page.start.0) as usize;
    bytes.get(from..(from + MARK_BYTES).min(bytes.len()))
}
