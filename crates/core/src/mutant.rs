//! Deliberate defects, which the simulator must find. A release build cannot switch them
//! on: the compiler removes the checks.

/// Declares the deliberate defects of a crate, `Mutant::EVERY` and the switch: `activate` and `is`.
#[macro_export]
macro_rules! mutants {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// One deliberate defect.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Mutant {
            /// Every mutant of this crate.
            pub const EVERY: &[Self] = &[$(Self::$name),+];
        }

        #[cfg(debug_assertions)]
        mod switch {
            use super::Mutant;
            use std::cell::Cell;

            thread_local!(static ACTIVE: Cell<Option<Mutant>> = Cell::new(chosen()));

            /// The mutant that the environment names.
            fn chosen() -> Option<Mutant> {
                let name = $crate::mutant::named()?;
                Mutant::EVERY.iter().copied().find(|it| format!("{it:?}") == name)
            }

            /// Switches `mutant` on for this thread, and every other mutant off.
            pub fn activate(mutant: Option<Mutant>) {
                ACTIVE.set(mutant);
            }

            /// Whether `mutant` is on.
            #[must_use]
            pub fn is(mutant: Mutant) -> bool {
                ACTIVE.get() == Some(mutant)
            }
        }

        #[cfg(debug_assertions)]
        pub use switch::{activate, is};

        /// Whether `mutant` is on: never, in a release build.
        #[cfg(not(debug_assertions))]
        #[must_use]
        pub const fn is(_: Mutant) -> bool {
            false
        }
    };
}

/// The mutant that `QUIETUS_MUTANT` names: `cargo xtask mutants` runs the tests below each, to learn which tests fail.
#[cfg(debug_assertions)]
#[expect(clippy::disallowed_methods, reason = "tests have no arguments, and a release has no mutants")]
#[must_use]
pub fn named() -> Option<String> {
    std::env::var("QUIETUS_MUTANT").ok()
}

mutants! {
    /// A write to a queued block goes straight to the medium.
    ForgetRevocation,
    /// An erase task begins before the death that calls for it is durable.
    TaskBeforeCommit,
    /// A free is replied to before the death is durable.
    ReplyBeforeCommit,
    /// The receipt does not wait for the last sync.
    ReceiptBeforeSync,
    /// Passes are not synced between one another, so that a cache folds them.
    FoldPasses,
    /// The journal's copy of staged content is not erased.
    KeepSlots,
    /// A conservative overwrite does not log the content first.
    KeepNothing,
    /// A read shows a dead block's content.
    UnmaskedRead,
    /// The map is written before the content that it names is durable.
    CheckpointMapAlone,
    /// A slot is used again though the durable map may name it.
    ReuseAtOnce,
    /// The old slot of content that moved is not destroyed.
    SkipResidue,
    /// An obligation is cleared before the map is durable that forgets the slot.
    MeetBeforeCheckpoint,
    /// A part of a block is written to a slot without the rest of it.
    CopyUpNothing,
    /// A start unmaps a block that has left its place, whatever place the map names.
    UnmapBlindly,
    /// The map is durable before the journal names the places that the map no longer has.
    CheckpointBeforeOwed,
    /// A place that a block has left is used again before it is destroyed.
    ReuseOwed,
    /// After a crash a place that is owed is used for new content.
    ForgetOwed,
    /// A block that leaves its place owes nothing to the base, which the durable map may still show.
    BaseUnowed,
    /// A snapshot of the journal leaves out the receipts that are owed.
    ForgetReceipts,
    /// A receipt is handed out before the commit that completed its obligation is durable.
    ReceiptBeforeCommit,
    /// A write over dead bytes is not noted.
    NoteNothing,
    /// Dead bytes are shown as soon as a write over them begins.
    OverwriteEarly,
    /// Bytes that were written over count as destroyed before they are synced.
    OverwrittenUnsynced,
    /// A flush is replied to before the journal knows durably what lives again.
    FlushBeforeCompletion,
    /// A write is answered before the host has given space for its entry in the map.
    AnswerBeforeSpace,
    /// A task overwrites content that it keeps before the host has given space for the passes.
    PassBeforeSpace,
    /// The watcher is told of a request that is refused.
    TellOfRefused,
    /// Bytes under a conservative overwrite get an obligation at once, which the end of
    /// the overwrite then removes.
    DieDuringOverwrite,
    /// A slot is taken again though the stub of the version that it had is not destroyed.
    StubOverStub,
    /// The receipt for forgotten epochs does not wait for the last sync of the root.
    ForgottenUnsynced,
    /// The cell of the half of the log that a checkpoint has turned away from is not destroyed.
    KeepLog,
    /// The cell of that half is destroyed before the homes of its stubs are durable.
    KillLogEarly,
    /// A half of the log is used again under the cell that was destroyed.
    KeepCell,
    /// A half of the log is used again before its fresh cell is durable.
    CellUnsynced,
    /// One pass less than the policy asks for comes over a cell.
    SparePass,
    /// A close lets writes that arrive later into its epoch.
    LateWrite,
    /// A forget takes versions that an earlier epoch shows too.
    ForgetShared,
    /// A start replays all but the last entry of a sector of the log.
    SkipReplay,
    /// A page of homes gets another cell while a checkpoint brings stubs there.
    BringMeanwhile,
    /// The rest of a page of homes is written under the cell that the page had.
    KeepHomeCell,
    /// A page of homes of which some stubs are to die stays as it is.
    SparePage,
    /// The cell of a page may leave memory before the root has it.
    DropFreshCell,
    /// The cell of a page is destroyed before the page is durable under its other one.
    KillHomeEarly,
    /// A page is written under a cell that is not durable.
    FreshCellUnsynced,
    /// A start takes a page for whole that a checkpoint may have begun to write.
    TrustTornPage,
    /// A start leaves the sectors of a page under both of its cells.
    LeaveMixed,
    /// An epoch is shown before its close is durable.
    ShowUndurable,
    /// An epoch is kept though a crash cut its close off.
    KeepUnclosed,
    /// The receipt of one forget counts for another one of the same epochs.
    MergeForgets,
    /// A forget of blocks spares the versions that two epochs show.
    SpareShared,
    /// Blocks that were forgotten read as zeros.
    HideGap,
    /// A forget is replied to before its intent is durable.
    ReplyBeforeIntent,
    /// A version that was forgotten alone reads as zeros.
    HideTombstone,
    /// Versions that other epochs show, too, are forgotten with those of some.
    AmendShared,
    /// Versions of the current state are forgotten with those of some epochs.
    AmendCurrent,
    /// The last part of a set stays, and the set is called forgotten.
    SkipPart,
    /// A snapshot of the journal leaves out the last part of a set.
    LosePart,
    /// A job destroys a stub before the journal says durably that it is owed.
    KillBeforeOwed,
    /// A plain death makes a sensitive one plain that is still owed at the same bytes.
    ForgetSensitive,
    /// The class of content is asked for after the watcher has observed the change that frees it.
    AskClassLate,
    /// A start goes on with the older head of the index where the newer one is damaged.
    BelieveOldHead,
    /// A start goes on with a journal that ends before the last clean stop.
    BelieveOldJournal,
    /// What a medium would not erase counts as erased.
    ForgetRemains,
    /// What a medium would not erase is tried again at once, and with it all that was to be destroyed together.
    TryRemainsAtOnce,
    /// A purge writes a page of keys under the cell that the page had.
    KeepPageCell,
    /// A purge writes the top page of keys under the cell that it had.
    KeepTop,
    /// The top cell is written before the pages of keys are durable.
    TopBeforePages,
    /// The top cell of the keys before a purge is not destroyed.
    SpareRoot,
    /// The receipts of a purge do not wait for the last sync of the root.
    ReceiptBeforeRoot,
    /// A start does not make durable which keys it found, and does not wait until the other ones are destroyed.
    StartUnsynced,
    /// The journal says that a dead block lives under another key before that key is durable.
    ClearBeforeCell,
    /// The journal says so before the content is durable.
    FrameBeforeData,
    /// The journal says so of blocks whose writes have not ended.
    NameUnended,
    /// While a purge runs, the log of keys goes to one half alone.
    OneHalf,
    /// A live block is put under a fresh key where it lies, without a copy elsewhere.
    FreshUnderLive,
    /// The fresh key of a live block is in use before all of its content lies under it.
    ActiveAtOnce,
    /// The log of keys does not say that the fresh key of a live block is in use.
    NeverActive,
    /// Content that is to get a fresh key is staged in clear.
    PlainStaging,
    /// A slot of the journal gets the fresh key of the content instead of that.
    CellInJournal,
    /// A nonce of the log of keys serves twice.
    RepeatNonce,
    /// A purge that a busy root holds up counts as done before the root has its key.
    TurnUnwritten,
    /// A purge that a busy root holds up after the root has its key begins that again, under another key.
    TurnTwice,
    /// A start goes on with a log of keys that is shorter than the journal says.
    ShortLog,
    /// What a write over dead bytes replaces counts as destroyed, wherever the medium keeps it.
    ForgetOlder,
    /// A start takes suspicious bytes for what they were, although a crash may have left them written over.
    TrustSuspicious,
    /// Bytes are written while their older versions are destroyed.
    WriteDuringErase,
}

/// The groups, in the order in which the mutants are declared.
impl Mutant {
    /// The mutants that need neither a watcher, nor versions, nor damage.
    pub const ALL: [Self; 25] = Self::group(Self::ForgetRevocation);

    /// The mutants that show below a watcher only.
    pub const WATCHED: [Self; 3] = Self::group(Self::PassBeforeSpace);

    /// The mutants that show where versions are kept only.
    pub const OF_VERSIONS: [Self; 28] = Self::group(Self::StubOverStub);

    /// The mutant that shows only if a set is under way when the journal's half is full, and again at a start: a test of the journal
    /// (`owed/journal/tests.rs`) catches it.
    pub const OF_SNAPSHOTS: [Self; 1] = Self::group(Self::LosePart);

    /// The mutant that shows only if a job comes between a death and the next frame, and the power is cut before that frame: once in more
    /// histories than can be played. A test of the store (`store/versions/tests.rs`) catches it.
    pub const OF_JOBS: [Self; 1] = Self::group(Self::KillBeforeOwed);

    /// The mutants that show below a watcher that knows plain content only: `volume/tests/classes.rs` catches them.
    pub const OF_CLASSES: [Self; 2] = Self::group(Self::ForgetSensitive);

    /// The mutants that show where bytes on the media are damaged: tests of starts catch them.
    pub const OF_DAMAGE: [Self; 2] = Self::group(Self::BelieveOldHead);

    /// The mutants that show where a medium will not erase some places only.
    pub const OF_REMAINS: [Self; 2] = Self::group(Self::ForgetRemains);

    /// The mutants that show where content dies with its keys only.
    pub const OF_SEALED: [Self; 18] = Self::group(Self::KeepPageCell);

    /// The mutant that shows where the log of keys is damaged: a test of the store catches it.
    pub const OF_KEY_LOG: [Self; 1] = Self::group(Self::ShortLog);

    /// The mutants that show where only the medium itself destroys what was written.
    pub const OF_ERASING: [Self; 3] = Self::group(Self::ForgetOlder);

    /// The `N` mutants from `first` on.
    const fn group<const N: usize>(first: Self) -> [Self; N] {
        let (_, from_first) = Self::EVERY.split_at(first as usize);
        *from_first.first_chunk().expect("a group ends before the mutants do")
    }
}

const _: () = {
    let groups = [
        (Mutant::ALL[0], Mutant::ALL.len()),
        (Mutant::WATCHED[0], Mutant::WATCHED.len()),
        (Mutant::OF_VERSIONS[0], Mutant::OF_VERSIONS.len()),
        (Mutant::OF_SNAPSHOTS[0], Mutant::OF_SNAPSHOTS.len()),
        (Mutant::OF_JOBS[0], Mutant::OF_JOBS.len()),
        (Mutant::OF_CLASSES[0], Mutant::OF_CLASSES.len()),
        (Mutant::OF_DAMAGE[0], Mutant::OF_DAMAGE.len()),
        (Mutant::OF_REMAINS[0], Mutant::OF_REMAINS.len()),
        (Mutant::OF_SEALED[0], Mutant::OF_SEALED.len()),
        (Mutant::OF_KEY_LOG[0], Mutant::OF_KEY_LOG.len()),
        (Mutant::OF_ERASING[0], Mutant::OF_ERASING.len()),
    ];
    let (mut at, mut n) = (0, 0);
    while n < groups.len() {
        assert!(groups[n].0 as usize == at, "a group begins where the one before ends");
        (at, n) = (at + groups[n].1, n + 1);
    }
    assert!(at == Mutant::EVERY.len(), "each mutant is in a group");
};
