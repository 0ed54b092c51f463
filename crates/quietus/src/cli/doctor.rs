//! `quietus doctor`: what a host, its media and file systems can promise, and which store gets more.

use super::args::DoctorArgs;
use super::report::Report;
use super::{Failure, good};
use crate::disk::StoreKind;
use crate::host::{self, Guarantees, Level};
use crate::output::{Doctor, Promise};
use std::path::{Path, PathBuf};

pub(super) fn doctor(args: &DoctorArgs, out: &Report) -> Result<(), Failure> {
    let here = examined(&args.path)?;
    let root = args.root.as_deref().map(examined).transpose()?;
    let diagnosis = diagnose(&here, root.as_ref());
    out.doctor(&diagnosis);
    good(diagnosis.promises.iter().any(|it| it.level == Level::Clear))
}

/// The guarantees at `path`, or, where nothing is yet, in the directory that would have it.
fn examined(path: &Path) -> Result<Guarantees, Failure> {
    let there: PathBuf = path.ancestors().find(|it| it.exists()).map_or_else(|| ".".into(), Into::into);
    let there = if there.as_os_str().is_empty() { ".".into() } else { there };
    host::inspect(&there)
        .map_err(|error| Failure::Error(format!("cannot examine {}: {error}", there.display())))
}

/// What each store promises at `here`, with its root at `root`.
fn diagnose(here: &Guarantees, root: Option<&Guarantees>) -> Doctor {
    let promise = |store, level, how: &str| Promise { store, level, how: how.into() };
    let beside = root.map_or(here.level, |root| root.level);
    let how = match root {
        Some(_) => "deletion destroys keys in the root, at the path of --root; all else may lie anywhere",
        None => "deletion destroys keys in the root, here; with --root PATH on a medium that overwrites, all else may stay",
    };
    Doctor {
        level: here.level,
        promises: vec![
            promise(StoreKind::InPlace, here.level, "deletion overwrites the content in its place"),
            promise(StoreKind::Overlay, here.level, "deletion overwrites the content in the overlay's file"),
            promise(StoreKind::Versions, beside, how),
        ],
        findings: here.findings.clone(),
        root: root.map(|root| root.findings.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Facts;

    fn of(level: Level) -> Guarantees {
        Guarantees { level, findings: Vec::new(), facts: Facts::default() }
    }

    #[test]
    fn a_root_that_overwrites_makes_versions_the_store_that_promises_more() {
        let levels = |it: &Doctor| it.promises.iter().map(|it| it.level).collect::<Vec<_>>();
        let (ssd, disk) = (of(Level::NotAssured), of(Level::Clear));
        assert_eq!(levels(&diagnose(&ssd, None)), [Level::NotAssured; 3]);
        let with_root = diagnose(&ssd, Some(&disk));
        assert_eq!(levels(&with_root), [Level::NotAssured, Level::NotAssured, Level::Clear]);
    }
}
