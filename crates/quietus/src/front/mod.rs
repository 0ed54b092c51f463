//! Front ends: the protocols by which clients reach disks; and the [control socket](control), by which an operator's
//! commands reach the server of a disk.
//!
//! 1. `serve`, and all below it, know [front ends](FrontEnd), but no protocol by name. A new front end is a folder here and a
//!    line of [`PROTOCOLS`].
//! 2. A front end reaches disks only as [exports](crate::engine::export::Export).
//! 3. What one protocol alone knows lies in its folder: its options on the command line, its addresses, its limits.

pub mod control;
mod exports;
pub mod nbd;
#[cfg(test)]
mod tests;

use clap::{ArgMatches, Args, Command, FromArgMatches};
pub use exports::{Disks, Exports};
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::time::Instant;

/// All protocols.
const PROTOCOLS: &[Protocol] = &[Protocol::of::<nbd::NbdArgs>()];

/// A front end, as the command line asks for it.
pub trait FrontEnd: Debug + Send + Sync {
    /// Looks at what the options name, before a disk is opened.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self) -> io::Result<()>;

    /// Begins to serve; `None` if the command line does not ask for this front end.
    ///
    /// # Errors
    /// An address cannot be used, or the host refuses.
    fn start(&self, terms: &Terms<'_>) -> io::Result<Option<Box<dyn Service>>>;
}

/// Everything that a front end is given.
pub struct Terms<'a> {
    /// The disks to serve.
    pub exports: Exports,
    /// Directory of the first disk, for a socket that the command line does not name.
    pub dir: &'a Path,
    /// Most payload bytes in flight at once.
    pub memory_bytes_max: usize,
}

/// A front end that serves. When dropped, it ends, and does not wait for what is in flight.
pub trait Service: Send + Sync {
    /// The addresses by which clients reach the disks.
    fn uris(&self) -> Vec<String>;

    /// Variables of the environment that tell a command of `--run` how to reach the disks.
    fn environment(&self) -> Vec<(&'static str, String)>;

    /// Reads the files of the options anew, for clients that come from now on.
    ///
    /// # Errors
    /// The settings that stay as they were. The reason is in the log.
    fn reload(&self) -> Result<(), &'static str>;

    /// Whether no new client can come.
    fn is_private(&self) -> bool;

    /// Waits until no client is connected.
    fn wait_until_idle(&self);

    /// Accepts no more clients, lets requests in flight end, and cuts off whatever is not done at the `deadline`.
    /// Returns whether all was done.
    fn shutdown(&self, deadline: Instant) -> bool;
}

/// A protocol: the options that it has, and the front end that they ask for.
#[derive(Clone, Copy)]
struct Protocol {
    options: fn(Command) -> Command,
    front_end: fn(&ArgMatches) -> Result<Box<dyn FrontEnd>, clap::Error>,
}

impl Protocol {
    const fn of<T: Args + FrontEnd + 'static>() -> Self {
        Self {
            options: T::augment_args,
            front_end: |matches| T::from_arg_matches(matches).map(|it| Box::new(it) as Box<dyn FrontEnd>),
        }
    }
}

/// The front ends, as the command line asks for them: options of `serve`, like any other [`Args`].
#[derive(Debug)]
pub struct FrontEnds(Vec<Box<dyn FrontEnd>>);

impl FrontEnds {
    fn of(protocols: &[Protocol], matches: &ArgMatches) -> Result<Self, clap::Error> {
        protocols.iter().map(|it| (it.front_end)(matches)).collect::<Result<_, _>>().map(Self)
    }

    /// [Checks](FrontEnd::check) all front ends.
    ///
    /// # Errors
    /// The fault of the first export that has one.
    pub fn check(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|it| it.check())
    }

    /// [Starts](FrontEnd::start) all front ends that the command line asks for.
    ///
    /// # Errors
    /// Why one of them cannot serve; all are stopped then.
    pub fn start(&self, terms: &Terms<'_>) -> io::Result<Services> {
        let started = self.0.iter().filter_map(|it| it.start(terms).transpose());
        started.collect::<Result<_, _>>().map(Services)
    }
}

fn options(protocols: &[Protocol], command: Command) -> Command {
    protocols.iter().fold(command, |command, it| (it.options)(command))
}

impl Args for FrontEnds {
    fn augment_args(command: Command) -> Command {
        options(PROTOCOLS, command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        options(PROTOCOLS, command)
    }
}

impl FromArgMatches for FrontEnds {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::of(PROTOCOLS, matches)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The front ends that serve.
pub struct Services(Vec<Box<dyn Service>>);

impl Services {
    /// The [addresses](Service::uris) of all.
    #[must_use]
    pub fn uris(&self) -> Vec<String> {
        self.0.iter().flat_map(|it| it.uris()).collect()
    }

    /// The [environment](Service::environment) of all.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        self.0.iter().flat_map(|it| it.environment()).collect()
    }

    /// [Reloads](Service::reload) all, and returns what stays as it was.
    #[must_use]
    pub fn reload(&self) -> Vec<&'static str> {
        self.0.iter().filter_map(|it| it.reload().err()).collect()
    }

    /// Whether no new client can come to any.
    #[must_use]
    pub fn are_private(&self) -> bool {
        self.0.iter().all(|it| it.is_private())
    }

    /// Waits until no service has a client.
    pub fn wait_until_idle(&self) {
        self.0.iter().for_each(|it| it.wait_until_idle());
    }

    /// [Ends](Service::shutdown) all. Returns whether all was done before the `deadline`.
    pub fn shutdown(&self, deadline: Instant) -> bool {
        // Each is told, also after one that has not ended.
        self.0.iter().filter(|it| !it.shutdown(deadline)).count() == 0
    }
}
