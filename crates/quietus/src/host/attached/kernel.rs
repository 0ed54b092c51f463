//! The use of the kernel's network block device (nbd.ko) that a client has made.

use super::{Finding, text};
use crate::host::guarantees::Roots;
use std::path::{Path, PathBuf};

/// Most entries of a system directory that are examined; of a larger one nothing is known.
const ENTRIES_MAX: usize = 4096;

/// Examines the device of the client whose process was `process`. A client that goes on in the
/// background has another number then, so that every device has to do.
pub(super) fn look(roots: &Roots, process: u32) -> Finding {
    let Some(all) = devices(roots, "nbd") else { return Finding::cached("/sys/block cannot be read") };
    let used: Vec<_> = all.into_iter().filter_map(|dir| Some((owner(&dir)?, dir))).collect();
    let own: Vec<_> = used.iter().filter(|(owner, _)| *owner == process).map(|(_, dir)| dir).collect();
    let candidates = if own.is_empty() { used.iter().map(|(_, dir)| dir).collect() } else { own };
    let mut findings: Vec<_> = candidates.into_iter().map(|dir| judge(roots, dir)).collect();
    match findings.iter().position(|it| it.cached) {
        Some(worst) => findings.swap_remove(worst),
        None => findings.pop().unwrap_or_else(|| Finding::cached("nbd-client has made no device yet")),
    }
}

fn owner(device: &Path) -> Option<u32> {
    text(&device.join("pid"))?.trim().parse().ok()
}

/// The block devices whose names begin with `prefix`.
fn devices(roots: &Roots, prefix: &str) -> Option<Vec<PathBuf>> {
    entries(&roots.sys.join("block"))
        .map(|all| all.into_iter().filter(|it| name(it).starts_with(prefix)).collect())
}

fn entries(dir: &Path) -> Option<Vec<PathBuf>> {
    let entries: Result<Vec<_>, _> =
        std::fs::read_dir(dir).ok()?.take(ENTRIES_MAX + 1).map(|it| it.map(|it| it.path())).collect();
    entries.ok().filter(|it| it.len() <= ENTRIES_MAX)
}

fn name(path: &Path) -> String {
    path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A device is direct if the kernel has mounted it, or each of its partitions, and nothing
/// stands above it.
fn judge(roots: &Roots, device: &Path) -> Finding {
    let disk = format!("/dev/{}", name(device));
    let Some(parts) = partitions(device) else {
        return Finding::cached(format!("{disk} cannot be examined"));
    };
    let all: Vec<_> = std::iter::once(device.to_path_buf()).chain(parts.clone()).collect();
    if let Some(above) = above(roots, &all) {
        return Finding::cached(format!("{above} stands above {disk}, and may be a cache"));
    }
    let mounts = text(&roots.proc.join("self/mountinfo")).unwrap_or_default();
    let all_mounted = |devices: &[PathBuf]| {
        let found: Option<Vec<_>> = devices.iter().map(|it| mounted(&mounts, it)).collect();
        found.filter(|it| !it.is_empty())
    };
    match all_mounted(&all[..1]).or_else(|| all_mounted(&parts)) {
        Some(mounts) => match mounts.iter().find(|it| it.by_fuse) {
            Some(it) => Finding::cached(format!(
                "{disk}: a FUSE driver ({}) writes through the page cache",
                it.driver
            )),
            None => Finding::direct(format!("{disk}: mounted by the kernel ({})", mounts[0].driver)),
        },
        None if parts.is_empty() => {
            Finding::cached(format!("{disk} is not mounted: a program that opens it uses the page cache"))
        }
        None => Finding::cached(format!(
            "{disk}: not every partition is mounted; a program that opens one uses the page cache"
        )),
    }
}

fn partitions(device: &Path) -> Option<Vec<PathBuf>> {
    let own = name(device);
    let inside = entries(device)?;
    Some(
        inside.into_iter().filter(|it| name(it).starts_with(&own) && it.join("partition").exists()).collect(),
    )
}

/// The device above one of `devices`: a mapped device, or a loop device.
fn above(roots: &Roots, devices: &[PathBuf]) -> Option<String> {
    for device in devices {
        match entries(&device.join("holders")) {
            Some(holders) if holders.is_empty() => {}
            Some(holders) => return Some(name(&holders[0])),
            None => return Some("something unknown".into()),
        }
    }
    let Some(loops) = devices_of_loop(roots) else { return Some("something unknown".into()) };
    loops
        .into_iter()
        .find(|(_, file)| devices.iter().any(|it| *file == format!("/dev/{}", name(it))))
        .map(|it| it.0)
}

/// The loop devices in use, and their files or devices.
fn devices_of_loop(roots: &Roots) -> Option<Vec<(String, String)>> {
    let loops = devices(roots, "loop")?.into_iter();
    let below = |it: PathBuf| Some((name(&it), text(&it.join("loop/backing_file"))?.trim_end().to_string()));
    Some(loops.filter_map(below).collect())
}

struct Mount {
    driver: String,
    by_fuse: bool,
}

/// How `device` is mounted, by `mountinfo` (`proc(5)`): its third field is the number of the
/// device, and the driver follows " - ".
fn mounted(mountinfo: &str, device: &Path) -> Option<Mount> {
    let number = text(&device.join("dev"))?;
    let line = mountinfo.lines().find(|line| line.split(' ').nth(2) == Some(number.trim()))?;
    let driver = line.split_once(" - ")?.1.split(' ').next()?.to_string();
    let by_fuse = driver.starts_with("fuse");
    Some(Mount { driver, by_fuse })
}
