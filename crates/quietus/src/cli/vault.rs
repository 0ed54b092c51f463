//! The commands about vaults.

use super::args::{
    CatArgs, FindArgs, GetArgs, InitArgs, ListArgs, MountArgs, OneVaultArgs, PutArgs, SanitizeArgs,
    VaultCommand, VaultDiffArgs, VaultForgetArgs, VaultHoldArgs, VaultProveArgs, VaultReleaseArgs,
};
use super::report::{Report, VaultStatus};
use super::stop::Stop;
use super::{Failure, good, read, with_bar, write_receipt};
use crate::vault::{
    self, CreateVault, Error, Forgotten, Globs, Line, Sanitize, Session, Step, VaultDir, select, snapshots,
};
use indicatif::{ProgressBar, ProgressStyle};
use quietus_vault::sanitize::Progress;
use quietus_vault::{SnapshotId, VaultError};
use serde_json::Value;
use std::fs::File;
use std::io;
use std::path::Path;

pub(super) fn vault(command: &VaultCommand, out: &Report) -> Result<(), Failure> {
    match command {
        VaultCommand::Init(args) => init(args, out),
        VaultCommand::Put(args) => put(args, out),
        VaultCommand::Get(args) => get(args, out),
        VaultCommand::Cat(args) => cat(args),
        VaultCommand::List(args) => list(args, out),
        VaultCommand::Find(args) => find(args, out),
        VaultCommand::Diff(args) => diff(args, out),
        VaultCommand::Mount(args) => mount(args, out),
        VaultCommand::Forget(args) => forget(args, out),
        VaultCommand::Hold(args) => hold(args, out),
        VaultCommand::Release(args) => release(args, out),
        VaultCommand::Sanitize(args) => sanitize(args, out),
        VaultCommand::Status(args) => status(args, out),
        VaultCommand::Stats(args) => stats(args, out),
        VaultCommand::Verify(args) => verify(args, out),
        VaultCommand::Prove(args) => prove(args, out),
    }
}

/// Opens the vault at `path` and does something with it.
fn with<T>(path: &Path, act: impl FnOnce(&mut Session<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
    let dir = VaultDir::open(path)?;
    let mut session = Session::open(&dir)?;
    act(&mut session)
}

/// The same, with a bar of so many things.
fn counting<T>(what: &'static str, act: impl FnOnce(Step<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
    let stop = Stop::get()?;
    let bar = counter();
    let done = act(&mut |done, of| {
        show(&bar, what, done, of);
        !stop.is_asked()
    });
    bar.finish_and_clear();
    done
}

fn counter() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len} ETA {eta}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn show(bar: &ProgressBar, what: &'static str, done: u64, of: u64) {
    bar.set_message(what);
    bar.set_length(of);
    bar.set_position(done);
}

fn init(args: &InitArgs, out: &Report) -> Result<(), Failure> {
    let options = CreateVault {
        medium: args.medium.clone(),
        size: args.size,
        container: args.container,
        policy: args.policy.clone(),
        compress: args.compress,
    };
    let toml = with_bar(|step| Ok(vault::create(&args.vault, &options, step)?))?;
    let guarantees = VaultDir::open(&args.vault)?.guarantees();
    out.vault_made(&args.vault, &toml, &guarantees);
    Ok(())
}

fn put(args: &PutArgs, out: &Report) -> Result<(), Failure> {
    let exclude = Globs::new("--exclude", &args.exclude)?;
    let put = with(&args.vault, |session| {
        with_bar(|step| match args.tar.as_deref() {
            None => Ok(vault::put_files(session, &args.name, &args.paths, &exclude, step)?),
            Some(path) if path == Path::new("-") => {
                Ok(vault::put_tar(session, &args.name, &mut io::stdin().lock(), &exclude, step)?)
            }
            Some(path) => {
                let mut file = File::open(path).map_err(|error| Error::io("read it", path, error))?;
                Ok(vault::put_tar(session, &args.name, &mut file, &exclude, step)?)
            }
        })
    })?;
    out.put(&put);
    good(put.left_out_count == 0)
}

fn get(args: &GetArgs, out: &Report) -> Result<(), Failure> {
    let restored = with(&args.vault, |session| {
        let snapshot = select(&mut session.vault, &args.snapshot)?;
        with_bar(|step| Ok(vault::restore(session, snapshot, &args.into, &args.paths, step)?))
    })?;
    out.restored_snapshot(&restored);
    good(restored.refused_count == 0)
}

fn cat(args: &CatArgs) -> Result<(), Failure> {
    with(&args.vault, |session| {
        let snapshot = select(&mut session.vault, &args.snapshot)?;
        Ok(vault::cat(session, snapshot, &args.path, &mut io::stdout().lock())?)
    })
}

fn list(args: &ListArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |session| {
        let Some(snapshot) = &args.snapshot else {
            out.snapshots(&snapshots(&mut session.vault)?);
            return Ok(());
        };
        let snapshot = select(&mut session.vault, snapshot)?;
        let path = args.path.as_deref().unwrap_or(Path::new(""));
        Ok(vault::entries(&mut session.vault, snapshot, path, &mut |path, node| {
            out.snapshot_entry(path, node);
            Ok(())
        })?)
    })
}

fn mount(args: &MountArgs, out: &Report) -> Result<(), Failure> {
    let stop = Stop::get()?;
    with(&args.vault, |session| {
        let only = args.snapshot.as_deref().map(|text| select(&mut session.vault, text)).transpose()?;
        let ready = || out.mounted(&args.at);
        Ok(vault::mount(session, &args.at, only, ready, || stop.is_asked())?)
    })
}

fn find(args: &FindArgs, out: &Report) -> Result<(), Failure> {
    let pattern = Globs::new("the pattern", std::slice::from_ref(&args.pattern))?;
    with(&args.vault, |session| {
        let all: Vec<SnapshotId> = session.vault.snapshots().map(|(snapshot, _)| snapshot).collect();
        let mut count = 0;
        let unread = vault::find(&mut session.vault, &all, &pattern, &mut |path, version| {
            count += 1;
            out.found_version(path, version);
            Ok(())
        })?;
        out.found_end(count, all.len(), &unread);
        good(unread.is_empty())
    })
}

fn diff(args: &VaultDiffArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |session| {
        let one = select(&mut session.vault, &args.one)?;
        let other = select(&mut session.vault, &args.other)?;
        let mut counts = [0; 3];
        let unread = vault::diff(&mut session.vault, one, other, &mut |difference| {
            counts[difference.change as usize] += 1;
            out.difference(&difference);
            Ok(())
        })?;
        out.differences_end(one, other, counts, &unread);
        good(unread.is_empty())
    })
}

fn forget(args: &VaultForgetArgs, out: &Report) -> Result<(), Failure> {
    let forgotten = with(&args.vault, |session| {
        if args.paths.is_empty() {
            return forget_snapshots(session, args);
        }
        let paths = Globs::new("--path", &args.paths)?;
        let wanted = match args.snapshots.is_empty() {
            true => session.vault.snapshots().map(|(snapshot, _)| snapshot).collect(),
            false => named(session, &args.snapshots)?,
        };
        counting("snapshots", |step| Ok(vault::forget_paths(session, &wanted, &paths, args.dry_run, step)?))
    })?;
    out.forgotten_snapshots(&args.vault, &forgotten);
    Ok(())
}

fn forget_snapshots(session: &mut Session<'_>, args: &VaultForgetArgs) -> Result<Forgotten, Failure> {
    let all = snapshots(&mut session.vault)?;
    let gone = match args.keep.are_given() {
        true => vault::outdated(&all, args.keep.rules(), args.name.as_deref())?,
        false if args.snapshots.is_empty() => {
            let what = "forget: name snapshots, paths with --path, or a rule such as --keep-last 7";
            return Err(Failure::Error(what.into()));
        }
        false => named(session, &args.snapshots)?,
    };
    // A damaged snapshot can be forgotten all the same.
    let weight = counting("chunks", |step| match session.vault.weigh(&gone, step) {
        Err(VaultError::Interrupted) => Err(Error::Interrupted.into()),
        weight => Ok(weight.ok()),
    })?;
    let lines: Vec<Line> = all.into_iter().filter(|line| gone.contains(&SnapshotId(line.snapshot))).collect();
    let forgets = if args.dry_run || gone.is_empty() { Vec::new() } else { session.forget(&gone)? };
    Ok(Forgotten {
        files: lines.iter().map(|line| line.files).sum(),
        bytes: lines.iter().map(|line| line.bytes).sum(),
        snapshots: lines,
        forgets,
        chunks: weight.map(|it| it.chunks),
        stored_bytes: weight.map(|it| it.stored_bytes),
        is_dry_run: args.dry_run,
    })
}

/// The snapshots that were named, none of them by a name that several have.
fn named(session: &mut Session<'_>, texts: &[String]) -> Result<Vec<SnapshotId>, Failure> {
    let all = texts.iter().map(|text| vault::select_one(&mut session.vault, text));
    Ok(all.collect::<Result<_, _>>()?)
}

fn hold(args: &VaultHoldArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |session| {
        let wanted = args.snapshots.iter().map(|text| select(&mut session.vault, text));
        let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
        session.hold(&args.name, &wanted, &args.why)?;
        out.held_snapshots(&args.name, &wanted.iter().map(|it| it.0).collect::<Vec<_>>(), true);
        Ok(())
    })
}

fn release(args: &VaultReleaseArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |session| {
        let released = session.release(&args.name)?;
        out.held_snapshots(&args.name, &released, false);
        Ok(())
    })
}

fn sanitize(args: &SanitizeArgs, out: &Report) -> Result<(), Failure> {
    let how = Sanitize { is_read_only: args.read_only, is_dry_run: args.dry_run, share: args.share };
    let stop = Stop::get()?;
    let receipt = with(&args.vault, |session| {
        let (bar, mut phase) = (counter(), "");
        let done = vault::sanitize(session, how, &mut |progress, done, of| {
            let now = phase_name(progress);
            if now != phase {
                phase = now;
                bar.reset();
            }
            show(&bar, phase, done, of);
            !stop.is_asked()
        });
        bar.finish_and_clear();
        Ok(done?)
    })?;
    if let Some(path) = &args.output {
        write_receipt(path, &serde_json::to_value(&receipt)?)?;
    }
    out.sanitized(&receipt, args.dry_run);
    Ok(())
}

fn phase_name(progress: Progress) -> &'static str {
    match progress {
        Progress::Settle | Progress::Merge => "merging the index",
        Progress::Analysis => "analysing",
        Progress::Enumeration => "marking what is live",
        Progress::Audit => "judging containers",
        Progress::Copy(_) => "copying what is live",
        Progress::Compaction => "merging the index again",
        Progress::Zero(_) | Progress::Done => "overwriting",
    }
}

fn status(args: &OneVaultArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |session| {
        let toml = session.dir.toml().clone();
        let owed = session.vault.owed().map(|(forget, owed)| (forget.0, owed.into())).collect();
        let guarantees = session.dir.guarantees();
        let layout = session.vault.layout();
        let status = session.vault.status();
        out.vault_status(&VaultStatus::new(&args.vault, toml, layout, status, owed, guarantees));
        Ok(())
    })
}

fn stats(args: &OneVaultArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |session| {
        let contents = counting("chunks", |step| Ok(session.vault.contents(step).map_err(Error::from)?))?;
        let bytes = snapshots(&mut session.vault)?.iter().map(|line| line.bytes).sum();
        out.vault_stats(&contents, bytes);
        Ok(())
    })
}

fn verify(args: &OneVaultArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |session| {
        let verified = counting("containers", |step| Ok(session.vault.verify(step).map_err(Error::from)?))?;
        let log = session.check_log();
        out.vault_verified(&verified, &log);
        good(verified.faults_count == 0 && log.is_ok())
    })
}

fn prove(args: &VaultProveArgs, out: &Report) -> Result<(), Failure> {
    let known = args.key.as_deref().map(read).transpose()?;
    if let Some(path) = &args.check {
        let text = read(path)?;
        let format = serde_json::from_str::<Value>(&text).unwrap_or_default();
        if format["statement"]["format"] == "quietus-sanitization-1" {
            let receipt = vault::check_sanitized(&text, known.as_deref())?;
            out.sanitized(&receipt, false);
            return Ok(());
        }
        let receipt = vault::check(&text, known.as_deref())?;
        out.vault_proof(&receipt, true);
        return good(receipt.statement.is_clean());
    }
    let path = args.vault.as_deref().unwrap_or(Path::new(""));
    let receipt = with(path, |session| with_bar(|step| Ok(vault::prove(session, step)?)))?;
    if let Some(path) = &args.output {
        write_receipt(path, &serde_json::to_value(&receipt)?)?;
    }
    out.vault_proof(&receipt, false);
    good(receipt.statement.is_clean())
}
