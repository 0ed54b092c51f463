//! What a command is about to do that cannot be undone: said first, and asked at a terminal.
//!
//! Without a terminal nothing is asked, so that scripts go on as with `--yes`: they named the act.

use super::Failure;
use super::args::ConsentArgs;
use super::report::{Report, bytes};
use super::stop::Stop;
use crate::cli::output::Plan;
use crate::host::guarantees::{self, Layer};
use std::fs::File;
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What a command is about to do.
pub(super) struct Act {
    /// The act in a sentence.
    pub(super) text: String,
    /// The same, as a report.
    pub(super) plan: Plan,
}

impl ConsentArgs {
    /// Whether a person is asked.
    pub(super) fn asks(self) -> bool {
        !self.yes && !self.dry_run && io::stdin().is_terminal() && io::stderr().is_terminal()
    }
}

/// Says what `plan` has if that is asked for, or if a person is to decide. Returns whether to go on.
pub(super) fn agreed(
    consent: ConsentArgs,
    out: &Report,
    plan: impl FnOnce() -> Result<Act, Failure>,
) -> Result<bool, Failure> {
    if consent.dry_run {
        let Act { text, plan } = plan()?;
        out.planned(&plan, &format!("would {text}; nothing was changed"));
        return Ok(false);
    }
    if consent.asks() {
        ask(&format!("about to {}", plan()?.text))?;
    }
    Ok(true)
}

/// Says `what`, and asks the person at the terminal whether to go on.
pub(super) fn ask(what: &str) -> Result<(), Failure> {
    let stop = Stop::get()?;
    eprint!("{what}\nGo on? [y/N] ");
    io::stderr().flush()?;
    let mut line = String::new();
    if !stop.wait_for(&io::stdin())? {
        eprintln!();
        return Err(Failure::Interrupted("interrupted; nothing was changed".into()));
    }
    io::stdin().read_line(&mut line)?;
    match line.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Error("not agreed to; nothing was changed".into())),
    }
}

/// The plan to make `what`, on these block devices, whose content dies.
pub(super) fn making(what: &Path, devices: &[PathBuf]) -> Act {
    let named: Vec<String> = devices.iter().map(|path| device(path)).collect();
    let dies = match named.is_empty() {
        true => String::new(),
        false => format!(", and destroy the present content of {}", named.join(" and ")),
    };
    Act {
        text: format!("make {}{dies}", what.display()),
        plan: Plan::Make {
            makes: what.into(),
            destroys: devices.iter().map(|it| it.display().to_string()).collect(),
        },
    }
}

/// A block device, as people know it: its size and its model.
fn device(path: &Path) -> String {
    let size = File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    let size = size.map_or("of unknown size".into(), bytes);
    let facts = guarantees::inspect(path).ok();
    let model = facts.as_ref().and_then(|it| match it.facts.layers.first()? {
        Layer::Device(device) => device.model.clone(),
        Layer::File(_) => None,
    });
    let model = model.map_or(String::new(), |model| format!(", {model}"));
    format!("{} ({size}{model})", path.display())
}
