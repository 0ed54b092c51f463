//! The product: a volume below the watcher of ext2, as they are served, and the acts that they have under way.

use super::guest::{BLOCK, IMAGE};
use super::page::Receipts;
use crate::machine::history::{Origin, Setup};
use crate::rules::rule_e::marks::image::place;
use crate::server::{Server, Watched};
use crate::verdict::{Judged, Violation};
use quietus_core::base::units::{Addr, Extent};
use quietus_core::media::MediumId;
use quietus_core::owed::ledger::Due;
use quietus_core::request::{Op, Request, RequestId};
use quietus_core::volume::{Event, Io, IoOp};
use quietus_core::watch::Class;
use quietus_detect::formats::ext2::probe;
use quietus_detect::rules::options::{Options, Sensitive};

/// One step of time, in milliseconds: the reorder window, the settling time, and the pause after which a disk is idle.
pub const STEP_MS: u64 = 1000;

/// Blocks that are live all the time: metadata, and the root folder's.
const LIVE: u64 = 10;

#[derive(Debug)]
pub struct Product {
    pub server: Server,
    requests: u64,
}

fn setup() -> Setup {
    Setup {
        policy: "purge-2",
        punch: true,
        idle_after_ms: STEP_MS,
        deadline_ms: u64::MAX,
        origin: Origin::Adopted,
        ..Setup::plain(IMAGE.len() as u64)
    }
}

fn watched() -> Watched {
    let options = Options {
        reorder_window_ms: STEP_MS,
        settle_ms: STEP_MS,
        sensitive: Sensitive::Marked,
        ..Options::default()
    };
    Watched { options, probers: vec![probe] }
}

impl Product {
    pub fn new() -> Result<Self, Violation> {
        let server = Server::new(&setup(), IMAGE.clone(), Some(watched()), 0)?;
        let mut this = Self { server, requests: 0 };
        this.server.connect(true)?;
        this.pass()?;
        this.pass()?;
        while this.syncs() > 0 {
            this.act()?;
        }
        Ok(this)
    }

    /// Does what is under way, but for syncs of the content.
    fn settle(&mut self) -> Judged {
        while let Some(n) = self.server.handed.iter().position(|it| !is_held(it)) {
            self.server.act(n)?;
        }
        Ok(())
    }

    pub fn pass(&mut self) -> Judged {
        self.server.pass(STEP_MS)?;
        self.settle()
    }

    /// Ends the oldest sync of the content.
    pub fn act(&mut self) -> Judged {
        self.server.act(0)?;
        self.settle()
    }

    /// Syncs of the content that are under way.
    pub fn syncs(&self) -> usize {
        self.server.handed.len()
    }

    /// A request of the guest, which waits for the reply. No sync ends before, but those that the reply waits for.
    pub fn ask(&mut self, op: Op, extent: Extent<Addr>) -> Judged {
        self.requests += 1;
        let id = RequestId(self.requests);
        self.server.tell(Event::Request(id, Request { op, extent, fua: false }))?;
        while !self.server.has_replied(id) {
            let acts = &self.server.handed;
            let first = acts.iter().position(|it| !is_held(it)).or(acts.len().checked_sub(1));
            self.server.act(first.unwrap_or_default())?;
        }
        self.server.take_said();
        self.settle()
    }

    pub fn due(&self) -> Vec<Due> {
        let owed = self.server.volume.obligations().filter(|(it, _)| it.overlaps(place(BLOCK)));
        owed.map(|(_, it)| it.due).collect()
    }

    pub fn class(&self) -> Option<Class> {
        self.server.volume.classes(place(BLOCK))?.first().map(|it| it.1)
    }

    /// Receipts: destroyed, kept above what was destroyed, freed.
    pub fn receipts(&self) -> Receipts {
        let counters = self.server.volume.status().counters;
        let bytes = [counters.destroyed_bytes, counters.rewritten_bytes, counters.plain_bytes];
        bytes.map(|it| it / place(BLOCK).len)
    }

    /// The figures of [`super::page::Page::figures`].
    pub fn figures(&self) -> [u64; 8] {
        let status = self.server.volume.watch_status().unwrap_or_default();
        let figure = |name: &str| status.figures.iter().find(|it| it.0 == name).map_or(0, |it| it.1);
        [
            figure("live") - LIVE,
            figure("suspicious"),
            figure("unconfirmed"),
            figure("dead, evidence not durable yet"),
            figure("dead, still named"),
            figure("named by pointers"),
            figure("marked inodes"),
            figure("marked blocks"),
        ]
    }
}

/// Whether `io` ends only when the enumeration says so: a sync of the content.
fn is_held(io: &Io) -> bool {
    io.op == IoOp::Sync && io.at.first().on == MediumId::Data
}
