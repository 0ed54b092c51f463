//! Deliberate defects of the rules. The simulator is only worth its name if it
//! finds them; without the feature `mutants` none can be switched on and the
//! compiler removes the question.

/// One deliberate defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A map proves a death however late the block was written.
    NoWindow,
    /// Below a cache a map proves a death after the reorder window.
    CacheHasWindow,
    /// Below a cache an unmount counts as one in order.
    CacheUnmountsInOrder,
    /// What is sent again counts as sent since.
    EchoBelieved,
    /// Pointers that name a block do not save it.
    NoSecondWitness,
    /// A write that nobody owns leaves no mark.
    NoOrphanMark,
    /// A pointer that is lost means nothing.
    UnlinkIgnored,
    /// Pointers of another generation are the same pointers.
    RenewedIgnored,
    /// A part of a map says something of the blocks that it does not show.
    WholeMapIsNews,
    /// A block that is allocated again stays condemned.
    RevokeIgnored,
    /// A block that is written stays condemned.
    WriteRevivesNothing,
    /// A block of pointers that is overwritten keeps its names.
    PointersNotDiffed,
    /// A death is handed out before its evidence is durable.
    VerdictBeforeProven,
    /// A deleted inode owns what it points to.
    DeletedInodeOwns,
    /// Maps that are read again prove something against what was written since.
    RereadWithoutExemption,
    /// A sleeping guest is taken for one that has nothing to write.
    TimeAloneProves,
    /// What a pointer in a doubtful block names has an owner.
    GuessesAreCertain,
    /// A block of pointers keeps its level as long as anybody names it as one.
    LevelOutlivesOwner,
    /// Pointers in a map are not compared.
    MapHoldsNoPointers,
    /// Names hold up deaths that they need not.
    NoMapIsFinal,
    /// A journal elsewhere: a map counts though a recovery may have written it.
    ReplayBelieved,
    /// A journal elsewhere: who reads the superblock of a file system in use does
    /// not take it over.
    ReadsIgnored,
    /// A journal elsewhere: what a map shows free is dead at once.
    ReplayAtOnce,
    /// A journal elsewhere: time settles that a map was not too old.
    LateMapSettles,
    /// Rule J: a block that was written is dead after one commit that shows it
    /// free.
    OneCommitProves,
    /// Rule J: a transaction counts before all its blocks have arrived.
    CommitBeforeItsBlocks,
    /// Rule J: checksums in the journal are not verified.
    ChecksumIgnored,
    /// Rule J: what is older than the next transaction in the journal is dead
    /// before the journal's superblock says so.
    ResidueBeforeSuperblock,
    /// Rule J: maps that were committed count on after the journal was lost.
    LossIgnored,
    /// Rule J: what may be dead is forgotten when a block is allocated again.
    CandidatesForgotten,
    /// Rule J: a transaction that is received by a read counts as if it had just
    /// arrived.
    LateIsInTime,
    /// Rule J: a block of the log that is read counts as the one that was written last.
    OvertakenIsNewest,
    /// Rule J: the log's escapes are left in the maps.
    EscapeKept,
    /// Rule J: a write does not put a death off.
    WriteOutsideWindow,
    /// Rule J: a residue's copy of a map is destroyed before it was read.
    WantedIsResidue,
    /// Rule J: what lies from the tail on is residue, as long as it was received.
    ResidueBeyondTail,
    /// Rule J: numbers that come again count as new transactions.
    RenumberingIgnored,
}

impl Mutant {
    /// Those of rule E.
    pub const ALL: [Self; 18] = [
        Self::NoWindow,
        Self::EchoBelieved,
        Self::NoSecondWitness,
        Self::NoOrphanMark,
        Self::UnlinkIgnored,
        Self::RenewedIgnored,
        Self::WholeMapIsNews,
        Self::RevokeIgnored,
        Self::WriteRevivesNothing,
        Self::PointersNotDiffed,
        Self::VerdictBeforeProven,
        Self::DeletedInodeOwns,
        Self::RereadWithoutExemption,
        Self::TimeAloneProves,
        Self::GuessesAreCertain,
        Self::LevelOutlivesOwner,
        Self::MapHoldsNoPointers,
        Self::NoMapIsFinal,
    ];

    /// Those of rule E below a cache.
    pub const CACHED: [Self; 2] = [Self::CacheHasWindow, Self::CacheUnmountsInOrder];

    /// Those of rule E below a journal elsewhere, and of rule J on the journal's device.
    pub const JOURNAL_ELSEWHERE: [Self; 11] = [
        Self::ReplayBelieved,
        Self::ReadsIgnored,
        Self::ReplayAtOnce,
        Self::LateMapSettles,
        Self::WriteRevivesNothing,
        Self::RereadWithoutExemption,
        Self::CommitBeforeItsBlocks,
        Self::ResidueBeforeSuperblock,
        Self::ResidueBeyondTail,
        Self::OvertakenIsNewest,
        Self::VerdictBeforeProven,
    ];

    /// Those of rule J, which shares some with rule E.
    pub const RULE_J: [Self; 17] = [
        Self::OneCommitProves,
        Self::CommitBeforeItsBlocks,
        Self::ChecksumIgnored,
        Self::ResidueBeforeSuperblock,
        Self::LossIgnored,
        Self::CandidatesForgotten,
        Self::LateIsInTime,
        Self::OvertakenIsNewest,
        Self::EscapeKept,
        Self::WriteOutsideWindow,
        Self::WantedIsResidue,
        Self::ResidueBeyondTail,
        Self::RenumberingIgnored,
        Self::RevokeIgnored,
        Self::WriteRevivesNothing,
        Self::VerdictBeforeProven,
        Self::RereadWithoutExemption,
    ];
}

#[cfg(feature = "mutants")]
mod switch {
    use super::Mutant;
    use std::cell::Cell;

    thread_local!(static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) });

    /// Switches `mutant` on for this thread, and any other off.
    pub fn activate(mutant: Option<Mutant>) {
        ACTIVE.set(mutant);
    }

    /// Whether `mutant` is on.
    #[must_use]
    pub fn is(mutant: Mutant) -> bool {
        ACTIVE.get() == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use switch::{activate, is};

/// Whether `mutant` is on: never, in a product.
#[cfg(not(feature = "mutants"))]
#[must_use]
pub const fn is(_: Mutant) -> bool {
    false
}
