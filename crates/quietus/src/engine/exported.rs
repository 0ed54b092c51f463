//! The engine as front ends see it.

use super::Engine;
use crate::engine::export::{Export, ExportInfo, ReplyTo};
use quietus_core::base::units::{Addr, Extent};
use quietus_core::request::{Liveness, Request};
use quietus_core::volume::Event;

impl Export for Engine {
    fn info(&self) -> ExportInfo {
        ExportInfo {
            name: self.shared.name.clone(),
            description: "a Quietus disk, which destroys deleted content".into(),
            size: self.shared.size,
            read_only: self.shared.read_only,
            multi_connection: self.shared.multi_connection,
        }
    }

    fn size(&self) -> u64 {
        self.shared.size
    }

    fn connected(&self, process: Option<u32>) -> u64 {
        let client = self.shared.attachment.get().map_or(0, |it| it.connected(process));
        self.shared.tell_attached();
        self.shared.tell(Event::Connected);
        self.keep_looking_at(client);
        client
    }

    fn disconnected(&self, client: u64) {
        self.shared.tell(Event::Disconnected);
        if let Some(attachment) = self.shared.attachment.get() {
            attachment.disconnected(client);
        }
        self.shared.tell_attached();
    }

    fn submit(&self, request: Request, reply: ReplyTo) {
        self.shared.submit(request, reply);
    }

    fn liveness(&self, extent: Extent<Addr>, runs_max: usize) -> Vec<(u64, Liveness)> {
        self.shared.lock().volume.liveness(extent, runs_max)
    }
}
