//! Images that e2fsprogs makes, replays and checks are read as e2fsprogs has them.

use super::*;
use programs::{Folder, debugfs, mkfs, run};
use read_back::{Image, file_at, snapshot};
use tree::{Tree, noise};

mod attributes;
mod hostile;
mod journal;
mod layouts;
mod memory;
mod owners;
mod programs;
mod read_back;
mod tree;
mod wide;
