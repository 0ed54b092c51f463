//! Deliberate defects, which random histories must find. A release build cannot switch them
//! on: the compiler removes the checks.

quietus_core::mutants! {
    /// A deletion looks only for blocks that may hold what is not known.
    ForgetStale,
    /// A deletion leaves open blocks as they are.
    SkipOpen,
    /// Blocks are listed before all that is live in them is copied.
    ListBeforeCopy,
    /// A start uses listed blocks that look blank without erasing them.
    TrustBlank,
    /// A start leaves blocks that were open as they are.
    TrustOpen,
    /// A start does not copy what the last run holds.
    TrustWeak,
    /// A start does not copy the marks of the last run.
    TrustWeakMarks,
    /// A start counts trials that no session follows.
    CountTrials,
    /// A start counts runs in gaps.
    CountGaps,
    /// A start counts runs in listed blocks.
    CountListed,
    /// Marks are not carried on when their block goes.
    TrimDropped,
    /// Marks do not reach the chip.
    TrimVolatile,
    /// Units apart reach the chip before marks that are older.
    ApartBeforeMarks,
    /// A block in which a program failed is not erased any more.
    KeepFailing,
    /// A block that will not erase is marked bad as it is.
    BadSpared,
}
