//! `quietus serve`: disks, served until told to stop.

use super::Failure;
use super::args::{Answer, Detect, DetectArgs, GradeArg, MEMORY_BYTES, SensitiveArg, ServeArgs};
use super::report::{Report, bytes};
use crate::attached::Attachment;
use crate::control::{self, Control};
use crate::disk::{Access, DiskDir};
use crate::epochs::{self, Timer, Versioned};
use crate::export::Export;
use crate::front::Exports;
use crate::front::nbd::{Bound, Config, Listener, Server, Tls, TlsError, TlsFiles};
use crate::host::Roots;
use crate::naming;
use crate::open_disk::{OpenDisk, backlog_bytes};
use crate::paths;
use quietus_core::watch::Watcher;
use quietus_detect::Disk;
use quietus_detect::format::Prober;
use quietus_detect::options::{Grade, Options};
use quietus_detect::{exfat, ext2, fat, ntfs};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the rules of retention are carried out.
const RETENTION: Duration = Duration::from_secs(60);
/// Time that clients have at a stop to see the end of their requests.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn serve(args: ServeArgs, out: &Report) -> Result<(), Failure> {
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
    let found = match args.detect {
        Detect::Auto | Detect::Ext2 => return Ok(()),
        Detect::Off => "off",
        Detect::Fat => "fat",
        Detect::Exfat => "exfat",
        Detect::Ntfs => "ntfs",
    };
    if args.sensitive == SensitiveArg::All {
        return Ok(());
    }
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
    tls(args)?;
    let is_number = |text: &str| text.trim().parse::<u32>().is_ok();
    if let Some(pidfile) = &args.pidfile {
        paths::check_output("--pidfile", pidfile, is_number)?;
    }
    let sockets = args.nbd.iter().filter_map(|address| address.strip_prefix("unix:"));
    for path in sockets.filter(|path| !path.starts_with('@')) {
        paths::check_socket(&std::path::absolute(path)?)?;
    }
    Ok(())
}

fn open(path: &Path, args: &ServeArgs, signals: &mut Signals) -> Result<Arc<OpenDisk>, Failure> {
    let bar = super::bar();
    let access = if args.read_only { Access::ReadOnly } else { Access::ReadWrite };
    let mut dir = DiskDir::open_with(path, access, &mut |done, of| {
        bar.set_length(of);
        bar.set_position(done);
        !signals.pending().any(|signal| signal == SIGTERM || signal == SIGINT)
    })?;
    bar.finish_and_clear();
    dir.unlock(&args.credential.source())?;
    let mut config = dir.config()?;
    config.trust_discard = args.detect.trust_discard == Answer::Yes;
    config.store_bytes_max = store_bytes(args);
    let watcher = watcher(&args.detect, dir.toml().size_bytes);
    let (mode, hold_ms) = (args.detect.attached.into(), args.detect.cache_hold);
    let attachment = Attachment::new(mode, hold_ms, dir.path(), Roots::default());
    let attachment = Some(attachment).filter(|_| watcher.is_some() && !dir.is_read_only());
    let mut disk = OpenDisk::start_with(dir, config, watcher, true)?;
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

/// Memory for what clients read and write, in bytes: all but what stores of versions have.
fn payload_bytes(args: &ServeArgs, disks: &[Arc<OpenDisk>]) -> u64 {
    let stores = disks.iter().filter(|disk| disk.dir.toml().store.keeps_versions()).count() as u64;
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
    let listeners = listeners(args, &disks[0])?;
    let config = Config {
        tls: tls(args)?,
        connections_max: args.connections,
        handshake_timeout: Duration::from_millis(args.handshake_timeout),
        stall_timeout: Duration::from_millis(args.stall_timeout),
        extended_headers: args.extended_headers == Answer::Yes,
        idle_timeout: Duration::from_millis(args.idle_timeout),
        memory_bytes_max: usize::try_from(payload_bytes(args, disks)).unwrap_or(usize::MAX),
        ..Config::default()
    };
    let exports = disks.iter().map(export).collect();
    let timers = disks.iter().map(|disk| epochs::timers(disk, RETENTION));
    let _timers: Vec<Vec<Timer>> = timers.collect::<Result<_, _>>()?;
    let server = Arc::new(Server::start(listeners, Exports::new(exports), config)?);
    if server.is_private() {
        end_with_clients(&server, signals)?;
    }
    let uris: Vec<String> = server.bound().iter().map(|bound| uri(bound, args.tls_cert.is_some())).collect();
    let controls: Result<Vec<_>, _> = disks.iter().map(control_of).collect();
    let result = controls.map_err(Failure::from).and_then(|_controls| {
        ready(args, &uris, &names, out)?;
        wait(args, disks, signals, &server, &uris)
    });
    if !server.shutdown(Instant::now() + PATIENCE) {
        tracing::warn!("some clients were disconnected in the middle of a request");
    }
    if let Some(pidfile) = args.pidfile.as_deref().filter(|path| path.is_file()) {
        // Somebody may have removed it before.
        let _ = std::fs::remove_file(pidfile);
    }
    result
}

/// The disk, as clients reach it.
fn export(disk: &Arc<OpenDisk>) -> Arc<dyn Export> {
    if disk.dir.toml().store.keeps_versions() {
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

/// The URI by which a client reaches the address.
fn uri(bound: &Bound, secure: bool) -> String {
    let scheme = if secure { "nbds" } else { "nbd" };
    match bound {
        Bound::Unix(path) => format!("{scheme}+unix:///?socket={}", path.display()),
        Bound::Abstract(name) => format!("{scheme}+unix:///?socket=@{name}"),
        Bound::Tcp(address) => format!("{scheme}://{address}"),
        Bound::Inherited | Bound::Connected => bound.to_string(),
    }
}

fn listeners(args: &ServeArgs, first: &OpenDisk) -> Result<Vec<Listener>, Failure> {
    let mut found = if args.nbd.is_empty() { passed()? } else { Vec::new() };
    let default = format!("unix:{}", first.dir.path().join("nbd.sock").display());
    let wanted = if found.is_empty() && args.nbd.is_empty() { vec![default] } else { args.nbd.clone() };
    for address in &wanted {
        let refused = |error: io::Error| {
            let is_read_only = error.kind() == io::ErrorKind::ReadOnlyFilesystem;
            let remedy =
                if is_read_only { "; name a socket elsewhere: --nbd unix:/run/vm1.sock" } else { "" };
            Failure::Error(format!("--nbd {address}: {error}{remedy}"))
        };
        found.push(listen(address).map_err(refused)?);
    }
    Ok(found)
}

fn listen(address: &str) -> io::Result<Listener> {
    match address.split_once(':') {
        Some(("unix", path)) => match path.strip_prefix('@') {
            Some(name) => Listener::abstract_unix(name),
            None => {
                let path = std::path::absolute(path)?;
                // The default path is that of a disk, which may be long.
                paths::check_socket(&path).map_err(io::Error::other)?;
                Listener::unix(&path)
            }
        },
        Some(("tcp", address)) => Listener::tcp(address),
        _ if address == "stdio" => Listener::stdio(),
        _ => Err(io::Error::other(
            "unknown kind of address; use unix:PATH, unix:@NAME, tcp:ADDRESS:PORT or stdio",
        )),
    }
}

/// The sockets that systemd passed.
fn passed() -> Result<Vec<Listener>, Failure> {
    let refused = |error: io::Error| Failure::Error(format!("cannot take the sockets of systemd: {error}"));
    let fds = sd_notify::listen_fds().map_err(refused)?;
    fds.map(|fd| {
        // SAFETY: sd_listen_fds(3) promises that these descriptors are open and were
        // passed to this process, which takes each of them once, here.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Listener::inherited(fd).map_err(refused)
    })
    .collect()
}

fn tls(args: &ServeArgs) -> Result<Tls, TlsError> {
    let (Some(certificate), Some(key)) = (args.tls_cert.clone(), args.tls_key.clone()) else {
        return Ok(Tls::Off);
    };
    let config = TlsFiles { certificate, key, client_authorities: args.tls_client_ca.clone() }.load()?;
    Ok(if args.tls_optional { Tls::Allow(config) } else { Tls::Require(config) })
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
    server: &Server,
    uris: &[String],
) -> Result<(), Failure> {
    let mut child = args.run.as_ref().map(|command| run(command, uris)).transpose()?;
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
                SIGHUP => reload(args, disks, server),
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
fn end_with_clients(server: &Arc<Server>, signals: &Signals) -> io::Result<()> {
    let (server, signals) = (Arc::clone(server), signals.handle());
    let body = move || {
        server.wait_until_idle();
        signals.close();
    };
    std::thread::Builder::new().name("last-client".into()).spawn(body).map(drop)
}

fn run(command: &str, uris: &[String]) -> io::Result<Child> {
    let mut child = std::process::Command::new("/bin/sh");
    child.arg("-c").arg(command);
    if let Some(uri) = uris.first() {
        child.env("NBD_URI", uri);
        child.env("NBD_SOCKET", uri.split_once("socket=").map_or("", |(_, path)| path));
    }
    child.spawn()
}

/// Reads the certificates and the key anew, and each disk's `[behaviour]`. Whatever cannot be read
/// stays as it was.
fn reload(args: &ServeArgs, disks: &[Arc<OpenDisk>], server: &Server) {
    let mut kept = Vec::new();
    match tls(args) {
        Ok(tls) => server.set_tls(tls),
        Err(error) => {
            tracing::error!(%error, "cannot reload the certificates and the key");
            kept.push("the certificates and the key".to_string());
        }
    }
    for disk in disks {
        let fresh = DiskDir::behaviour(disk.dir.path());
        match fresh {
            Ok(fresh) => disk.engine.reconfigure(|config| {
                let quietus_core::volume::Config { read_only, trust_discard, store_bytes_max, .. } = *config;
                *config = quietus_core::volume::Config { read_only, trust_discard, store_bytes_max, ..fresh };
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
