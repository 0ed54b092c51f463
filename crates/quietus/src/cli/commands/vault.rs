//! The commands about vaults.

use crate::base::locked::forbid_core_dumps;
use crate::cli::args::{
    CatArgs, FindArgs, GetArgs, InitArgs, ListArgs, MountArgs, OneVaultArgs, PutArgs, SanitizeArgs,
    VaultCommand, VaultDiffArgs, VaultForgetArgs, VaultHoldArgs, VaultProveArgs, VaultReleaseArgs,
};
use crate::cli::consent;
use crate::cli::output::vault::{
    VaultCompared, VaultHeld, VaultMounted, VaultReleased, VaultSearched, VaultStats, VaultStatus,
    VaultVerified,
};
use crate::cli::report::{Checked, Report};
use crate::cli::stop::Stop;
use crate::cli::{
    Failure, check_key, check_receipt, epochs, format_of, good, refuse_receipt_of, refused_receipt, showing,
    with_bar, write_receipt,
};
use crate::disk::keys::Source;
use crate::host::paths::{self, Subject};
use crate::vault;
use crate::vault::select;
use crate::vault::{
    Client, CreateVault, Damaged, DiskOf, Error, Fill, Filter, Forgotten, Globs, Label, Line, Put, Sanitize,
    Step, Tell, VaultDir, Wanted, snapshots,
};
use indicatif::{ProgressBar, ProgressStyle};
use quietus_vault::SnapshotId;
use quietus_vault::client::Access;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

pub(in crate::cli) fn vault(command: &VaultCommand, out: &Report) -> Result<(), Failure> {
    // Content passes through memory, and no sanitization reaches a core dump.
    forbid_core_dumps();
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
        VaultCommand::Repair(args) => repair(args, out),
        VaultCommand::Prove(args) => prove(args, out),
    }
}

/// Opens the vault at `path`, or asks the process that has it open, and does something with it.
fn with<T>(path: &Path, act: impl FnOnce(&mut Client) -> Result<T, Failure>) -> Result<T, Failure> {
    vault::with_vault(path, act, |others| {
        eprintln!("quietus: waiting for other commands that use the vault through this process: {others}");
    })
}

/// Does something with a progress bar.
fn counting<T>(what: &'static str, act: impl FnOnce(Step<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
    showing(&counter().with_message(what), act)
}

fn counter() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len} ETA {eta}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn init(args: &InitArgs, out: &Report) -> Result<(), Failure> {
    let options = CreateVault {
        medium: args.medium.clone(),
        size: args.size,
        container: args.container,
        policy: args.policy.clone(),
        compress: args.compress,
    };
    let devices: Vec<_> = options.devices(&args.vault)?;
    let plan = || Ok(consent::making(&args.vault, &devices));
    if (args.consent.dry_run || !devices.is_empty()) && !consent::agreed(args.consent, out, plan)? {
        return Ok(());
    }
    let toml = with_bar(|step| Ok(vault::create(&args.vault, &options, step)?))?;
    let guarantees = VaultDir::open(&args.vault)?.home().guarantees();
    out.vault_made(&args.vault, &toml, &guarantees);
    Ok(())
}

fn put(args: &PutArgs, out: &Report) -> Result<(), Failure> {
    let (label, exclude) = (args.label(), excludes(args)?);
    let wanted = Wanted {
        paths: &args.paths,
        exclude: &exclude,
        one_file_system: args.one_file_system,
        exclude_caches: args.exclude_caches,
        reread: args.reread,
    };
    with(&args.vault, |client| {
        let put = with_bar(|step| match (args.disk.as_deref(), args.tar.as_deref()) {
            (Some(disk), _) => {
                put_disk(client, &label, (disk, args.gone.is_some()), &args.credential.source(), step)
            }
            (None, None) => Ok(vault::put_files(client, &label, wanted, step)?),
            (None, Some(path)) => put_tar(client, &label, path, &exclude, step),
        })?;
        let is_all = put.left_out_count == 0;
        out.put(put, exclude.unmatched());
        good(is_all)
    })
}

/// What `--exclude` and the files of `--exclude-from` say.
fn excludes(args: &PutArgs) -> Result<Globs, Failure> {
    let mut all = args.exclude.clone();
    for path in &args.exclude_from {
        for (number, line) in (1..).zip(paths::read_text("--exclude-from", path)?.lines()) {
            let line = line.trim_end().to_owned();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // The error names the line of an invalid pattern.
            let option = format!("--exclude-from {}: line {number}:", path.display());
            Globs::new(&option, std::slice::from_ref(&line))?;
            all.push(line);
        }
    }
    let base = match args.tar {
        // The paths of an archive are of no folder of this host.
        Some(_) => PathBuf::from("/"),
        None => std::env::current_dir()?,
    };
    Ok(Globs::of_host("--exclude", &all, &base)?)
}

fn put_tar(
    client: &mut Client,
    label: &Label,
    path: &Path,
    exclude: &Globs,
    step: Step<'_>,
) -> Result<Put, Failure> {
    if path == Path::new("-") {
        let input = (&mut io::stdin().lock() as &mut dyn Read, Path::new("standard input"));
        return Ok(vault::put_tar(client, label, input, exclude, step)?);
    }
    let mut file = paths::open_to_read("--tar", path)?;
    Ok(vault::put_tar(client, label, (&mut file, path), exclude, step)?)
}

fn put_disk(
    client: &mut Client,
    label: &Label,
    (disk, zeros): (&Path, bool),
    source: &Source,
    step: Step<'_>,
) -> Result<Put, Failure> {
    let (disk, at) = epochs::split(disk);
    let what = DiskOf { disk: &disk, at: at.as_deref(), zeros, source };
    match vault::put_disk(client, label, what, step) {
        Err(Error::Disk(refused)) => Err(refused.into()),
        put => Ok(put?),
    }
}

fn get(args: &GetArgs, out: &Report) -> Result<(), Failure> {
    if args.tar.as_deref() == Some(Path::new("-")) && io::stdout().is_terminal() {
        let what = "--tar -: standard output is a terminal; redirect it, or name a file to make";
        return Err(Failure::Usage(what.into()));
    }
    paths::check_folder("--into", &args.into)?;
    with(&args.vault, |client| {
        let snapshot = select(client, &args.snapshot)?;
        let restored = with_bar(|step| match &args.tar {
            Some(path) => Ok(vault::write_tar_file(client, snapshot, path, &args.paths, step)?),
            None => {
                let into = (args.into.as_path(), args.overwrite);
                Ok(vault::restore(client, snapshot, into, &args.paths, step)?)
            }
        })?;
        // Standard output may be the archive.
        if args.tar.as_deref() != Some(Path::new("-")) {
            out.restored_snapshot(&restored);
        }
        good(restored.refused.is_empty())
    })
}

fn cat(args: &CatArgs) -> Result<(), Failure> {
    with(&args.vault, |client| {
        let snapshot = select(client, &args.snapshot)?;
        Ok(vault::cat(client, snapshot, &args.path, &mut io::stdout().lock())?)
    })
}

fn list(args: &ListArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |client| {
        let Some(snapshot) = &args.snapshot else {
            out.snapshots(selected(client, &args.filter.of(args.name.as_deref()))?);
            return Ok(());
        };
        let snapshot = select(client, snapshot)?;
        let path = args.path.as_deref().unwrap_or(Path::new(""));
        Ok(vault::entries(client, snapshot, path, &mut |path, node| {
            out.snapshot_entry(path, node);
            Ok(())
        })?)
    })
}

fn mount(args: &MountArgs, out: &Report) -> Result<(), Failure> {
    let stop = Stop::get()?;
    with(&args.vault, |client| {
        let only = args.snapshot.as_deref().map(|text| select(client, text)).transpose()?;
        let mounted = VaultMounted { mounted: args.at.as_path().into() };
        let ready = || out.mounted(&mounted, &args.at);
        Ok(vault::mount(client, &args.at, only, ready, || stop.is_asked())?)
    })
}

fn find(args: &FindArgs, out: &Report) -> Result<(), Failure> {
    let pattern = Globs::new("the pattern", std::slice::from_ref(&args.pattern))?;
    with(&args.vault, |client| {
        let all = all_snapshots(client)?;
        let mut found = 0;
        let unread = vault::find(client, &all, &pattern, &mut |path, version| {
            found += 1;
            out.found_version(path, version);
            Ok(())
        })?;
        let searched = VaultSearched { found, searched: all.len(), unread };
        out.searched(&searched);
        good(searched.unread.is_empty())
    })
}

fn diff(args: &VaultDiffArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |client| {
        let one = select(client, &args.one)?;
        let other = select(client, &args.other)?;
        let mut counts = [0; 3];
        let unread = vault::diff(client, one, other, &mut |difference| {
            counts[difference.change as usize] += 1;
            out.difference(&difference);
            Ok(())
        })?;
        let (before, after, [added, removed, changed]) = (one.0, other.0, counts);
        let compared = VaultCompared { before, after, added, removed, changed, unread };
        out.compared(&compared);
        good(compared.unread.is_empty())
    })
}

fn forget(args: &VaultForgetArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |client| {
        let mut is_matched = true;
        let mut forget = |is_dry_run| {
            let forgotten = match args.paths.is_empty() {
                true => forget_snapshots(client, args, is_dry_run)?,
                false => forget_paths(client, args, is_dry_run)?,
            };
            is_matched = forgotten.unmatched_paths.is_empty();
            out.forgotten_snapshots(&args.vault, &forgotten);
            Ok::<_, Failure>(())
        };
        if epochs::weighed(args.consent, || forget(true))? {
            forget(false)?;
        }
        // A pattern that matches nothing may be a slip: what was meant is still there.
        good(is_matched)
    })
}

fn forget_paths(client: &mut Client, args: &VaultForgetArgs, is_dry_run: bool) -> Result<Forgotten, Failure> {
    let paths = Globs::new("--path", &args.paths)?;
    let wanted = match args.snapshots.is_empty() {
        true if args.filter.is_empty() => all_snapshots(client)?,
        true => {
            let lines = selected(client, &args.filter.of(None))?;
            lines.into_iter().map(|line| SnapshotId(line.snapshot)).collect()
        }
        false => named(client, &args.snapshots)?,
    };
    counting("snapshots", |step| Ok(vault::forget_paths(client, &wanted, &paths, is_dry_run, step)?))
}

/// The snapshots that a filter selects, and damaged ones, which it might select.
fn selected(client: &mut Client, filter: &Filter) -> Result<Vec<Line>, Failure> {
    let all = snapshots(client)?.into_iter();
    Ok(all.filter(|line| line.fault.is_some() || filter.has(&line.label)).collect())
}

fn all_snapshots(client: &mut Client) -> Result<Vec<SnapshotId>, Failure> {
    Ok(client.roots()?.into_iter().map(|(snapshot, _)| snapshot).collect())
}

fn forget_snapshots(
    client: &mut Client,
    args: &VaultForgetArgs,
    is_dry_run: bool,
) -> Result<Forgotten, Failure> {
    let all = snapshots(client)?;
    let gone = match args.keep.are_given() {
        true => vault::outdated(&all, args.keep.rules(), &args.filter.of(args.name.as_deref()))?,
        false if args.snapshots.is_empty() => {
            let what = "forget: name snapshots, paths with --path, or a rule such as --keep-last 7";
            return Err(Failure::Usage(what.into()));
        }
        false => named(client, &args.snapshots)?,
    };
    // A damaged snapshot can be forgotten all the same.
    let weight = counting("chunks", |step| match client.weigh(&gone, step) {
        Err(Error::Interrupted) => Err(Error::Interrupted.into()),
        weight => Ok(weight.ok()),
    })?;
    let lines: Vec<Line> = all.into_iter().filter(|line| gone.contains(&SnapshotId(line.snapshot))).collect();
    let forgets = if is_dry_run || gone.is_empty() { Vec::new() } else { client.forget(&gone)? };
    Ok(Forgotten {
        files: lines.iter().map(|line| line.files).sum(),
        bytes: lines.iter().map(|line| line.bytes).sum(),
        snapshots: lines,
        forgets,
        unmatched_paths: Vec::new(),
        chunks: weight.map(|it| it.chunks),
        stored_bytes: weight.map(|it| it.stored_bytes),
        is_dry_run,
    })
}

/// The snapshots that were named; a name that several snapshots have is refused.
fn named(client: &mut Client, texts: &[String]) -> Result<Vec<SnapshotId>, Failure> {
    let all = texts.iter().map(|text| vault::select_one(client, text));
    Ok(all.collect::<Result<_, _>>()?)
}

fn hold(args: &VaultHoldArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |client| {
        let wanted = args.snapshots.iter().map(|text| select(client, text));
        let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
        client.hold(&args.name, &wanted, &args.why)?;
        let snapshots = wanted.iter().map(|it| it.0).collect();
        out.held_snapshots(&VaultHeld { held: args.name.clone(), snapshots });
        Ok(())
    })
}

fn release(args: &VaultReleaseArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |client| {
        let snapshots = client.release(&args.name)?;
        out.released_snapshots(&VaultReleased { released: args.name.clone(), snapshots });
        Ok(())
    })
}

fn sanitize(args: &SanitizeArgs, out: &Report) -> Result<(), Failure> {
    check_receipt(args.output.as_deref())?;
    let how = Sanitize { is_read_only: args.read_only, is_dry_run: args.dry_run, share: args.share };
    with(&args.vault, |client| {
        if let Some(control) = args.control() {
            client.control(control)?;
            out.sanitization_controlled(control);
            return Ok(());
        }
        let receipt = with_phases(|tell| match args.watch {
            true => client.watch(tell),
            false => client.sanitize(how, tell),
        })?;
        if let Some(path) = &args.output {
            write_receipt(path, &receipt)?;
        }
        out.sanitized(&receipt, Checked::Made);
        good(receipt.statement.left == 0)
    })
}

/// Does something with a bar of its own for each phase.
fn with_phases<T>(act: impl FnOnce(Tell<'_>) -> Result<T, Error>) -> Result<T, Failure> {
    let stop = Stop::get()?;
    let (bar, mut phase) = (counter(), String::new());
    let done = act(&mut |now, done, of| {
        if now != phase {
            phase = now.into();
            bar.reset();
            bar.set_message(phase.clone());
        }
        bar.set_length(of);
        bar.set_position(done);
        !stop.is_asked()
    });
    bar.finish_and_clear();
    Ok(done?)
}

fn status(args: &OneVaultArgs, out: &Report) -> Result<(), Failure> {
    with(&args.vault, |client| {
        let Fill { layout, status, owed } = client.fill()?;
        let (home, container_bytes) = (client.home(), u64::from(layout.slot_bytes));
        out.vault_status(&VaultStatus {
            vault: args.vault.as_path().into(),
            toml: home.toml().clone(),
            snapshots: status.snapshots,
            owed,
            condemned_bytes: status.condemned as u64 * container_bytes,
            used_bytes: (layout.slots as usize - status.free) as u64 * container_bytes,
            size_bytes: layout.pool_bytes(),
            chunks: status.chunks,
            guarantees: home.guarantees(),
        });
        Ok(())
    })
}

fn stats(args: &OneVaultArgs, out: &Report) -> Result<(), Failure> {
    vault::with_vault_alone(&args.vault, |session| {
        let contents = counting("chunks", |step| Ok(session.vault.contents(step)?))?;
        let all_bytes = snapshots(&mut session.vault)?.iter().map(|line| line.bytes).sum();
        out.vault_stats(&VaultStats { all_bytes, contents });
        Ok(())
    })
}

fn verify(args: &OneVaultArgs, out: &Report) -> Result<(), Failure> {
    vault::with_vault_alone(&args.vault, |session| {
        let verified = counting("containers", |step| Ok(session.vault.verify(step)?))?;
        let damaged = match verified.faults_count {
            0 => Damaged::default(),
            _ => counting("files", |step| {
                Ok(vault::damaged(&mut session.vault, &|chunk| verified.is_whole(chunk), step)?)
            })?,
        };
        let audit_log = session.check_log().err().map(|error| error.to_string());
        let verified = VaultVerified {
            ok: verified.faults_count == 0 && audit_log.is_none(),
            containers: verified.containers,
            chunks: verified.chunks,
            entries: verified.entries,
            reached: verified.reached,
            faults: verified.faults.iter().map(ToString::to_string).collect(),
            faults_count: verified.faults_count,
            audit_log,
            damaged,
        };
        out.vault_verified(&verified);
        good(verified.ok)
    })
}

fn repair(args: &OneVaultArgs, out: &Report) -> Result<(), Failure> {
    let repaired = with_bar(|step| Ok(vault::repair(&args.vault, step)?))?;
    out.vault_repaired(&args.vault, &repaired);
    good(repaired.is_whole())
}

fn prove(args: &VaultProveArgs, out: &Report) -> Result<(), Failure> {
    let known = args.key.as_deref().map(|path| paths::read_text("--key", path)).transpose()?;
    check_receipt(args.output.as_deref())?;
    check_key(args.key.is_some(), args.check.is_some())?;
    if let Some(path) = &args.check {
        let text = paths::read_text("--check", path)?;
        refuse_receipt_of(Subject::Disk, path, &text)?;
        let checked = Checked::with(known.as_deref());
        if format_of(&text).is_some_and(|it| it == "quietus-sanitization-1") {
            let receipt = vault::SanitizeReceipt::parse(&text, known.as_deref());
            let receipt = receipt.map_err(|error| refused_receipt(path, &error))?;
            out.sanitized(&receipt, checked);
            return good(receipt.statement.left == 0 && !receipt.statement.is_dry_run);
        }
        let receipt = vault::VaultReceipt::parse(&text, known.as_deref());
        let receipt = receipt.map_err(|error| refused_receipt(path, &error))?;
        out.vault_proof(&receipt, checked);
        return good(receipt.statement.is_clean());
    }
    let path = args.vault.as_deref().unwrap_or(Path::new(""));
    vault::with_vault_alone(path, |session| {
        let receipt = with_bar(|step| Ok(vault::prove(session, step)?))?;
        if let Some(path) = &args.output {
            write_receipt(path, &receipt)?;
        }
        out.vault_proof(&receipt, Checked::Made);
        good(receipt.statement.is_clean())
    })
}
