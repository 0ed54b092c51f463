//! Which tests catch which deliberate defect: every test binary of a package runs below each mutant.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest run of a test binary, or of one test: a defect may make it endless.
const RUN_MAX: Duration = Duration::from_secs(600);
/// The tests that fail, by suite: a module of unit tests, or one test of a binary that ends at its first failure.
type Failing = BTreeMap<String, Vec<String>>;

/// Prints the tests of `package` that catch each mutant of `krate`, by suite. Returns a complaint for a mutant below
/// which the tests could not run.
pub fn print(root: &Path, package: &str, krate: &str) -> Vec<String> {
    let binaries = built(package);
    if binaries.is_empty() {
        return vec![format!("{package}: no test binary was built")];
    }
    let mut complaints = Vec::new();
    for mutant in mutants(root, krate) {
        match binaries.iter().map(|it| failing(it, &mutant)).collect::<std::io::Result<Vec<_>>>() {
            Ok(found) => tell(&mutant, found),
            Err(error) => complaints.push(format!("{mutant}: {error}")),
        }
    }
    complaints
}

fn tell(mutant: &str, found: Vec<Failing>) {
    let suites: Vec<_> = found.into_iter().flatten().collect();
    let tests: usize = suites.iter().map(|(_, tests)| tests.len()).sum();
    println!("{mutant}: caught by {tests} tests");
    for (suite, tests) in suites {
        println!("    {suite}: {}", tests.join(", "));
    }
}

/// The mutants that a crate declares.
fn mutants(root: &Path, krate: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("crates").join(krate).join("src/mutant.rs"));
    let text = text.unwrap_or_default();
    let declared =
        text.split_once("mutants! {\n    ///").and_then(|it| it.1.split_once("\n}")).unwrap_or_default();
    let names = declared.0.lines().filter_map(|it| it.trim().strip_suffix(','));
    names.filter(|it| it.chars().all(char::is_alphanumeric)).map(Into::into).collect()
}

/// The test binaries of `package`, which cargo names in parentheses.
fn built(package: &str) -> Vec<PathBuf> {
    let args = ["test", "--locked", "--no-run", "-p", package];
    let output = Command::new("cargo").args(args).output();
    let text = output.map(|it| String::from_utf8_lossy(&it.stderr).into_owned()).unwrap_or_default();
    let named = text.lines().filter(|it| it.trim_start().starts_with("Executable"));
    named.filter_map(|it| Some(it.split_once('(')?.1.trim_end_matches(')').into())).collect()
}

/// What fails of `binary` below `mutant`. A binary that gives no result runs again, one test at a time.
fn failing(binary: &Path, mutant: &str) -> std::io::Result<Failing> {
    let output = run(binary, &[], mutant)?;
    let mut failing = Failing::new();
    if output.contains("test result:") {
        let failed = output.lines().filter_map(|it| it.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        failed.for_each(|it| note(&mut failing, it));
        return Ok(failing);
    }
    let list = run(binary, &["--list", "--format", "terse"], mutant)?;
    for test in list.lines().filter_map(|it| it.strip_suffix(": test")) {
        if !run(binary, &["--exact", test], mutant)?.contains("test result: ok") {
            note(&mut failing, test);
        }
    }
    Ok(failing)
}

fn note(failing: &mut Failing, test: &str) {
    let (suite, name) = test.rsplit_once("::").unwrap_or((test, test));
    failing.entry(suite.into()).or_default().push(name.into());
}

/// What `binary` prints below `mutant` until its end, or until it has taken too long.
fn run(binary: &Path, args: &[&str], mutant: &str) -> std::io::Result<String> {
    let path = std::env::temp_dir().join(format!("quietus-matrix-{}", std::process::id()));
    let mut command = Command::new(binary);
    command.args(args).env("QUIETUS_MUTANT", mutant).stdout(File::create(&path)?).stderr(Stdio::null());
    let (mut child, start) = (command.spawn()?, Instant::now());
    while child.try_wait()?.is_none() {
        if start.elapsed() > RUN_MAX {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let printed = std::fs::read_to_string(&path);
    std::fs::remove_file(&path)?;
    printed
}
