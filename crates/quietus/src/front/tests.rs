//! A second front end needs nothing but a row: here, one that says what it was given.

use super::*;

#[derive(Clone, Debug, Args)]
struct ToyArgs {
    #[arg(long)]
    toy: Option<String>,
}

impl FrontEnd for ToyArgs {
    fn check(&self) -> io::Result<()> {
        match self.toy.as_deref() {
            Some("") => Err(io::Error::other("--toy: no address")),
            _ => Ok(()),
        }
    }

    fn start(&self, terms: &Terms<'_>) -> io::Result<Option<Box<dyn Service>>> {
        let toy = self.toy.as_ref().map(|at| Toy(format!("toy:{}/{at}", terms.dir.display())));
        Ok(toy.map(|it| Box::new(it) as Box<dyn Service>))
    }
}

struct Toy(String);

impl Service for Toy {
    fn uris(&self) -> Vec<String> {
        vec![self.0.clone()]
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![("TOY", self.0.clone())]
    }

    fn reload(&self) -> Result<(), &'static str> {
        Err("the toy")
    }

    fn is_private(&self) -> bool {
        true
    }

    fn wait_until_idle(&self) {}

    fn shutdown(&self, deadline: Instant) -> bool {
        Instant::now() < deadline
    }
}

/// The front ends of a table with NBD and the toy, as `arguments` ask for them.
fn asked(arguments: &[&str]) -> Result<FrontEnds, clap::Error> {
    let table = [PROTOCOLS, &[Protocol::of::<ToyArgs>()]].concat();
    let command = options(&table, Command::new("serve"));
    FrontEnds::of(&table, &command.try_get_matches_from([&["serve"], arguments].concat())?)
}

fn started(arguments: &[&str], dir: &Path) -> Services {
    let terms = Terms { exports: Exports::default(), dir, memory_bytes_max: 0 };
    asked(arguments).expect("the options exist").start(&terms).expect("both start")
}

#[test]
fn a_front_end_is_a_row_with_options_addresses_and_an_end_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path().display().to_string();
    let services = started(&["--toy", "x", "--connections", "1"], dir.path());
    assert_eq!(services.uris(), [format!("nbd+unix:///?socket={at}/nbd.sock"), format!("toy:{at}/x")]);
    let names: Vec<_> = services.environment().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["NBD_URI", "NBD_SOCKET", "TOY"]);
    assert_eq!(services.reload(), ["the toy"]);
    assert!(!services.are_private(), "NBD listens");
    assert!(!services.shutdown(Instant::now()), "the toy had no time");
}

#[test]
fn a_front_end_that_the_command_line_does_not_ask_for_serves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(started(&[], dir.path()).uris().len(), 1);
}

#[test]
fn the_fault_of_one_front_end_is_found_before_a_disk_is_opened() {
    let checked = |arguments: &[&str]| asked(arguments).expect("the options exist").check();
    assert!(checked(&["--toy", "x"]).is_ok());
    assert_eq!(checked(&["--toy", ""]).expect_err("a fault").to_string(), "--toy: no address");
}
