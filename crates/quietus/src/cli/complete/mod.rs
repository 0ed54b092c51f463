//! Completion, by the program itself: of commands and options, and of what only this host knows: policies, epochs of a disk, snapshots of
//! a vault.
//!
//! Invariants:
//! 1. Nothing is opened to be written, started or asked of a person: a disk answers through its server, and without one only its names of
//!    epochs are read.
//! 2. No person waits longer than [`PATIENCE`] for candidates.

use crate::disk::epochs::names_at;
use crate::front::control::{self, Call, Versions};
use crate::host::paths::Subject;
use crate::vault;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::Shells;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// Variable that says which shell asks for candidates.
const VARIABLE: &str = "COMPLETE";
const NAME: &str = "quietus";
/// Longest time that a person who has pressed Tab waits for what a disk or a vault has to say.
const PATIENCE: Duration = Duration::from_secs(1);

/// Policies by name.
const POLICIES: [(&str, &str); 6] = [
    ("clear", "zeros"),
    ("purge-2", "random, zeros"),
    ("4", "random, ones, random, zeros"),
    ("6", "random, ones, zeros, random, ones, zeros"),
    ("dod-3", "zeros, ones, random"),
    ("gutmann-35", "the 35 passes of Gutmann's paper"),
];

/// Answers a shell that asks for candidates, and ends the process then.
pub(super) fn answer(command: fn() -> clap::Command) {
    clap_complete::CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Prints what a shell has to run once.
pub(super) fn write_registration(shell: clap_complete::Shell, out: &mut dyn Write) -> io::Result<()> {
    // Bash breaks DISK@EPOCH at the @, and clap's script does not put it together again.
    if shell == clap_complete::Shell::Bash {
        return out.write_all(include_bytes!("quietus.bash"));
    }
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string()).expect("each shell has a completer");
    completer.write_registration(VARIABLE, NAME, NAME, NAME, out)?;
    // Zsh runs the file as the function `_quietus` when it is needed first, and that has to answer, too.
    match shell {
        clap_complete::Shell::Zsh => {
            writeln!(out, "if [[ $funcstack[1] == _quietus ]]; then _clap_dynamic_completer_quietus; fi")
        }
        _ => Ok(()),
    }
}

/// Policies that begin with `current`.
pub(super) fn policies(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fitting = POLICIES.iter().filter(|(name, _)| name.starts_with(&*current));
    fitting.map(|(name, help)| CompletionCandidate::new(*name).help(Some((*help).into()))).collect()
}

/// Places for a root that begin with `current`: paths, and the one word that names no path.
pub(super) fn roots(current: &OsStr) -> Vec<CompletionCandidate> {
    let memory = CompletionCandidate::new("memory").help(Some("lost when the server stops".into()));
    let fits = "memory".starts_with(&*current.to_string_lossy());
    let mut found = PathCompleter::any().complete(current);
    found.extend(fits.then_some(memory));
    found
}

/// The epochs of the disk that stands before the `@` of `current`, or before it directories.
pub(super) fn epochs(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy().into_owned();
    let Some((disk, at)) = text.rsplit_once('@') else { return PathCompleter::dir().complete(current) };
    // Of a range, the end that comes last.
    let (range, begun) = at.rfind("..").map_or(("", at), |dots| at.split_at(dots + "..".len()));
    let path = PathBuf::from(disk);
    let all = soon(move || epochs_of(&path));
    let fitting = all.into_iter().filter(|it| it.starts_with(begun));
    fitting.map(|it| CompletionCandidate::new(format!("{disk}@{range}{it}"))).collect()
}

/// The names of the kept epochs of a disk, and their numbers if it is served.
fn epochs_of(disk: &Path) -> Vec<String> {
    let call = Call::Versions { from: 0, unique: false };
    let Some(Versions { versions, .. }) = control::ask_served(disk, &call) else { return names_at(disk) };
    let names = versions.iter().flat_map(|it| it.name.iter().flat_map(|names| names.split(", ")));
    names.map(String::from).chain(versions.iter().map(|it| it.epoch.to_string())).collect()
}

/// The snapshots of the vault that the line names, by name and number.
pub(super) fn snapshots(current: &OsStr) -> Vec<CompletionCandidate> {
    let begun = current.to_string_lossy();
    let is_vault = |path: &PathBuf| Subject::Vault.is_at(path);
    // Behind `vault` and its command: a vault may be called `vault`, too.
    let words = std::env::args_os().skip_while(|word| word != "vault").skip(2);
    let Some(vault) = words.map(PathBuf::from).find(is_vault) else { return Vec::new() };
    let lines = soon(move || vault::peek(&vault).unwrap_or_default());
    // A shell would take what is no word otherwise.
    let is_word = |name: &String| name.chars().all(|it| it.is_alphanumeric() || "-_.,:+".contains(it));
    let mut all: Vec<String> = lines.iter().map(|line| line.label.name.clone()).filter(is_word).collect();
    all.sort();
    all.dedup();
    all.extend(lines.iter().map(|line| line.snapshot.to_string()));
    all.into_iter().filter(|it| it.starts_with(&*begun)).map(CompletionCandidate::new).collect()
}

/// The result of `find`, or nothing after [`PATIENCE`]; its thread runs on until the process ends.
fn soon<T: Send + 'static>(find: impl FnOnce() -> Vec<T> + Send + 'static) -> Vec<T> {
    let (send, found) = mpsc::channel();
    let spawned = std::thread::Builder::new().spawn(move || _ = send.send(find()));
    spawned.ok().and_then(|_| found.recv_timeout(PATIENCE).ok()).unwrap_or_default()
}
