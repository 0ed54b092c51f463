//! `quietus key`: the keys of a disk that is not served.

use super::Failure;
use super::args::{KeyAction, KeyArgs};
use super::report::Report;
use crate::disk::{Access, DiskDir};
use crate::host::{self, Level};
use crate::keys::{self, Keys, Purpose};
use quietus_seal::keys::SlotNumber;

pub(super) fn key(args: &KeyArgs, out: &Report) -> Result<(), Failure> {
    let is_list = matches!(args.action, KeyAction::List);
    let access = if is_list { Access::ReadOnly } else { Access::ReadWrite };
    let dir = DiskDir::open_with(&args.disk, access, &mut |_, _| true)?;
    match &args.action {
        KeyAction::List => out.key_slots(&keys::stored(&dir)?.file().slots()),
        KeyAction::Add { credential, new } => {
            let mut keys = Keys::open(&dir, &credential.source())?;
            let secret = new.source().read(&dir.name(), Purpose::New)?;
            out.key_added(keys.add(&secret)?);
        }
        KeyAction::Remove { slot, credential } => remove(&dir, *slot, &credential.source(), out)?,
        KeyAction::Rotate { credential } => {
            out.key_rotated(Keys::open(&dir, &credential.source())?.rotate()?.0);
        }
    }
    Ok(())
}

fn remove(dir: &DiskDir, slot: u8, source: &keys::Source, out: &Report) -> Result<(), Failure> {
    keys::remove(dir, SlotNumber(slot), source)?;
    let file = dir.keys_path().and_then(|path| host::inspect(&path).ok());
    let level = file.map_or(Level::NotAssured, |file| file.level);
    out.key_removed(slot, dir.config()?.policy.passes().len(), level);
    Ok(())
}
