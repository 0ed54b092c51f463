//! Text of a history, for people.

use super::{Action, History, Step};
use std::fmt;

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "// seed {}", self.seed)?;
        writeln!(f, "let setup = {:#?};", self.setup)?;
        writeln!(f, "let steps = [")?;
        self.steps.iter().try_for_each(|step| writeln!(f, "    {step},"))?;
        write!(f, "];")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after({:3}, {:#018x}, ", self.turns, self.salt)?;
        match self.action {
            Action::Send { ask, extent, fua } => {
                let fua = if fua { ".fua()" } else { "" };
                write!(f, "{:?}.sends({ask:?}, {}, {}){fua}", self.tag, extent.start.0, extent.len)?;
            }
            action => write!(f, "{action:?}")?,
        }
        write!(f, ")")
    }
}
