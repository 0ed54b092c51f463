//! The command line.

mod args;
mod epochs;
mod key;
mod past;
mod repair;
mod report;
mod serve;
mod stop;
mod vault;

use crate::audit_log::{self, Directory, HostDirectory};
use crate::control::{self, Call, Refused};
use crate::disk::{CreateOptions, DiskDir, Step};
use crate::keys::Source;
use crate::offline::{self, ExportOf, ImageFormat, OfflineError};
use crate::proof;
use args::{Cli, Command, CreateArgs, DeathsArgs, ProveArgs, PurgeArgs, StatusArgs};
use clap::{CommandFactory, Parser};
use indicatif::{ProgressBar, ProgressStyle};
use quietus_core::units::BLOCK_BYTES;
use report::Report;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use stop::Stop;

/// Divisor of every disk's size, bytes.
const SECTOR_BYTES: u64 = 512;
/// Exit code of a success with a bad result.
const BAD: u8 = 3;
/// How often `status --watch` asks.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How often `deaths --follow` looks for new lines.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Result of a command; the manual documents the exit codes.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command failed: exit code 1.
    Error(String),
    /// The command was done, and the answer is bad (a check failed, dead content was found): exit
    /// code 3.
    Bad,
    /// An epoch to read is forgotten: exit code 3.
    Forgotten(String),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Forgotten(text) => Self::Forgotten(text),
            Refused::Interrupted | Refused::Error(_) => Self::Error(refused.to_string()),
        }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Error(error.to_string())
    }
}

/// The command line, for generated documentation.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr();
    let json = cli.json;
    let (error, code) = match run(cli) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Bad) => return ExitCode::from(BAD),
        Err(Failure::Forgotten(error)) => (error, ExitCode::from(BAD)),
        Err(Failure::Error(error)) => (error, ExitCode::FAILURE),
    };
    if json {
        println!("{}", json!({ "error": error }));
    }
    eprintln!("quietus: {error}");
    code
}

/// Sets up the log. Colours are for people only, and not for those who want none (no-color.org).
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
        Command::Sensitive(args) => {
            out.sensitive(&serde_json::from_value(ask(&args.disk, &Call::Status)?)?);
            Ok(())
        }
        Command::Shred(args) => {
            if !args.now {
                return Err(Failure::Error(
                    "shred: option --now is missing; without it, queued content is destroyed when the disk is idle"
                        .into(),
                ));
            }
            out.shred(&ask(&args.disk, &Call::Shred)?);
            Ok(())
        }
        Command::Purge(args) => purge(&args, &out),
        Command::Export(args) => {
            let source = args.credential.source();
            export(&args.disk, &args.image, args.format, Some(&source), &out)
        }
        Command::Rebase(args) => {
            let done = with_bar(|step| Ok(offline::rebase(&args.disk, &args.base, args.as_it_is, step)?))?;
            out.rebased(&done);
            Ok(())
        }
        Command::Commit(args) => match &args.to {
            Some(image) => export(&args.disk, image, ImageFormat::Raw, None, &out),
            None => {
                out.committed(&with_bar(|step| Ok(offline::commit(&args.disk, step)?))?);
                Ok(())
            }
        },
        Command::Compact(args) => {
            out.compacted(&ask(&args.disk, &Call::Compact)?);
            Ok(())
        }
        Command::Verify(args) => {
            let source = args.read_data.then(|| args.credential.source());
            let call = Call::Verify { read_data: args.read_data };
            let answer =
                with_bar(|step| Ok(control::ask_unlocked(&args.disk, &call, None, source.as_ref(), step)?))?;
            out.verify(&answer);
            good(answer["ok"] == true)
        }
        Command::Repair(args) => repair::repair(&args, &out),
        Command::Key(args) => key::key(&args, &out),
        Command::Epoch(args) => epochs::epoch(&args, &out),
        Command::Versions(args) => epochs::versions(&args, &out),
        Command::Forget(args) => epochs::forget(&args, &out),
        Command::Hold(args) => epochs::hold(&args, &out),
        Command::Release(args) => epochs::release(&args, &out),
        Command::Diff(args) => past::diff(&args, &out),
        Command::Restore(args) => past::restore(&args, &out),
        Command::Prove(args) => prove(&args, &out),
        Command::Vault(args) => vault::vault(&args.command, &out),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "quietus", &mut std::io::stdout());
            Ok(())
        }
    }
}

fn good(good: bool) -> Result<(), Failure> {
    if good { Ok(()) } else { Err(Failure::Bad) }
}

fn create(args: &CreateArgs, out: &Report) -> Result<(), Failure> {
    let options = CreateOptions {
        size: args.size.map(whole_blocks),
        medium: args.adopt.clone().or_else(|| args.medium.clone()),
        adopt: args.adopt.is_some(),
        store: args.store,
        base: args.base.clone(),
        mode: args.mode.map(Into::into),
        policy: args.policy.clone(),
        idle_after_ms: args.idle_after,
        deadline_ms: args.deadline,
        detect_zeroes: args.detect_zeroes,
        versions: args.versions.options(&args.credential),
    };
    let toml = with_bar(|step| match &args.from {
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
    disk: &Path,
    image: &Path,
    format: ImageFormat,
    source: Option<&Source>,
    out: &Report,
) -> Result<(), Failure> {
    let (disk, at) = epochs::split(disk);
    let what = ExportOf { disk: &disk, at: at.as_deref(), source };
    let exported = with_bar(|step| match offline::export(what, image, format, step) {
        Err(OfflineError::Answered(refused)) => Err(refused.into()),
        exported => Ok(exported?),
    });
    out.exported(&exported?);
    Ok(())
}

fn status(args: &StatusArgs, out: &Report) -> Result<(), Failure> {
    let stop = Stop::get()?;
    let mut before = None;
    loop {
        let answer = match ask(&args.disk, &Call::Status) {
            Err(_) if args.watch && stop.is_asked() => return Ok(()),
            answer => answer?,
        };
        let answer: control::StatusAnswer = serde_json::from_value(answer)?;
        out.status(&answer, before.as_ref(), args.watch, args.verbose);
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

/// Prints lines that are added to the audit log from now on, also if there is none yet.
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
        if let Ok(entry) = serde_json::from_slice::<Value>(torn) {
            out.entry(&entry);
        }
        torn.clear();
    }
    Ok(())
}

fn purge(args: &PurgeArgs, out: &Report) -> Result<(), Failure> {
    let ranges = args.ranges.iter().map(|range| (range.start, range.len)).collect();
    let answer = ask(&args.disk, &Call::Purge { ranges, conservative: args.conservative })?;
    out.purged(&answer);
    if args.now {
        out.shred(&ask(&args.disk, &Call::Shred)?);
    }
    Ok(())
}

fn prove(args: &ProveArgs, out: &Report) -> Result<(), Failure> {
    let known = args.key.as_deref().map(read).transpose()?;
    let receipt = match (&args.check, &args.disk) {
        (Some(path), _) => proof::check(&read(path)?, known.as_deref())?,
        (None, Some(disk)) => {
            let answer = ask(disk, &Call::Prove)?;
            if let Some(path) = &args.output {
                write_receipt(path, &answer)?;
            }
            serde_json::from_value(answer)?
        }
        (None, None) => {
            return Err(Failure::Error(
                "prove: the disk is missing; name one, or a receipt with --check".into(),
            ));
        }
    };
    out.proof(&receipt, args.check.is_some());
    good(receipt.statement.is_clean())
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::Error(format!("cannot read {}: {error}", path.display())))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::Error(format!("cannot write {}: {error}", path.display()))
}

fn write_receipt(path: &Path, receipt: &Value) -> Result<(), Failure> {
    let mut file = File::create(path).map_err(|error| unwritten(path, &error))?;
    let text = serde_json::to_string_pretty(receipt)?;
    file.write_all(text.as_bytes()).map_err(|error| unwritten(path, &error))?;
    file.sync_all().map_err(|error| unwritten(path, &error))
}

/// Asks with a progress bar, until Ctrl-C.
fn ask(disk: &Path, call: &Call) -> Result<Value, Failure> {
    with_bar(|step| Ok(control::ask(disk, call, None, step)?))
}

/// Runs a long operation, with a progress bar, until Ctrl-C.
fn with_bar<T>(act: impl FnOnce(Step<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
    let stop = Stop::get()?;
    let bar = bar();
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
