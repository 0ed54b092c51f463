//! `quietus key`: the keys of a disk that is not served.

use crate::cli::Failure;
use crate::cli::args::{KeyAction, KeyArgs};
use crate::cli::report::Report;
use crate::disk::keys::{self, KeyFileOf, Keys, KeysError, Purpose};
use crate::disk::{Access, DiskDir};
use crate::host::guarantees::{self, Level};
use quietus_seal::keys::SlotNumber;

pub(in crate::cli) fn key(args: &KeyArgs, out: &Report) -> Result<(), Failure> {
    let is_list = matches!(args.action, KeyAction::List);
    let access = if is_list { Access::ReadOnly } else { Access::ReadWrite };
    let dir = DiskDir::open_with(&args.disk, access, &mut |_, _| true)?;
    let file = dir.key_file().ok_or_else(|| KeysError::NoKeys(dir.path().into()))?;
    match &args.action {
        KeyAction::List => out.key_slots(&keys::stored(&file)?.file().slots()),
        KeyAction::Add { credential, new } => {
            let mut keys = Keys::open(&file, &credential.source())?;
            let secret = new.source().read(&file.name, Purpose::New)?;
            out.key_added(keys.add(&secret)?);
        }
        KeyAction::Remove { slot, credential } => remove(&dir, &file, (*slot, &credential.source()), out)?,
        KeyAction::Rotate { .. } if dir.toml().sealed.is_some() => {
            return Err(KeysError::OneMaster(dir.path().into()).into());
        }
        KeyAction::Rotate { credential } => {
            out.key_rotated(Keys::open(&file, &credential.source())?.rotate()?.0);
        }
    }
    Ok(())
}

fn remove(
    dir: &DiskDir,
    file: &KeyFileOf,
    (slot, source): (u8, &keys::Source),
    out: &Report,
) -> Result<(), Failure> {
    let policy = dir.config()?.policy;
    keys::remove(file, SlotNumber(slot), source, &policy)?;
    let level = guarantees::inspect(&file.path).map_or(Level::NotAssured, |file| file.level);
    out.key_removed(slot, policy.passes().len(), level);
    Ok(())
}
