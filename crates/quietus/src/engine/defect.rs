//! Ends the process after a panic in the middle of a change: the volume may be half changed, and to
//! go on would be to guess what is live. Durable state is as after a crash, and so the program ends
//! like one.

/// Ends the process when a panic begins while this lives.
pub(super) struct WholeOrNothing<'a> {
    disk: &'a str,
    was_panicking: bool,
}

impl<'a> WholeOrNothing<'a> {
    /// Guards a change to the state of `disk`.
    pub(super) fn new(disk: &'a str) -> Self {
        Self { disk, was_panicking: std::thread::panicking() }
    }
}

impl Drop for WholeOrNothing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            abort(self.disk);
        }
    }
}

/// Ends the process: the state of `disk` may be half changed.
pub(super) fn abort(disk: &str) -> ! {
    tracing::error!(
        "disk {disk}: a defect of this program left its state half changed, so that the program ends here; \
         start it again, which recovers the disk as after a crash, and report the panic above"
    );
    std::process::abort();
}
