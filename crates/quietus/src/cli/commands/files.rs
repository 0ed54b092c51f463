//! The commands about files in the states of a disk.

use super::epochs::{self, is_same, weighed};
use crate::base::locked::forbid_core_dumps;
use crate::cli::args::{
    CredentialArgs, DiffArgs, DiskCatArgs, DiskFindArgs, DiskMountArgs, FileKind, ForgetArgs, HistoryArgs,
    ViewArg,
};
use crate::cli::output::Mounted;
use crate::cli::report::Report;
use crate::cli::stop::Stop;
use crate::cli::{Failure, good, with_bar};
use crate::files::{self, Disk, FilesWeighed, Look, Target, View, Wanted, Which};
use crate::front::control::Refused;
use crate::host::fuse::Place;
use crate::vault::Globs;
use quietus_files::{Attributes, FileId, Kind};
use std::io;
use std::path::Path;

/// The target, which must name a file.
fn of_file(text: &Path, example: &str) -> Result<Target, Failure> {
    let target = Target::of(text);
    if target.path.is_empty() {
        let text = text.display();
        return Err(Failure::Usage(format!("{text}: no file is named; use {text}:/PATH, as in {example}")));
    }
    Ok(target)
}

pub(in crate::cli) fn cat(args: &DiskCatArgs) -> Result<(), Failure> {
    let target = of_file(&args.target, "vm1@14:/etc/fstab")?;
    with_bar(|step| {
        let disk = Disk::open(&target, &args.credential.source(), step)?;
        let mut look = Look::new(&disk, &target, target.at.as_deref())?;
        let Some(file) = look.find(&target.path)? else {
            let why = format!("{target}: there is no such file; `quietus history` shows when there was");
            return Err(Failure::Error(why));
        };
        Ok(look.cat(file, &mut io::stdout().lock(), step)?)
    })
}

pub(in crate::cli) fn history(args: &HistoryArgs, out: &Report) -> Result<(), Failure> {
    let target = of_file(&args.target, "vm1:/etc/fstab")?;
    if let Some(at) = &target.at {
        return Err(Failure::Usage(format!(
            "{target}: a history is of all epochs; leave out \"@{at}\", or use `quietus cat`"
        )));
    }
    let history = with_bar(|step| {
        let disk = Disk::open(&target, &args.credential.source(), step)?;
        Ok(files::history(&disk, &target, step)?)
    })?;
    out.history(&history);
    if history.versions.is_empty() && history.unreadable.is_empty() {
        return Err(Failure::Error(format!(
            "{target}: no kept epoch has such a file, nor has the current state"
        )));
    }
    good(history.unreadable.is_empty())
}

pub(in crate::cli) fn mount(args: &DiskMountArgs, out: &Report) -> Result<(), Failure> {
    // Content passes through memory, and no forget reaches a core dump.
    forbid_core_dumps();
    let stop = Stop::get()?;
    let target = Target::of(&args.target);
    if target.at.is_some() || !target.path.is_empty() {
        let disk = Target { at: None, path: String::new(), ..target.clone() };
        return Err(Failure::Usage(format!("{target}: all epochs are mounted; name the disk alone, {disk}")));
    }
    let place = Place::new(&args.at, "the disk")?.for_others(args.allow_other);
    let disk = with_bar(|step| Ok(Disk::open(&target, &args.credential.source(), step)?))?;
    let only = args.only.map(|view| match view {
        ViewArg::Epochs => View::Epochs,
        ViewArg::Times => View::Times,
        ViewArg::Files => View::Files,
        ViewArg::Gmt => View::Gmt,
    });
    let mounted = Mounted { mounted: args.at.as_path().into(), disk: target.to_string() };
    let ready = || out.mounted(&mounted, &args.at);
    Ok(files::mount(&disk, &target, &place, only, ready, || stop.is_asked())?)
}

/// Lists the files that differ between two states.
pub(super) fn diff(args: &DiffArgs, out: &Report) -> Result<(), Failure> {
    let from = Target::of(&args.from);
    let to = args.to.as_deref().map_or(Target { at: None, ..from.clone() }, Target::of);
    if !is_same(&from.disk, &to.disk) || !(to.path.is_empty() || to.path == from.path) {
        return Err(Failure::Usage(format!("{from} and {to}: name one path of one disk, in two epochs")));
    }
    let mut tell = |it| out.file_difference(&it);
    let compared = with_bar(|step| {
        let disk = Disk::open(&from, &args.credential.source(), step)?;
        let mut one = Look::new(&disk, &from, from.at.as_deref())?;
        let mut other = Look::new(&disk, &from, to.at.as_deref())?;
        Ok(files::differences([&mut one, &mut other], &from.path, &mut tell, step)?)
    })?;
    out.files_compared(&compared);
    good(compared.refused.is_empty())
}

/// Brings files back into the folder `into`.
pub(super) fn bring_back(
    target: &Path,
    into: &Path,
    credential: &CredentialArgs,
    out: &Report,
) -> Result<(), Failure> {
    let target = Target::of(target);
    let path = if target.path.is_empty() { "/" } else { &target.path };
    let done = with_bar(|step| {
        let disk = Disk::open(&target, &credential.source(), step)?;
        let mut look = Look::new(&disk, &target, target.at.as_deref())?;
        let Some(file) = look.find(path)? else {
            return Err(Failure::Error(format!("{target}: there is no such file or folder")));
        };
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        Ok(files::bring_back(&mut look, (file, name.as_bytes()), into, step)?)
    })?;
    out.brought_back(&done);
    good(done.refused.is_empty())
}

/// The options of a search.
struct Options<'a> {
    pattern: Option<Globs>,
    args: &'a DiskFindArgs,
}

impl Wanted for Options<'_> {
    fn wants(&self, path: &[u8], _: FileId, attributes: &Attributes) -> bool {
        let is_kind = |kind| match kind {
            FileKind::File => attributes.kind == Kind::Regular,
            FileKind::Folder => attributes.kind == Kind::Folder,
            FileKind::Link => attributes.kind == Kind::Link,
        };
        self.args.uid.is_none_or(|uid| attributes.owner.is_some_and(|(owner, _)| owner == uid))
            && self.args.kind.is_none_or(is_kind)
            && self.pattern.as_ref().is_none_or(|pattern| pattern.have(path))
    }
}

pub(in crate::cli) fn find(args: &DiskFindArgs, out: &Report) -> Result<(), Failure> {
    let target = Target::of(&args.target);
    if let Some(at) = target.at.as_ref().filter(|_| args.epochs) {
        return Err(Failure::Usage(format!("{target}: --epochs searches all epochs; leave out \"@{at}\"")));
    }
    let globs = |pattern: &String| Globs::new("the pattern", std::slice::from_ref(pattern));
    let pattern = args.pattern.as_ref().map(globs).transpose()?;
    let wanted = Options { pattern, args };
    let mut tell = |it| out.found_file(&it);
    let found = with_bar(|step| {
        let disk = Disk::open(&target, &args.credential.source(), step)?;
        if args.epochs {
            return Ok(files::find_in_all(&disk, &target, &wanted, &mut tell, step)?);
        }
        let mut look = Look::new(&disk, &target, target.at.as_deref())?;
        let path = if target.path.is_empty() { "/" } else { &target.path };
        let Some(folder) = look.find(path)? else {
            return Err(Failure::Error(format!("{target}: there is no such folder")));
        };
        Ok(files::find(&mut look, (folder, path.as_bytes()), &wanted, &mut tell, step)?)
    })?;
    out.searched_files(&found);
    good(found.refused.is_empty())
}

/// The text after an interrupted forget of files.
const INTERRUPTED: &str = "interrupted: what was noted by then is forgotten, and the server goes on to destroy it; repeat the command for the rest, and `quietus status` shows when that is done";

/// What a pattern wants: any file whose path it is of.
struct Pattern(Globs);

impl Wanted for Pattern {
    fn wants(&self, path: &[u8], _: FileId, _: &Attributes) -> bool {
        self.0.have(path)
    }
}

/// Forgets files, epochs or blocks.
pub(in crate::cli) fn forget(args: &ForgetArgs, out: &Report) -> Result<(), Failure> {
    let target = Target::of(&args.target);
    let is_of_blocks = !(args.chain.is_empty() && args.range.is_empty());
    let is_of_files = args.versions.is_some() || args.before.is_some() || args.one_witness;
    match target.path.is_empty() {
        false if is_of_blocks => Err(Failure::Usage(format!(
            "{target}: --chain and --range forget blocks; leave out the path, or these"
        ))),
        false => forget_files(&target, args, out),
        true if is_of_files => Err(Failure::Usage(format!(
            "--versions, --before and --one-witness are of files; name one, as in {target}:/PATH, or epochs, as in {target}@17..20"
        ))),
        true => epochs::forget(args, out),
    }
}

/// Forgets files in all epochs, or in some.
fn forget_files(target: &Target, args: &ForgetArgs, out: &Report) -> Result<(), Failure> {
    if let Some(at) = &target.at {
        return Err(Failure::Usage(format!(
            "{target}: files are forgotten in all epochs; leave out \"@{at}\", and use --before or --versions for some"
        )));
    }
    let is_pattern = target.path.starts_with('/') && target.path.contains(['*', '?', '[', '{']);
    let globs = || Globs::new("the pattern", std::slice::from_ref(&target.path)).map(Pattern);
    let pattern = is_pattern.then(globs).transpose()?;
    let which = match (&args.versions, &args.before) {
        (Some(_), _) if is_pattern => {
            return Err(Failure::Usage(format!("{target}: --versions are those of one file; use --before")));
        }
        (Some(numbers), _) => Which::Versions(numbers.clone()),
        (None, Some(at)) => Which::Before(at.clone()),
        (None, None) => Which::All,
    };
    let planning = with_bar(|step| {
        let disk = Disk::open(target, &args.credential.source(), step)?;
        let pattern = pattern.as_ref().map(|it| it as &dyn Wanted);
        Ok(files::plan_forget(&disk, target, (&which, pattern), !args.one_witness, step)?)
    })?;
    if planning.weighed.files == 0 {
        return Err(Failure::Error(format!(
            "{target}: no kept epoch has such a file, nor has the current state"
        )));
    }
    let is_all = |it: &FilesWeighed| good(it.is_all_that_is_asked(&which));
    let result = is_all(&planning.weighed);
    if !weighed(args.consent, || {
        out.files_weighed(&planning.weighed);
        Ok(())
    })? {
        return result;
    }
    let done = with_bar(|step| match files::forget(&target.disk, planning, args.wait, step) {
        Err(files::Error::Interrupted | files::Error::Refused(Refused::Interrupted)) => {
            Err(Failure::Interrupted(INTERRUPTED.into()))
        }
        done => Ok(done?),
    })?;
    out.files_forgotten(&done);
    result
}
