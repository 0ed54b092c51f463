//! `quietus repair`: says what it will do, asks, and does it.

use crate::cli::args::RepairArgs;
use crate::cli::report::Report;
use crate::cli::{Failure, good, with_bar};
use crate::offline;
use std::io::{self, IsTerminal, Write};

/// Repairs a disk.
pub(in crate::cli) fn repair(args: &RepairArgs, out: &Report) -> Result<(), Failure> {
    let asks = !args.dry_run && !args.yes && io::stdin().is_terminal() && !out.json;
    if args.dry_run || asks {
        let plan = with_bar(|step| Ok(offline::repair(&args.disk, true, step)?))?;
        out.repaired(&plan);
        if args.dry_run || plan.is_empty() {
            return good(plan.is_empty() && plan.left.is_none());
        }
        if !is_wanted()? {
            return Err(Failure::Error("nothing was changed".into()));
        }
    }
    let done = with_bar(|step| Ok(offline::repair(&args.disk, false, step)?))?;
    out.repaired(&done);
    good(done.left.is_none())
}

fn is_wanted() -> io::Result<bool> {
    eprint!("Repair the disk? To be safe, copy its directory first. [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
