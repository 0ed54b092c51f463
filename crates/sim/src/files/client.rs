//! Clients that come and go.

use super::Files;
use super::sent::Sent;
use crate::server::Above;
use quietus_detect::format::Block;

impl Files {
    /// Loses the connection. Requests on their way may arrive still, while the other connection may
    /// be there already, and whatever was not replied to comes once more.
    pub(super) fn reconnect(&mut self, overlaps: bool) -> Result<(), String> {
        if overlaps {
            self.connect(true)?;
        }
        self.everywhere(|it| {
            let again: Vec<_> = it.pending.values().chain(&it.wire).cloned().collect();
            for index in (0..it.wire.len()).rev() {
                if it.rng.chance(30) {
                    it.wire.remove(index);
                }
            }
            it.arrive_all()?;
            it.orphan_all();
            it.wire = again.into_iter().map(|sent| it.renewed(sent)).collect();
            Ok(())
        })?;
        if !overlaps {
            self.connect(false)?;
            return self.connect(true);
        }
        self.everywhere(Self::arrive_all)?;
        self.connect(false)
    }

    pub(super) fn connect(&mut self, comes: bool) -> Result<(), String> {
        self.server.connect(comes)?;
        self.hear()
    }

    /// Notes that nobody waits for replies any more.
    fn orphan_all(&mut self) {
        let (at, pending) = (self.at, std::mem::take(&mut self.pending));
        self.orphans.extend(pending.into_iter().map(|(id, sent)| (id, (at, sent))));
    }

    /// Keeps a change for later that was refused for want of space: it changed nothing. Somebody makes
    /// room, sooner or later.
    pub(super) fn try_again(&mut self, block: Block, sent: Sent) {
        self.server.figures.refused += 1;
        self.shelves[block as usize].withdraw();
        self.system.refused(block);
        let sent = self.renewed(sent);
        self.wire.push(sent);
        if self.rng.chance(20) {
            self.server.fill_host(false);
        }
    }

    fn renewed(&mut self, sent: Sent) -> Sent {
        Sent { id: self.new_id(), ..sent }
    }
}
