//! `quietus serve`: disks, served until told to stop.

use crate::base::{buffers, naming};
use crate::cli::args::{Detect, DetectArgs, GradeArg, MEMORY_BYTES, SensitiveArg, ServeArgs};
use crate::cli::report::{Report, bytes};
use crate::cli::{Failure, bar};
use crate::disk::{Access, DiskDir};
use crate::engine::export::Export;
use crate::epochs::{self, Timer, Versioned};
use crate::front::control::{self, Control};
use crate::front::{Exports, Services, Terms};
use crate::host::attached::Attachment;
use crate::host::guarantees::Roots;
use crate::host::paths;
use crate::open_disk::{OpenDisk, backlog_bytes};
use clap::ValueEnum;
use quietus_core::volume;
use quietus_core::watch::Watcher;
use quietus_detect::Disk;
use quietus_detect::formats::format::Prober;
use quietus_detect::formats::{exfat, ext2, fat, ntfs};
use quietus_detect::rules::options::{Grade, Options};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Buffers that are kept for later have this part of the memory for payloads, and come on top of it.
const KEPT_PART: usize = 8;
/// How often the rules of retention are carried out.
const RETENTION: Duration = Duration::from_secs(60);
/// Time that clients have at a stop to see the end of their requests.
const PATIENCE: Duration = Duration::from_secs(10);

pub(in crate::cli) fn serve(args: ServeArgs, out: &Report) -> Result<(), Failure> {
    if args.exit_with_parent {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    }
    refuse_unfollowed(&args.detect)?;
    check_paths(&args)?;
    // From here on a signal stops in good order.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, signal_hook::consts::SIGCHLD])?;
    let disks =
        args.disks.iter().map(|path| open(path, &args, &mut signals)).collect::<Result<Vec<_>, _>>()?;
    let result = serve_disks(&args, &disks, &mut signals, out);
    let stopped = stop(&disks, &mut signals);
    result.and(stopped)
}

/// Marks are followed where ext2, ext3 or ext4 may be found; elsewhere all content is sensitive.
fn refuse_unfollowed(args: &DetectArgs) -> Result<(), Failure> {
    if args.sensitive == SensitiveArg::All || matches!(args.detect, Detect::Auto | Detect::Ext2) {
        return Ok(());
    }
    let found = args.detect.to_possible_value().expect("each value has a name");
    let found = found.get_name();
    Err(Failure::Usage(format!(
        "serve: cannot follow marks with --detect {found}: all content would be sensitive; use --detect auto or ext2, or \
         leave out --sensitive marked"
    )))
}

/// Looks at what the command line names before a disk is opened.
fn check_paths(args: &ServeArgs) -> Result<(), Failure> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
    let names: Vec<_> = args.disks.iter().map(|path| real(path).file_name().map(ToOwned::to_owned)).collect();
    if let Some((n, name)) = names.iter().enumerate().find(|(n, name)| names[..*n].contains(name)) {
        let (disk, name) = (args.disks[n].display(), name.clone().unwrap_or_default());
        let name = name.to_string_lossy();
        return Err(Failure::Usage(format!(
            "{disk}: another disk has the name {name}; serve a disk once, and rename the directory of one of two"
        )));
    }
    args.front_ends.check()?;
    let is_number = |text: &str| text.trim().parse::<u32>().is_ok();
    if let Some(pidfile) = &args.pidfile {
        paths::check_output("--pidfile", pidfile, is_number)?;
    }
    Ok(())
}

fn open(path: &Path, args: &ServeArgs, signals: &mut Signals) -> Result<Arc<OpenDisk>, Failure> {
    let bar = bar();
    let access = if args.read_only { Access::ReadOnly } else { Access::ReadWrite };
    let mut goes_on = || !signals.pending().any(|signal| signal == SIGTERM || signal == SIGINT);
    let mut dir = DiskDir::open_with(path, access, &mut |done, of| {
        bar.set_length(of);
        bar.set_position(done);
        goes_on()
    })?;
    bar.finish_and_clear();
    dir.unlock(&args.credential.source())?;
    let mut config = dir.config()?;
    config.trust_discard = args.detect.trust_discard;
    config.store_bytes_max = store_bytes(args);
    config.overwrites_kill = args.detect.grade == GradeArg::Content;
    let watcher = watcher(&args.detect, dir.toml().size_bytes);
    let (mode, hold_ms) = (args.detect.attached, args.detect.cache_hold);
    let attachment = Attachment::new(mode, hold_ms, dir.path(), Roots::default());
    let attachment = Some(attachment).filter(|_| watcher.is_some() && !dir.is_read_only());
    let mut disk = OpenDisk::start_with(dir, config, watcher, true, &mut |_, _| goes_on())?;
    disk.sensitive = args.detect.sensitive.into();
    attachment.into_iter().for_each(|it| disk.engine.attach(it));
    Ok(Arc::new(disk))
}

/// Memory for the whole server, in bytes.
fn memory_bytes(args: &ServeArgs) -> u64 {
    args.memory.unwrap_or(MEMORY_BYTES * args.disks.len() as u64)
}

/// Memory for what the store of a disk knows, in bytes: half of the disk's share.
fn store_bytes(args: &ServeArgs) -> u64 {
    memory_bytes(args) / args.disks.len().max(1) as u64 / 2
}

/// Memory for what clients read and write, in bytes: all but what stores have that cache their metadata.
fn payload_bytes(args: &ServeArgs, disks: &[Arc<OpenDisk>]) -> u64 {
    let stores = disks.iter().filter(|disk| disk.dir.toml().store.caches_metadata()).count() as u64;
    memory_bytes(args) - stores * store_bytes(args)
}

fn watcher(args: &DetectArgs, disk_bytes: u64) -> Option<Box<dyn Watcher>> {
    let options = Options {
        grade: match args.grade {
            GradeArg::Block => Grade::Block,
            GradeArg::Generation => Grade::Generation,
            GradeArg::Content => Grade::Content,
        },
        eager: args.eager,
        reorder_window_ms: args.reorder_window,
        settle_ms: args.settle,
        sensitive: args.sensitive.into(),
    };
    let probers: Vec<Prober> = match args.detect {
        Detect::Off => return None,
        Detect::Auto => vec![ext2::probe, fat::probe, exfat::probe, ntfs::probe],
        Detect::Ext2 => vec![ext2::probe],
        Detect::Fat => vec![fat::probe],
        Detect::Exfat => vec![exfat::probe],
        Detect::Ntfs => vec![ntfs::probe],
    };
    Some(Box::new(Disk::new(disk_bytes, probers, options)))
}

fn serve_disks(
    args: &ServeArgs,
    disks: &[Arc<OpenDisk>],
    signals: &mut Signals,
    out: &Report,
) -> Result<(), Failure> {
    let names: Vec<String> = disks.iter().map(|disk| disk.dir.name()).collect();
    for (disk, name) in disks.iter().zip(&names) {
        let refused = |error| format!("{}: {error}; rename the directory", disk.dir.path().display());
        naming::check_disk(name).map_err(refused).map_err(Failure::Error)?;
    }
    let payload_bytes = usize::try_from(payload_bytes(args, disks)).unwrap_or(usize::MAX);
    buffers::keep_at_most(payload_bytes / KEPT_PART);
    let terms = Terms {
        exports: Exports::new(disks.iter().map(export).collect()),
        dir: disks[0].dir.path(),
        memory_bytes_max: payload_bytes,
    };
    let services = Arc::new(args.front_ends.start(&terms)?);
    // A server that no client can reach forgets nothing.
    let timers = disks.iter().map(|disk| epochs::timers(disk, RETENTION));
    let _timers: Vec<Vec<Timer>> = timers.collect::<Result<_, _>>()?;
    if services.are_private() {
        end_with_clients(&services, signals)?;
    }
    let controls: Result<Vec<_>, _> = disks.iter().map(control_of).collect();
    let result = controls.map_err(Failure::from).and_then(|_controls| {
        ready(args, &services.uris(), &names, out)?;
        wait(args, disks, signals, &services)
    });
    if !services.shutdown(Instant::now() + PATIENCE) {
        tracing::warn!("some clients were disconnected in the middle of a request");
    }
    if let Some(pidfile) = args.pidfile.as_deref().filter(|path| path.is_file()) {
        // The file may be gone already.
        let _ = std::fs::remove_file(pidfile);
    }
    result
}

/// The disk, as clients reach it.
fn export(disk: &Arc<OpenDisk>) -> Arc<dyn Export> {
    if disk.keeps_epochs() {
        return Arc::new(Versioned::new(Arc::clone(disk)));
    }
    Arc::clone(&disk.engine) as Arc<dyn Export>
}

/// The control socket of `disk`. A read-only disk may do without one: its directory may be
/// read-only, or another server may answer for it.
fn control_of(disk: &Arc<OpenDisk>) -> io::Result<Option<Control>> {
    match control::serve(Arc::clone(disk)) {
        Err(error) if disk.dir.is_read_only() => {
            let socket = disk.dir.path().join("control.sock");
            tracing::warn!(%error, "no control socket at {}", socket.display());
            Ok(None)
        }
        served => served.map(Some),
    }
}

/// Reports that clients may come.
fn ready(args: &ServeArgs, uris: &[String], names: &[String], out: &Report) -> Result<(), Failure> {
    if let Some(pidfile) = &args.pidfile {
        paths::write_output(pidfile, &format!("{}\n", std::process::id()))?;
    }
    if args.run.is_none() {
        for uri in uris {
            out.serving(uri, names);
        }
    }
    if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
    Ok(())
}

/// Waits for a signal to stop, or for the command of `--run` to end.
fn wait(
    args: &ServeArgs,
    disks: &[Arc<OpenDisk>],
    signals: &mut Signals,
    services: &Services,
) -> Result<(), Failure> {
    let mut child = args.run.as_ref().map(|command| run(command, services)).transpose()?;
    loop {
        // The child may have ended before its signal could be waited for.
        if let Some(ended) = child.as_mut().map(Child::try_wait).transpose()?.flatten() {
            return match ended.code() {
                Some(0) => Ok(()),
                _ => Err(Failure::Error(format!("the command of --run ended with {ended}"))),
            };
        }
        let mut ends = false;
        for signal in signals.wait() {
            match signal {
                SIGHUP => reload(disks, services),
                SIGTERM | SIGINT => ends = true,
                _ => {}
            }
        }
        if ends || signals.is_closed() {
            let _ = sd_notify::notify(&[NotifyState::Stopping]);
            if let Some(child) = &mut child {
                let _ = child.kill();
                let _ = child.wait();
            }
            return Ok(());
        }
    }
}

/// Where no new client can come, the server ends with the last one.
fn end_with_clients(services: &Arc<Services>, signals: &Signals) -> io::Result<()> {
    let (services, signals) = (Arc::clone(services), signals.handle());
    let body = move || {
        services.wait_until_idle();
        signals.close();
    };
    std::thread::Builder::new().name("last-client".into()).spawn(body).map(drop)
}

fn run(command: &str, services: &Services) -> io::Result<Child> {
    std::process::Command::new("/bin/sh").arg("-c").arg(command).envs(services.environment()).spawn()
}

/// Reloads the front ends and each disk's `[behaviour]`. Whatever cannot be read stays as it was.
fn reload(disks: &[Arc<OpenDisk>], services: &Services) {
    let mut kept: Vec<_> = services.reload().into_iter().map(String::from).collect();
    for disk in disks {
        let fresh = DiskDir::behaviour(disk.dir.path());
        match fresh {
            Ok(fresh) => disk.engine.reconfigure(|config| {
                let volume::Config { read_only, trust_discard, store_bytes_max, overwrites_kill, .. } =
                    *config;
                let given = volume::Config { read_only, trust_discard, store_bytes_max, ..fresh };
                *config = volume::Config { overwrites_kill, ..given };
            }),
            Err(error) => {
                tracing::error!(%error, "cannot reload [behaviour]");
                kept.push(format!("[behaviour] of {}", disk.dir.name()));
            }
        }
    }
    match kept[..] {
        [] => tracing::info!("reload complete"),
        _ => tracing::error!(
            "reload refused: {} stay as they were; correct what is named above and send SIGHUP again",
            kept.join(", ")
        ),
    }
}

/// Stops every disk: queued content is destroyed first, unless another signal comes.
fn stop(disks: &[Arc<OpenDisk>], signals: &mut Signals) -> Result<(), Failure> {
    let mut latched = Ok(());
    for disk in disks {
        disk.close(true, |status| {
            let hurry = signals.pending().any(|signal| signal == SIGTERM || signal == SIGINT);
            if hurry || status.owed.pauses.is_some() {
                tracing::warn!("{} bytes stay queued until the next start", status.owed.queued_bytes);
            }
            !hurry
        });
        let status = disk.engine.status();
        if let Some(reason) = &status.latched {
            let stays = bytes(backlog_bytes(&status));
            latched = Err(Failure::Error(format!(
                "{}: {reason}; {stays} of dead content stay on the medium",
                disk.dir.name()
            )));
        }
    }
    latched
}
