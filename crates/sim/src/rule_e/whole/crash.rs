//! How the guest, the server and the machine come to their ends, and back.

use super::Whole;
use crate::rule_e::guest::{Guest, Mark, Stay};
use crate::rule_e::toy::Bytes;
use quietus_core::volume::Event;
use quietus_detect::format::Block;

impl Whole {
    pub(super) fn shred_now(&mut self) -> Result<(), String> {
        self.server.tell(Event::ShredNow)?;
        self.hear()?;
        self.until(|it| it.server.volume().owes_nothing_due())?;
        match self.server.unproven() {
            0 => Ok(()),
            blocks => Err(format!("liveness: all that was due is done, and {blocks} blocks are not proven")),
        }
    }

    /// The server is stopped while the guest waits.
    pub(super) fn restart(&mut self, drains: bool) -> Result<(), String> {
        self.until_quiet()?;
        self.server.tell(Event::Stop { drain: drains })?;
        self.hear()?;
        if drains {
            self.until(|it| it.server.volume().is_drained())?;
        }
        self.until(|it| !it.server.is_at_work() && it.server.volume().is_at_rest())?;
        let knows = self.server.restart()?;
        self.is_cold |= !knows;
        self.settle_server()?;
        if knows && !self.server.is_watching() {
            return Err("liveness: the file system is not found after a clean stop".into());
        }
        Ok(())
    }

    pub(super) fn crash_guest(&mut self, lands: bool) -> Result<(), String> {
        let Some(guest) = self.guest.take() else { return Ok(()) };
        self.next_generation = guest.next_generation();
        if lands {
            self.arrive_all()?;
        }
        self.wire.clear();
        self.until_quiet()?;
        let (_, pages) = self.read_and_judge(false)?;
        let named = Guest::mount(self.toy, &pages, 0).named();
        self.truth.recovered(&named);
        Ok(())
    }

    pub(super) fn kill(&mut self, survives: bool) -> Result<(), String> {
        self.server.kill()?;
        self.is_cold = true;
        if survives && self.guest.is_some() {
            return self.resend();
        }
        self.lose_guest();
        self.recover(false)
    }

    pub(super) fn cut_power(&mut self) -> Result<(), String> {
        self.server.cut_power()?;
        self.is_cold = true;
        self.lose_guest();
        self.recover(true)
    }

    fn lose_guest(&mut self) {
        self.hang_up();
        if let Some(guest) = self.guest.take() {
            self.next_generation = guest.next_generation();
        }
    }

    /// What lies there now is what there is. `all`: nothing else can come back.
    fn recover(&mut self, all: bool) -> Result<(), String> {
        let (found, pages) = self.read_and_judge(all)?;
        let named = Guest::mount(self.toy, &pages, 0).named();
        self.moment += 1;
        for ((n, bytes), page) in (0..).zip(found).zip(&pages) {
            let stay = self.stay_in(n, page);
            self.shelves[n as usize].found(bytes, stay, self.moment, all);
        }
        self.truth.found(pages);
        self.truth.recovered(&named);
        Ok(())
    }

    fn stay_in(&self, block: Block, page: &Bytes) -> Option<Stay> {
        Mark::of(page).filter(|_| self.toy.data().contains(&block)).map(|it| it.stay)
    }
}
