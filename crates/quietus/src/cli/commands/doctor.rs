//! `quietus doctor`: what this host, the medium and the file system can promise, and which store gets more.

use crate::cli::args::DoctorArgs;
use crate::cli::output::{Doctor, Promise};
use crate::cli::report::Report;
use crate::cli::{Failure, good};
use crate::disk::StoreKind;
use crate::host::guarantees::{self, Guarantees, Level, Roots};
use crate::host::paths;
use std::path::Path;

/// How content dies on a disk in place, where the medium is a device: the directory lies elsewhere.
const ON_DEVICE: &str = "deletion overwrites content in place, if the journal, in the disk's directory, lies on an equally good medium";
const IN_PLACE: &str = "deletion overwrites content in place";
const OVERLAY: &str = "deletion overwrites content in the overlay's file; the base image is never changed";
const ROOT_HERE: &str = "deletion destroys a key in the root, which lies here; with --seal none or aes-xts, deletion overwrites content";
const ROOT_THERE: &str = "deletion destroys a key in the root, at --root; unless --seal is none or aes-xts, the rest may lie anywhere";
const KEYS_HERE: &str = "deletion destroys the key in the root, which lies here";
const KEYS_THERE: &str = "deletion destroys the key in the root, at --root; the rest may lie anywhere";
const ADVICE: &str = "with `--store sealed` or `versions` and `--root PATH`, only the root has to be overwritten: put the root on a medium that overwrites in place, such as a magnetic disk; the rest may stay here (`quietus doctor --root PATH` examines that medium)";
const ADVICE_ROOT: &str =
    "put the root on a medium that overwrites in place, such as a magnetic disk; the rest may stay here";

pub(in crate::cli) fn doctor(args: &DoctorArgs, out: &Report) -> Result<(), Failure> {
    let here = examined("PATH", &args.path)?;
    // A TPM, NOR flash or memory.
    let other = args.root.as_deref().and_then(guarantees::inspect_root);
    let for_sealed_only = other.is_some();
    let at_path = args.root.as_deref().filter(|_| !for_sealed_only);
    let root = at_path.map(|root| examined("--root", root)).transpose()?.or(other);
    let is_device = paths::Kind::of(&args.path).is_ok_and(|it| it == paths::Kind::BlockDevice);
    let mut diagnosis = diagnose(here, root, is_device);
    if for_sealed_only {
        diagnosis.promises.retain(|it| it.store != StoreKind::Versions);
        diagnosis.best.retain(|it| *it != StoreKind::Versions);
    }
    if diagnosis.most != Level::Clear {
        diagnosis.roots = guarantees::overwriting_mounts(&Roots::default());
        diagnosis.root_media = Some(guarantees::root_media(&Roots::default()));
    }
    out.doctor(&diagnosis);
    good(diagnosis.promises.iter().any(|it| it.level == Level::Clear))
}

/// The guarantees of the host for what is at `path`, or would be.
fn examined(option: &str, path: &Path) -> Result<Guarantees, Failure> {
    let place = paths::place_of(option, path)?;
    guarantees::inspect(place)
        .map_err(|error| Failure::Error(format!("{}: cannot examine it: {error}", place.display())))
}

/// What each store promises at `here`, with its root at `root`.
pub(in crate::cli) fn diagnose(here: Guarantees, root: Option<Guarantees>, is_device: bool) -> Doctor {
    let promise = |store, level, how: &str| Promise { store, level, how: how.into() };
    let root_level = root.as_ref().map_or(here.level, |root| root.level);
    let promises = vec![
        promise(StoreKind::InPlace, here.level, if is_device { ON_DEVICE } else { IN_PLACE }),
        promise(StoreKind::Overlay, here.level, OVERLAY),
        promise(StoreKind::Versions, root_level, if root.is_some() { ROOT_THERE } else { ROOT_HERE }),
        promise(StoreKind::Sealed, root_level, if root.is_some() { KEYS_THERE } else { KEYS_HERE }),
    ];
    let most = promises.iter().map(|it| it.level).min().unwrap_or(Level::NotReached);
    let best = promises.iter().filter(|it| it.level == most).map(|it| it.store).collect();
    let advice = match (most, &root) {
        (Level::Clear, _) => None,
        (_, None) => Some(ADVICE.into()),
        (_, Some(_)) => Some(ADVICE_ROOT.into()),
    };
    Doctor { most, best, promises, advice, roots: Vec::new(), root_media: None, here, root }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::guarantees::Facts;

    fn of(level: Level) -> Guarantees {
        Guarantees { level, findings: Vec::new(), facts: Facts::default() }
    }

    #[test]
    fn a_root_makes_the_stores_that_have_one_promise_more_or_less() {
        let all = [StoreKind::InPlace, StoreKind::Overlay, StoreKind::Versions, StoreKind::Sealed];
        for (here, root, best, advises_a_root) in [
            (Level::NotAssured, None, &all[..], true),
            (Level::NotAssured, Some(Level::Clear), &all[2..], false),
            (Level::Clear, Some(Level::NotReached), &all[..2], false),
        ] {
            let found = diagnose(of(here), root.map(of), false);
            let levels: Vec<_> = found.promises.iter().map(|it| it.level).collect();
            let advises = found.advice.is_some_and(|it| it.contains("--root PATH"));
            let of_root = root.unwrap_or(here);
            let expected = (vec![here, here, of_root, of_root], best, advises_a_root);
            assert_eq!((levels, &found.best[..], advises), expected, "{here:?}, {root:?}");
        }
    }

    #[test]
    fn a_device_is_not_all_of_a_disk() {
        let how = |is_device| diagnose(of(Level::Clear), None, is_device).promises[0].how.clone();
        assert!(how(true).contains("journal") && !how(false).contains("journal"));
    }
}
