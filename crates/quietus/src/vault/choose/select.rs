//! Which snapshots are meant: by number, or by name.

use crate::base::naming;
use crate::base::rfc3339::now_ms;
use crate::vault::{Error, Filter, Keep, Label};
use quietus_vault::client::Access;
use quietus_vault::tree::{Snapshot, Totals};
use quietus_vault::{Reference, SnapshotId};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A snapshot, as it is listed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Line {
    /// Its number.
    pub snapshot: u64,
    /// Name and host, which its series shares, and tags.
    #[serde(flatten)]
    pub label: Label,
    /// When it was made; `null` if that is not known.
    #[serde(rename = "created", with = "crate::base::rfc3339::or_unknown")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub created_ms: u64,
    /// Entries, folders apart.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// The names of holds that keep it.
    pub holds: Vec<String>,
    /// Why nothing is known of it but its number: what it begins with was damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// All snapshots, in the order of their numbers.
pub fn snapshots(vault: &mut dyn Access) -> Result<Vec<Line>, Error> {
    let (all, holds) = (vault.roots()?, vault.holds()?);
    all.into_iter().filter_map(|(snapshot, root)| line(vault, (snapshot, root), &holds).transpose()).collect()
}

/// A snapshot's line; None if another command has forgotten it meanwhile.
fn line(
    vault: &mut dyn Access,
    (snapshot, root): (SnapshotId, Reference),
    holds: &[(String, SnapshotId)],
) -> Result<Option<Line>, Error> {
    let read = vault.get(&root).and_then(|bytes| Ok(Snapshot::from_bytes(&bytes)?));
    let (found, fault) = match read {
        Err(error) if error.is_of_media() => return Err(error.into()),
        Err(error) => match vault.root(snapshot) {
            Err(error) if error.is_of_media() => return Err(error.into()),
            Err(_) => return Ok(None),
            // Paths were forgotten meanwhile.
            Ok(now) if now != root => return line(vault, (snapshot, now), holds),
            Ok(_) => (unknown(), Some(error.to_string())),
        },
        Ok(found) => (found, None),
    };
    let Totals { files, folders, bytes } = found.totals;
    let holds = holds.iter().filter(|(_, held)| *held == snapshot).map(|(name, _)| name.clone()).collect();
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let tags = found.tags.iter().map(text).collect();
    Ok(Some(Line {
        snapshot: snapshot.0,
        label: Label { name: text(&found.name), host: text(&found.host), tags },
        created_ms: found.created_ms,
        files,
        folders,
        bytes,
        holds,
        fault,
    }))
}

/// A snapshot that cannot be read.
fn unknown() -> Snapshot {
    Snapshot { name: b"?".to_vec(), host: b"?".to_vec(), ..Snapshot::default() }
}

/// The snapshot that `text` means: one of that number, or the newest of that name.
///
/// # Errors
/// [`Error::Invalid`] if no snapshot is meant.
pub fn select(vault: &mut dyn Access, text: &str) -> Result<SnapshotId, Error> {
    if let Ok(number) = text.parse() {
        vault.root(SnapshotId(number))?;
        return Ok(SnapshotId(number));
    }
    let all = snapshots(vault)?;
    let named = all.iter().rev().find(|line| line.label.name == text);
    let unknown = || {
        let meant = naming::meant(text, all.iter().map(|line| line.label.name.as_str()));
        let remedy = naming::meant_or(&meant, "`quietus vault list` names all");
        Error::Invalid(format!("unknown snapshot {text:?}; {remedy}"))
    };
    named.map(|line| SnapshotId(line.snapshot)).ok_or_else(unknown)
}

/// The snapshot that `text` means, where a wrong guess would cost content: a name that several snapshots have is refused.
///
/// # Errors
/// [`Error::Invalid`] if no snapshot is meant, or more than one.
pub fn select_one(vault: &mut dyn Access, text: &str) -> Result<SnapshotId, Error> {
    let found = select(vault, text)?;
    if text.parse::<u64>().is_err() {
        let all = snapshots(vault)?.into_iter().filter(|line| line.label.name == text);
        let all: Vec<String> = all.map(|line| line.snapshot.to_string()).collect();
        if all.len() > 1 {
            let numbers = all.join(", ");
            return Err(Error::Invalid(format!(
                "snapshots {numbers} have the name {text:?}; give the numbers, or a rule such as --keep-last"
            )));
        }
    }
    Ok(found)
}

/// The snapshots that no rule keeps, of those that the filter selects: each series by itself, which has one name and one host.
///
/// # Errors
/// [`Error::Invalid`] if nothing would be kept, or if a clock was wrong: then days mean nothing.
pub fn outdated(all: &[Line], keep: Keep, filter: &Filter) -> Result<Vec<SnapshotId>, Error> {
    if keep == Keep::default() {
        return Err(Error::Invalid(
            "forget: the rules keep nothing; keep at least one, or name the snapshots".into(),
        ));
    }
    let mut series: BTreeMap<(&str, &str), Vec<(SnapshotId, u64)>> = BTreeMap::new();
    for line in all.iter().filter(|line| line.fault.is_none() && filter.has(&line.label)) {
        let of = (line.label.name.as_str(), line.label.host.as_str());
        series.entry(of).or_default().push((SnapshotId(line.snapshot), line.created_ms));
    }
    let now = now_ms();
    if let Some(line) = all.iter().find(|line| line.created_ms > now) {
        return Err(Error::Invalid(format!(
            "snapshot {} was made in the future, by this host's clock; correct the clock, or forget snapshots by number",
            line.snapshot
        )));
    }
    let gone = series.values().flat_map(|series| keep.gone(series));
    let held = |it: &SnapshotId| all.iter().any(|line| line.snapshot == it.0 && !line.holds.is_empty());
    Ok(gone.filter(|it| !held(it)).collect())
}
