//! A start that finds a medium busy, such as a TPM that other programs use, tries again for a while.

use super::StartError;
use crate::disk::{DiskError, DiskErrorKind, Step};
use crate::host::directory::DirectoryErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a start waits for a medium. Service managers give a start some more.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The pause before each further try: a medium that says that it is busy has then some time without commands.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a start that waits looks whether to go on.
const LOOK: Duration = Duration::from_millis(50);

/// How long a start waits, and how often it tries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    wait_max: Duration,
    pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { wait_max: WAIT_MAX, pause: PAUSE }
    }
}

impl Patience {
    /// The result of `start` for the disk at `path`, tried again while a medium is busy, as long as `step` says so. The first
    /// time, a warning says what the start waits for.
    pub(super) fn start<T>(
        self,
        path: &Path,
        step: Step<'_>,
        mut start: impl FnMut() -> Result<T, StartError>,
    ) -> Result<T, StartError> {
        let begun = Instant::now();
        let mut has_said = false;
        loop {
            let result = start();
            let Some(error) = result.as_ref().err().and_then(StartError::busy) else { return result };
            let (error, waited) = (error.clone(), begun.elapsed());
            if waited >= self.wait_max {
                return Err(StartError::Busy { error, seconds: waited.as_secs() });
            }
            if !has_said {
                let seconds = self.wait_max.as_secs();
                tracing::warn!(%error, "{}: a medium is busy; trying again for {seconds} s", path.display());
                has_said = true;
            }
            // Between two tries the start holds no medium.
            drop(result);
            self.rest(path, &mut *step)?;
        }
    }

    /// Waits for the next try.
    fn rest(self, path: &Path, step: Step<'_>) -> Result<(), DiskError> {
        let ends = Instant::now() + self.pause;
        loop {
            if !step(0, 1) {
                return Err(DiskErrorKind::from(DirectoryErrorKind::Interrupted).at(path));
            }
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(LOOK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietus_core::media::medium::{MediumError, MediumErrorKind};
    use quietus_core::store::StoreError;
    use quietus_core::store::sealed::{RootError, SealedError};
    use quietus_core::volume::OpenError;
    use std::io;

    const SHORT: Patience = Patience { wait_max: Duration::from_secs(60), pause: Duration::ZERO };

    fn medium(kind: MediumErrorKind) -> MediumError {
        MediumError { kind, message: "reading the root: too many guests".into() }
    }

    /// The errors of a start whose root answers so.
    fn errors(kind: MediumErrorKind) -> [StartError; 4] {
        let of_store = |error| StartError::Open(OpenError::Store(error));
        let opening = DirectoryErrorKind::Io("open").of(Path::new("root"), io::Error::other(medium(kind)));
        [
            StartError::Disk(opening.into()),
            of_store(StoreError::Medium(medium(kind))),
            of_store(SealedError::Medium(medium(kind)).into()),
            of_store(SealedError::Root(RootError::Medium(medium(kind))).into()),
        ]
    }

    #[test]
    fn a_start_tries_again_while_a_medium_is_busy_and_no_other_error_is_tried_again() {
        let mut left = Vec::from(errors(MediumErrorKind::Busy));
        let mut tries = 0;
        let started = SHORT.start(Path::new("vm1"), &mut |_, _| true, || {
            tries += 1;
            left.pop().map_or(Ok(7), Err)
        });
        assert_eq!((started.ok(), tries), (Some(7), 5));
        for error in errors(MediumErrorKind::Io) {
            let mut failure = Some(error);
            let once = || Err::<(), _>(failure.take().expect("one try"));
            let error = SHORT.start(Path::new("vm1"), &mut |_, _| true, once).expect_err("it failed");
            assert!(!matches!(error, StartError::Busy { .. }), "{error}");
        }
    }

    #[test]
    fn a_medium_that_stays_busy_is_named_with_what_to_do() {
        let impatient = Patience { wait_max: Duration::ZERO, ..SHORT };
        let [error, ..] = errors(MediumErrorKind::Busy);
        let mut failure = Some(error);
        let once = || Err::<(), _>(failure.take().expect("one try"));
        let error = impatient.start(Path::new("vm1"), &mut |_, _| true, once).expect_err("it is busy");
        let said = error.to_string();
        assert!(said.contains("too many guests") && said.contains("run the command again"), "{said}");
    }

    #[test]
    fn a_start_that_waits_ends_at_once_when_it_is_told_to() {
        let patience = Patience { wait_max: WAIT_MAX, pause: WAIT_MAX };
        let begun = Instant::now();
        let mut looks = 0;
        let mut step = |_, _| {
            looks += 1;
            looks < 3
        };
        let busy = || Err::<(), _>(errors(MediumErrorKind::Busy).into_iter().next().expect("an error"));
        let error = patience.start(Path::new("vm1"), &mut step, busy).expect_err("it was told to end");
        assert!(error.is_interrupted() && begun.elapsed() < WAIT_MAX / 2, "{error}");
    }
}
