//! Completion of values that only this host knows: policies, epochs of a disk, snapshots of a vault.

use crate::control::{self, Call, Versions};
use crate::vault::{self, Client};
use clap_complete::engine::CompletionCandidate;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Policies by name.
const POLICIES: [(&str, &str); 6] = [
    ("clear", "one pass of zeros"),
    ("purge-2", "two passes"),
    ("4", "four passes"),
    ("6", "six passes"),
    ("dod-3", "three passes, as DoD 5220.22-M has them"),
    ("gutmann-35", "35 passes, after Gutmann"),
];

/// Policies that begin with `current`.
pub(super) fn policies(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fitting = POLICIES.iter().filter(|(name, _)| name.starts_with(&*current));
    fitting.map(|(name, help)| CompletionCandidate::new(*name).help(Some((*help).into()))).collect()
}

/// The epochs of the disk that stands before the `@` of `current`, by number and name.
pub(super) fn epochs(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    let Some((disk, begun)) = text.rsplit_once('@') else { return Vec::new() };
    let call = Call::Versions { from: 0, unique: false };
    let Ok(answer) = control::ask(Path::new(disk), &call, None, &mut |_, _| true) else { return Vec::new() };
    let Ok(Versions { versions, .. }) = serde_json::from_value(answer) else { return Vec::new() };
    let names = versions.iter().flat_map(|it| it.name.iter().flat_map(|names| names.split(", ")));
    let numbers = versions.iter().map(|it| it.epoch.to_string());
    let all = names.map(String::from).chain(numbers);
    all.filter(|it| it.starts_with(begun)).map(|it| CompletionCandidate::new(format!("{disk}@{it}"))).collect()
}

/// The snapshots of the vault that the line names, by number and name.
pub(super) fn snapshots(current: &OsStr) -> Vec<CompletionCandidate> {
    let begun = current.to_string_lossy();
    let is_vault = |path: &PathBuf| path.join("vault.toml").is_file();
    let Some(vault) = std::env::args_os().map(PathBuf::from).find(is_vault) else { return Vec::new() };
    let list = |client: &mut Client| Ok::<_, vault::Error>(vault::snapshots(client)?);
    let Ok(lines) = vault::with_vault(&vault, list, |_| ()) else { return Vec::new() };
    let mut all: Vec<String> = lines.iter().map(|line| line.label.name.clone()).collect();
    all.sort();
    all.dedup();
    all.extend(lines.iter().map(|line| line.snapshot.to_string()));
    all.into_iter().filter(|it| it.starts_with(&*begun)).map(CompletionCandidate::new).collect()
}
