//! Deliberate defects of the rules. The simulator must find them. A release build
//! cannot switch them on: the compiler removes the checks.

quietus_core::mutants! {
    /// A map proves a death no matter how recently the block was written.
    NoWindow,
    /// Below a cache, a map proves a death after the reorder window.
    CacheHasWindow,
    /// Below a cache, an unmount counts as one in order.
    CacheUnmountsInOrder,
    /// A repeated write counts as a new one.
    EchoTrusted,
    /// Pointers that name a block do not keep it from dying.
    NoSecondWitness,
    /// A write to a block without an owner leaves no mark.
    NoOrphanMark,
    /// A lost pointer means nothing.
    UnlinkIgnored,
    /// Pointers of another generation are the same pointers.
    RenewedIgnored,
    /// A part of a map also speaks for blocks that it does not show.
    WholeMapIsNews,
    /// A block that is allocated again stays condemned.
    RevokeIgnored,
    /// A written block stays condemned.
    WriteRevivesNothing,
    /// An overwritten block of pointers keeps its names.
    PointersNotDiffed,
    /// A change that is refused counts as carried out.
    RefusalIgnored,
    /// A death is handed out before its evidence is durable.
    VerdictBeforeProven,
    /// A deleted inode owns the blocks that it points to.
    DeletedInodeOwns,
    /// Maps that are read again prove something against blocks written since.
    RereadWithoutExemption,
    /// A sleeping guest counts as one that has nothing to write.
    TimeAloneProves,
    /// A pointer in a block of uncertain type counts as a certain owner.
    GuessesAreCertain,
    /// A block of pointers keeps its level as long as any pointer names it as one.
    LevelOutlivesOwner,
    /// Pointers in a map are not compared.
    MapHoldsNoPointers,
    /// Names delay deaths that need no second witness.
    NoMapIsFinal,
    /// External journal: a map counts though a recovery may have written it.
    ReplayTrusted,
    /// External journal: a read of the superblock of a file system in use takes nothing over.
    ReadsIgnored,
    /// External journal: a block that a map shows free is dead at once.
    ReplayAtOnce,
    /// External journal: time settles that a map was not too old.
    LateMapSettles,
    /// A block that is named as unwritten stays without content though it is written.
    UnwrittenStaysEmpty,
    /// A block that is named as unwritten dies though another owner names it too.
    UnwrittenIsEnough,
    /// A block dies below an unwritten extent that was there before anybody watched.
    UnwrittenAtFirstSight,
    /// What lies below an unwritten extent is never called dead.
    UnwrittenLives,
    /// A file system rests though its last names may be on their way.
    RestsAtOnce,
    /// Marks: the flag of an inode is not read.
    FlagIgnored,
    /// Marks: a marked folder marks nothing but itself.
    FolderNotFollowed,
    /// Marks: content of an unknown owner is plain.
    UnsettledIsPlain,
    /// Marks: content is plain once no marked file names it any more.
    SensitiveTakenBack,
    /// Marks: content is plain as soon as an unmarked file names it.
    NameSettles,
    /// Marks: a crash of the guest does not matter.
    CrashSettles,
    /// Marks: a whole overwrite ends what is sensitive, though the policy has more passes than one.
    OverwriteDestroys,
    /// Marks: plain content that a map shows free is condemned like any other.
    PlainIsCondemned,
    /// Marks: copies of inodes in the journal are not looked at.
    JournalFlagUnseen,
    /// Marks: blocks are read in place though the journal has newer copies.
    PlaceIsNewest,
    /// Marks: content becomes plain by a commit that shows its block free.
    FreeSettles,
    /// Marks: content becomes plain by a later commit than the next one.
    OlderContentSettles,
    /// Marks: content becomes plain by the second commit, even if it was written before the first one began.
    EarlierIsEarly,
    /// Marks: a copy that comes to its place after its block was freed belongs to no file.
    LateCopyForgotten,
    /// Marks: content stays plain though transactions were missed.
    LossKeepsPlain,
    /// Rule J: a written block is dead after one commit that shows it free.
    OneCommitProves,
    /// Rule J: a transaction counts before all its blocks have arrived.
    CommitBeforeItsBlocks,
    /// Rule J: checksums in the journal are not verified.
    ChecksumIgnored,
    /// Rule J: blocks of the journal before the next transaction are dead before the journal's
    /// superblock says so.
    ResidueBeforeSuperblock,
    /// Rule J: committed maps still count after the journal was lost.
    LossIgnored,
    /// Rule J: a header of a later transaction does not say how far the guest is.
    LossForgetsNumber,
    /// Rule J: a reallocation forgets that the present content may be dead.
    CandidatesForgotten,
    /// Rule J: a transaction that a read completes counts as if it had just arrived.
    LateIsInTime,
    /// Rule J: a block of the log that is read counts as the last one written.
    OvertakenIsNewest,
    /// Rule J: the log's escapes stay in the maps.
    EscapeKept,
    /// Rule J: a write does not delay a death.
    WriteOutsideWindow,
    /// Rule J: the copy of a map in the residue is destroyed before it is read.
    WantedIsResidue,
    /// Rule J: received blocks from the tail on are residue.
    ResidueBeyondTail,
    /// Rule J: reused numbers count as new transactions.
    RenumberingIgnored,
    /// Rule J: a block that is named as unwritten stays without content though it is written.
    UnwrittenStaysEmptyJ,
    /// Rule J: a block dies below an unwritten extent that was there before anybody watched.
    UnwrittenAtFirstSightJ,
    /// Rule J: a block that is named as unwritten dies before its owner's write can be committed.
    UnwrittenAtOnceJ,
}

impl Mutant {
    /// The mutants of rule E.
    pub const ALL: [Self; 18] = [
        Self::NoWindow,
        Self::EchoTrusted,
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

    /// The mutants of both rules that every guest finds above a whole volume.
    pub const VOLUME: [Self; 3] =
        [Self::VerdictBeforeProven, Self::WriteRevivesNothing, Self::RereadWithoutExemption];

    /// The mutants of both rules that show above a whole volume only, and not below every guest.
    pub const ANY_PAIR: [Self; 1] = [Self::RefusalIgnored];

    /// The mutants of marks.
    pub const MARKS: [Self; 6] = [
        Self::FlagIgnored,
        Self::FolderNotFollowed,
        Self::UnsettledIsPlain,
        Self::SensitiveTakenBack,
        Self::NameSettles,
        Self::CrashSettles,
    ];

    /// The mutants of the promises for a marked block, which the enumeration of its life finds
    /// (`docs/decisions/0028-life-of-a-marked-block.md`).
    pub const MARKED_BLOCK: [Self; 8] = [
        Self::SensitiveTakenBack,
        Self::OverwriteDestroys,
        Self::VerdictBeforeProven,
        Self::UnsettledIsPlain,
        Self::NameSettles,
        Self::FlagIgnored,
        Self::CrashSettles,
        Self::PlainIsCondemned,
    ];

    /// The mutants of marks below a journal: `rule_j/tests/marks.rs` catches them.
    pub const JOURNALED_MARKS: [Self; 8] = [
        Self::JournalFlagUnseen,
        Self::LossKeepsPlain,
        Self::PlaceIsNewest,
        Self::FreeSettles,
        Self::OlderContentSettles,
        Self::EarlierIsEarly,
        Self::LateCopyForgotten,
        Self::CrashSettles,
    ];

    /// The mutants of rule E below a cache.
    pub const CACHED: [Self; 2] = [Self::CacheHasWindow, Self::CacheUnmountsInOrder];

    /// The mutants of rule E above an external journal, and of rule J on the journal's device.
    pub const EXTERNAL_JOURNAL: [Self; 11] = [
        Self::ReplayTrusted,
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

    /// The mutants of rule J, some of which rule E shares.
    pub const RULE_J: [Self; 18] = [
        Self::OneCommitProves,
        Self::CommitBeforeItsBlocks,
        Self::ChecksumIgnored,
        Self::ResidueBeforeSuperblock,
        Self::LossIgnored,
        Self::LossForgetsNumber,
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

    /// The mutants of unwritten extents below no journal.
    pub const UNWRITTEN: [Self; 5] = [
        Self::UnwrittenStaysEmpty,
        Self::UnwrittenIsEnough,
        Self::UnwrittenAtFirstSight,
        Self::UnwrittenLives,
        Self::RestsAtOnce,
    ];

    /// The mutants of unwritten extents below a journal.
    pub const UNWRITTEN_J: [Self; 4] = [
        Self::UnwrittenStaysEmptyJ,
        Self::UnwrittenAtFirstSightJ,
        Self::UnwrittenAtOnceJ,
        Self::UnwrittenLives,
    ];
}
