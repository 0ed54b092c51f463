//! The command line.
//!
//! | question | where |
//! | --- | --- |
//! | options, and what a name may be | `args`, and `crate::base::naming` |
//! | what is said and asked before something is lost for ever; how a command ends | `consent`, `failure` |
//! | reports, as text and as JSON | `report`, `output` |

mod args;
mod commands;
mod complete;
mod consent;
mod failure;
pub mod output;
mod report;
mod stop;

use crate::base::signed::Signed;
use crate::disk::keys::Source;
use crate::disk::pace::{pace, pace_on_chip};
use crate::disk::{CreateOptions, DiskDir, Step};
use crate::evidence::audit_log::{self, Directory, HostDirectory};
use crate::front::control::{
    self, Answer, Call, Compacted, PurgeWeighed, Purged, Require, Shredded, StatusAnswer, Verdict,
};
use crate::host::media::flash::FlashPlace;
use crate::host::paths::{self, Subject};
use crate::offline::{self, ExportOf, ImageFormat, OfflineError};
use crate::proof::{Checks, Receipt};
use args::{Cli, Command, CommitArgs, CreateArgs, DeathsArgs, ProveArgs, PurgeArgs, StatusArgs};
use clap::{CommandFactory, Parser};
use commands::{doctor, epochs, files, key, list, past, repair, serve, vault};
use consent::Act;
pub(crate) use failure::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use output::{ErrorReport, Plan};
use quietus_core::base::units::BLOCK_BYTES;
use report::{Checked, Report};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use stop::Stop;

/// Divisor of every disk's size, bytes.
const SECTOR_BYTES: u64 = 512;
/// How often `status --watch` asks.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How often `deaths --follow` looks for new lines.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// The command line, for generated documentation.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    complete::answer(Cli::command);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => misread(&error),
    };
    log_to_stderr();
    let json = cli.json;
    let failure = match run(cli) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    if let Some(error) = failure.text() {
        if json {
            report_error(error);
        }
        eprintln!("quietus: {error}");
    }
    ExitCode::from(failure.status())
}

/// Says what is wrong with the command line, or what was asked for: the help, the version.
fn misread(error: &clap::Error) -> ! {
    let is_json = std::env::args_os().take_while(|it| it != "--").any(|it| it == "--json");
    if error.use_stderr() && is_json {
        let text = error.to_string();
        let text = text.split("\n\nUsage:").next().unwrap_or_default();
        let text = text.split("\n\nFor more information").next().unwrap_or_default();
        report_error(text.trim().trim_start_matches("error: "));
    }
    error.exit()
}

/// Prints an error as a report; the text on standard error follows even if standard output is closed.
fn report_error(error: &str) {
    let line = output::line(&ErrorReport { error: error.into() });
    let _ = writeln!(io::stdout(), "{line}");
}

/// Sets up the log. Colours are for terminals only, and off with `NO_COLOR` (no-color.org).
fn log_to_stderr() {
    // The library of FUSE warns of each request that a file system to read does not need.
    let filter = tracing_subscriber::EnvFilter::try_from_env("QUIETUS_LOG");
    let filter = filter.unwrap_or_else(|_| "info,fuser=error".into());
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    let colours = std::io::stderr().is_terminal() && !no_color;
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();
}

fn run(cli: Cli) -> Result<(), Failure> {
    let out = Report { json: cli.json };
    match cli.command {
        Command::Create(args) => create(&args, &out),
        Command::Serve(args) => serve::serve(args, &out),
        Command::Status(args) => status(&args, &out),
        Command::Deaths(args) => deaths(&args, &out),
        Command::List(args) => list::list(&args, &out),
        Command::Doctor(args) => doctor::doctor(&args, &out),
        Command::Sensitive(args) => ask(&args.disk, &Call::Status).map(|it| out.sensitive(&it)),
        Command::Wear(args) => {
            out.wear(&ask(&args.disk, &Call::Wear)?);
            Ok(())
        }
        Command::Shred(args) => {
            if !args.now {
                return Err(Failure::Usage(
                    "shred: --now is missing; without --now, queued content is destroyed when the disk is idle"
                        .into(),
                ));
            }
            shred(&args.disk, &out)
        }
        Command::Purge(args) => purge(&args, &out),
        Command::Export(args) => {
            let (source, zeros) = (args.credential.source(), args.gone.is_some());
            export((&args.disk, zeros), &args.image, args.format, Some(&source), &out)
        }
        Command::Rebase(args) => {
            let done = with_bar(|step| Ok(offline::rebase(&args.disk, &args.base, args.as_it_is, step)?));
            done.map(|it| out.rebased(&it))
        }
        Command::Commit(args) => match &args.to {
            Some(image) => export((&args.disk, false), image, ImageFormat::Raw, None, &out),
            None => commit(&args, &out),
        },
        Command::Compact(args) => {
            let answer: Compacted = ask(&args.disk, &Call::Compact)?;
            out.compacted(&answer);
            done(answer.done, "interrupted: the rest is packed later")
        }
        Command::Verify(args) => {
            let source = args.read_data.then(|| args.credential.source());
            let call = Call::Verify { read_data: args.read_data };
            let checks: Checks =
                with_bar(|step| Ok(control::ask_unlocked(&args.disk, &call, None, source.as_ref(), step)?))?;
            out.verify(&checks);
            good(checks.ok)
        }
        Command::Repair(args) => repair::repair(&args, &out),
        Command::Key(args) => key::key(&args, &out),
        Command::Epoch(args) => epochs::epoch(&args, &out),
        Command::Versions(args) => epochs::versions(&args, &out),
        Command::Forget(args) => files::forget(&args, &out),
        Command::Hold(args) => epochs::hold(&args, &out),
        Command::Release(args) => epochs::release(&args, &out),
        Command::Diff(args) => past::diff(&args, &out),
        Command::History(args) => files::history(&args, &out),
        Command::Find(args) => files::find(&args, &out),
        Command::Cat(args) => files::cat(&args),
        Command::Mount(args) => files::mount(&args, &out),
        Command::Restore(args) => past::restore(&args, &out),
        Command::Prove(args) => prove(&args, &out),
        Command::Vault(args) => vault::vault(&args.command, &out),
        Command::Completions { shell } => Ok(complete::write_registration(shell, &mut io::stdout())?),
    }
}

/// Fails if an operation was interrupted whose answer has been reported.
fn done(done: bool, interrupted: &str) -> Result<(), Failure> {
    if done { Ok(()) } else { Err(Failure::Interrupted(interrupted.into())) }
}

fn shred(disk: &Path, out: &Report) -> Result<(), Failure> {
    let answer: Shredded = ask(disk, &Call::Shred)?;
    out.shred(&answer);
    done(answer.done, "interrupted: the rest stays queued")
}

fn commit(args: &CommitArgs, out: &Report) -> Result<(), Failure> {
    let plan = || {
        let found = with_bar(|step| Ok(offline::weigh_commit(&args.disk, step)?))?;
        let (base, written) = (found.base.display(), report::bytes(found.written_bytes));
        let text = format!(
            "write up to {written} of changes to {base}; other overlays above this base image can then no longer be opened"
        );
        Ok(Act { text, plan: Plan::Commit(found) })
    };
    if consent::agreed(args.consent, out, plan)? {
        out.committed(&with_bar(|step| Ok(offline::commit(&args.disk, step)?))?);
    }
    Ok(())
}

fn good(good: bool) -> Result<(), Failure> {
    if good { Ok(()) } else { Err(Failure::Bad) }
}

fn create(args: &CreateArgs, out: &Report) -> Result<(), Failure> {
    let versions = args.versions.options(&args.credential);
    let root = versions.root_kind().map_err(|error| Failure::Usage(format!("create: --root: {error}")))?;
    let pace = pace(root.as_ref(), &args.policy, args.deadline);
    let is_on_chip = args.medium.as_deref().is_some_and(|path| FlashPlace::of(path).is_some());
    let pace = if is_on_chip { pace_on_chip(pace) } else { pace };
    let options = CreateOptions {
        size: args.size.map(whole_blocks),
        medium: args.adopt.clone().or_else(|| args.medium.clone()),
        adopt: args.adopt.is_some(),
        store: args.store,
        base: args.base.clone(),
        from: args.from.clone(),
        mode: args.mode.map(Into::into),
        policy: args.policy.clone(),
        idle_after_ms: args.idle_after.unwrap_or(pace.idle_after_ms),
        deadline_ms: pace.deadline_ms,
        detect_zeroes: args.detect_zeroes,
        versions,
    };
    let devices = DiskDir::plan(&args.disk, &options)?;
    let plan = || Ok(consent::making(&args.disk, &devices));
    if (args.consent.dry_run || !devices.is_empty()) && !consent::agreed(args.consent, out, plan)? {
        return Ok(());
    }
    let toml = with_bar(|step| match &options.from {
        Some(image) => Ok(offline::create_from(&args.disk, &options, image, step)?),
        None => Ok(DiskDir::create_with(&args.disk, &options, step)?),
    })?;
    let guarantees = toml.guarantees(&args.disk);
    out.created(&args.disk, &toml, args.size, &guarantees);
    Ok(())
}

/// The size of a disk that is to have `bytes`: a number of sectors as it is,
/// anything else in whole blocks.
fn whole_blocks(bytes: u64) -> u64 {
    let blocks = bytes.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(bytes);
    if bytes.is_multiple_of(SECTOR_BYTES) { bytes } else { blocks }
}

fn export(
    (disk, zeros): (&Path, bool),
    image: &Path,
    format: ImageFormat,
    source: Option<&Source>,
    out: &Report,
) -> Result<(), Failure> {
    let (disk, at) = epochs::split(disk);
    let what = ExportOf { disk: &disk, at: at.as_deref(), zeros, source };
    let exported = with_bar(|step| match offline::export(what, image, format, step) {
        Err(OfflineError::Answered(refused)) => Err(refused.into()),
        exported => Ok(exported?),
    });
    exported.map(|it| out.exported(&it))
}

fn status(args: &StatusArgs, out: &Report) -> Result<(), Failure> {
    let stop = Stop::get()?;
    let mut before = None;
    loop {
        let answer: StatusAnswer = match ask(&args.disk, &Call::Status) {
            Err(_) if args.watch && stop.is_asked() => return Ok(()),
            answer => answer?,
        };
        out.status(&answer, before.as_ref(), args.watch, args.verbose);
        if let Some(require) = args.require {
            return good(require.is_met(&answer.verdict, &answer.status.policy));
        }
        if !args.watch || !stop.sleep(WATCH_EVERY) {
            return Ok(());
        }
        before = Some(answer);
    }
}

fn deaths(args: &DeathsArgs, out: &Report) -> Result<(), Failure> {
    let stop = Stop::get()?;
    out.owed(&ask(&args.disk, &Call::Deaths)?);
    let dir = HostDirectory(args.disk.clone());
    if args.follow {
        return follow(&dir, stop, out);
    }
    for name in audit_log::names(&dir)? {
        print_lines(&mut BufReader::new(dir.read(&name)?), &mut Vec::new(), out)?;
    }
    Ok(())
}

/// Prints lines that are added to the audit log from now on, also if the log does not exist yet.
fn follow(dir: &HostDirectory, stop: &Stop, out: &Report) -> Result<(), Failure> {
    let mut torn = Vec::new();
    let mut reader = current_log(dir)?;
    if let Some(reader) = &mut reader {
        reader.seek(SeekFrom::End(0))?;
    }
    loop {
        let is_current = match &reader {
            Some(reader) => dir.is_at(reader.get_ref(), audit_log::CURRENT)?,
            None => false,
        };
        if let Some(reader) = &mut reader {
            print_lines(reader, &mut torn, out)?;
        }
        if !is_current && let Some(next) = current_log(dir)? {
            (reader, torn) = (Some(next), Vec::new());
        }
        if !stop.sleep(FOLLOW_EVERY) {
            return Ok(());
        }
    }
}

fn current_log(dir: &HostDirectory) -> Result<Option<BufReader<File>>, Failure> {
    match dir.read(audit_log::CURRENT) {
        Ok(file) => Ok(Some(BufReader::new(file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Prints new lines; `torn` is the beginning of the line that has no end yet.
fn print_lines(reader: &mut impl BufRead, torn: &mut Vec<u8>, out: &Report) -> Result<(), Failure> {
    while reader.read_until(b'\n', torn)? > 0 && torn.ends_with(b"\n") {
        out.events(&output::audit_entries(torn));
        torn.clear();
    }
    Ok(())
}

fn purge(args: &PurgeArgs, out: &Report) -> Result<(), Failure> {
    let ranges: Vec<_> = args.ranges.iter().map(|range| (range.start, range.len)).collect();
    let plan = || {
        let weighed: PurgeWeighed = ask(&args.disk, &Call::WeighPurge { ranges: ranges.clone() })?;
        let act = match args.conservative {
            true => "destroy older content below, and keep the present content",
            false => "destroy that content for ever",
        };
        let text = format!(
            "{act}: {} ranges of {}, {} of {}, of which {} hold content",
            ranges.len(),
            args.disk.display(),
            report::bytes(weighed.bytes),
            report::bytes(weighed.size_bytes),
            report::bytes(weighed.live_bytes)
        );
        Ok(Act { text, plan: Plan::Purge(weighed) })
    };
    if !consent::agreed(args.consent, out, plan)? {
        return Ok(());
    }
    let answer: Purged = ask(&args.disk, &Call::Purge { ranges, conservative: args.conservative })?;
    out.purged(&answer);
    if args.now {
        return shred(&args.disk, out);
    }
    Ok(())
}

fn prove(args: &ProveArgs, out: &Report) -> Result<(), Failure> {
    let known = args.key.as_deref().map(|path| paths::read_text("--key", path)).transpose()?;
    check_receipt(args.output.as_deref())?;
    check_key(args.key.is_some(), args.check.is_some())?;
    let receipt = match (&args.check, &args.disk) {
        (Some(path), _) => {
            let text = paths::read_text("--check", path)?;
            refuse_receipt_of(Subject::Vault, path, &text)?;
            Receipt::parse(&text, known.as_deref()).map_err(|error| refused_receipt(path, &error))?
        }
        (None, Some(disk)) => {
            let receipt: Receipt = ask(disk, &Call::Prove)?;
            args.output.as_ref().map_or(Ok(()), |path| write_receipt(path, &receipt))?;
            receipt
        }
        (None, None) => {
            return Err(Failure::Usage(
                "prove: no disk is named; name a disk, or a receipt with --check".into(),
            ));
        }
    };
    let checked = if args.check.is_some() { Checked::with(known.as_deref()) } else { Checked::Made };
    out.proof(&receipt, checked);
    let is_met =
        |require: Require| require.is_met(&Verdict::of_proof(&receipt.statement), &receipt.statement.policy);
    good(receipt.statement.is_clean() && args.require.is_none_or(is_met))
}

/// Checks where a receipt is to be written, before it is made: an older receipt is replaced, and nothing else.
fn check_receipt(path: Option<&Path>) -> Result<(), Failure> {
    let is_receipt = |text: &str| format_of(text).is_some();
    Ok(path.map_or(Ok(()), |path| paths::check_output("--output", path, is_receipt))?)
}

/// The format of a receipt, whatever it is about.
fn format_of(receipt: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Statement {
        format: String,
    }
    serde_json::from_str::<Signed<Statement>>(receipt).ok().map(|it| it.statement.format)
}

/// Refuses a key for a receipt that is made and not checked.
fn check_key(has_key: bool, checks: bool) -> Result<(), Failure> {
    match has_key && !checks {
        true => Err(Failure::Usage(
            "prove: --key needs --check; a new receipt is signed by the key of the disk or vault".into(),
        )),
        false => Ok(()),
    }
}

/// Refuses a receipt of another subject.
fn refuse_receipt_of(other: Subject, path: &Path, text: &str) -> Result<(), Failure> {
    let format = format_of(text).unwrap_or_default();
    let of_vault = ["quietus-vault-proof-1", "quietus-sanitization-1"].contains(&format.as_str());
    let (is_other, command) = match other {
        Subject::Vault => (of_vault, "quietus vault prove --check"),
        Subject::Disk => (format == "quietus-proof-1", "quietus prove --check"),
    };
    match is_other {
        true => Err(Failure::Error(format!("{}: a receipt of a {other}; use `{command}`", path.display()))),
        false => Ok(()),
    }
}

fn refused_receipt(path: &Path, error: &impl std::fmt::Display) -> Failure {
    Failure::Error(format!("{}: {error}", path.display()))
}

fn write_receipt(path: &Path, receipt: &impl Serialize) -> Result<(), Failure> {
    Ok(paths::write_output(path, &serde_json::to_string_pretty(receipt)?)?)
}

/// Asks with a progress bar, until Ctrl-C.
fn ask<T: Answer>(disk: &Path, call: &Call) -> Result<T, Failure> {
    with_bar(|step| Ok(control::ask(disk, call, None, step)?))
}

/// Runs a long operation, with a progress bar, until Ctrl-C.
fn with_bar<T>(act: impl FnOnce(Step<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
    showing(&bar(), act)
}

/// Runs a long operation and shows its progress on `bar`, until Ctrl-C.
fn showing<T>(bar: &ProgressBar, act: impl FnOnce(Step<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
    let stop = Stop::get()?;
    let done = act(&mut |done, of| {
        bar.set_length(of);
        bar.set_position(done);
        !stop.is_asked()
    });
    bar.finish_and_clear();
    done
}

/// A progress bar, which is drawn at the first step.
pub(super) fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec} ETA {eta}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
