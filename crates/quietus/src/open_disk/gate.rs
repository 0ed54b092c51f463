//! Whether clients may use the current state of a disk, and how many could.

use crate::base::lock::lock;
use std::sync::Mutex;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Gate(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Clients that are connected to the current state.
    clients: usize,
    is_closed: bool,
}

/// Keeps a gate closed until dropped.
#[derive(Debug)]
pub struct Closed<'a>(&'a Gate);

impl Gate {
    /// A client connects.
    pub fn enter(&self) {
        lock(&self.0).clients += 1;
    }

    /// A client has gone.
    pub fn leave(&self) {
        lock(&self.0).clients -= 1;
    }

    /// Whether requests are refused.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        lock(&self.0).is_closed
    }

    /// Has requests refused, unless clients are connected or the gate is closed already.
    ///
    /// # Errors
    /// How many clients are connected; 0 if the gate is closed already.
    pub fn close(&self) -> Result<Closed<'_>, usize> {
        let mut state = lock(&self.0);
        if state.is_closed || state.clients > 0 {
            return Err(state.clients);
        }
        state.is_closed = true;
        Ok(Closed(self))
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        lock(&self.0.0).is_closed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_closed_while_no_client_is_connected_and_opens_again() {
        let gate = Gate::default();
        gate.enter();
        gate.enter();
        gate.leave();
        assert_eq!(gate.close().err(), Some(1));
        gate.leave();
        let closed = gate.close().expect("no client is connected");
        assert!(gate.is_closed());
        assert_eq!(gate.close().err(), Some(0));
        drop(closed);
        assert!(!gate.is_closed());
    }
}
