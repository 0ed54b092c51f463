//! Deliberate defects, which the simulator must find. A release build cannot switch them
//! on: the compiler removes the checks.

quietus_core::mutants! {
    /// References are noted for a sanitization only after its second consistency point.
    NotifyAfterCp1,
    /// Snapshots committed between the two consistency points are not walked.
    SkipDifference,
    /// Chunks that a running put refers to are not live.
    PutIsNoRoot,
    /// Sources are condemned before their copies are durable.
    CondemnBeforeSync,
    /// The index still finds chunks in condemned containers.
    KeepCondemned,
    /// A slot takes a container before it is destroyed.
    ReuseUndestroyed,
    /// A forget after the first consistency point gets a receipt.
    ReceiptTooEarly,
    /// A snapshot is committed before its containers are durable.
    CommitBeforeSync,
    /// Slots count as destroyed before the last sync.
    FreeBeforeSync,
    /// Slots that a crash left open count as free.
    FreeOpen,
    /// The index is not merged again after copying.
    KeepOldIndex,
    /// A put that refers to a folder or recipe does not refer to what that names.
    ReferShallow,
    /// Half of the directories are left out when a start rebuilds the index.
    ForgetRecent,
    /// A put that a crash has cut short owes nothing.
    ForgivePut,
    /// A held snapshot can be forgotten.
    ForgetHeld,
    /// Paths are taken out of a snapshot without an obligation.
    ForgivePaths,
    /// Paths come back that were taken out of a snapshot since it was read.
    ReplaceChanged,
    /// Chunks that a put has stored and does not commit are not owed.
    ForgiveReplaced,
    /// A container whose directory cannot be read is condemned, whatever the index places there.
    CondemnDamaged,
    /// A forget has its receipt although a damaged container was left.
    MeetDespiteDamage,
    /// Of the two copies of a page of the table of slots any whole one counts, however old.
    TakeOlder,
}
