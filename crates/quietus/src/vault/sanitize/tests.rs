//! Sanitizations that end early.

use super::*;
use crate::vault::{Codec, CreateVault, VaultDir, create};
use quietus_vault::VaultError;
use std::panic::{AssertUnwindSafe, catch_unwind};

const HOW: Sanitize = Sanitize { is_read_only: false, is_dry_run: false, share: 100 };

/// Opens a new, small vault and does something with it.
fn with_vault(act: impl FnOnce(&mut Session<'_>)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vault");
    let options = CreateVault {
        medium: None,
        size: Some(4 << 20),
        container: Some(128 << 10),
        policy: "clear".into(),
        compress: Codec::Lz4,
    };
    create(&path, &options, &mut |_, _| true).unwrap();
    let dir = VaultDir::open(&path).unwrap();
    act(&mut Session::open(&dir).unwrap());
}

#[test]
fn a_share_leaves_the_rest_of_the_time_to_others() {
    let step = Duration::from_millis(60);
    assert_eq!(pause(step, 100), Duration::ZERO);
    assert_eq!(pause(step, 50), step);
    assert_eq!(pause(step, 25), 3 * step);
    assert_eq!(pause(step, 0), PAUSE_MAX);
}

#[test]
fn a_sanitization_that_a_running_put_keeps_from_beginning_leaves_the_way_free_for_the_next() {
    with_vault(|session| {
        let put = session.vault.begin_put().unwrap();
        let refused = sanitize(session, Sanitize { is_read_only: true, ..HOW }, &mut |_, _, _| true);
        assert!(matches!(refused, Err(Error::Vault(VaultError::Puts(1)))), "{refused:?}");
        session.vault.drop_put(put).unwrap();
        sanitize(session, HOW, &mut |_, _, _| true).unwrap();
    });
}

#[test]
fn a_sanitization_whose_caller_panics_leaves_the_way_free_for_the_next() {
    with_vault(|session| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _ = sanitize(session, Sanitize { is_read_only: true, ..HOW }, &mut |_, _, _| panic!("a bar"));
        }));
        assert!(panicked.is_err() && !session.vault.is_sanitizing());
        session.vault.begin_put().unwrap();
        sanitize(session, HOW, &mut |_, _, _| true).unwrap();
    });
}

#[test]
fn a_sanitization_that_is_interrupted_leaves_the_way_free_for_the_next() {
    with_vault(|session| {
        let interrupted = sanitize(session, HOW, &mut |_, _, _| false);
        assert!(matches!(interrupted, Err(Error::Interrupted)));
        sanitize(session, HOW, &mut |_, _, _| true).unwrap();
    });
}
