//! `cargo xtask tidy`: what a machine can check of `STYLE.md`, also of its English; and that modules do not use each
//! other in circles.
//! `cargo xtask mutants`: the simulator must catch every deliberate defect.
//! `cargo xtask matrix PACKAGE CRATE`: which tests of a package catch which deliberate defect of a crate.
//! `cargo xtask man DIR`: writes the manual pages into a directory.
//! `cargo xtask deny`: licences, sources, bans, and the advisories where they can be fetched.

mod circles;
mod matrix;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Longest file of code, tests apart.
const FILE_LINES_MAX: usize = 600;
/// Longest function.
const FUNCTION_LINES_MAX: usize = 70;
/// Highest median length of the functions of one crate.
const FUNCTION_LINES_MEDIAN_MAX: usize = 10;
/// Most fields of a struct of `core`: beyond that, group them by owner.
const FIELDS_MAX: usize = 12;
/// The crates that are looked at.
const CRATES: [&str; 9] = [
    "crates/core",
    "crates/detect",
    "crates/files",
    "crates/flash",
    "crates/seal",
    "crates/sim",
    "crates/vault",
    "crates/quietus",
    "xtask",
];

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let args: Vec<String> = std::env::args().skip(1).collect();
    let complaints = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(root),
        // Of all packages, so that what was built for the tests serves.
        ["mutants"] => cargo(&["run", "--locked", "--bin", "quietus-sim", "--", "mutants"]),
        ["matrix", package, krate] => matrix::print(root, package, krate),
        ["man", dir] => cargo(&["run", "--quiet", "--release", "--locked", "-p", "quietus-man", "--", dir]),
        ["deny"] => deny(),
        _ => vec!["usage: cargo xtask tidy | mutants | matrix PACKAGE CRATE | man DIR | deny".into()],
    };
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A lack of network is no failure, and neither is a machine without cargo-deny.
fn deny() -> Vec<String> {
    let is_there =
        |args: &[&str]| Command::new("cargo").args(args).output().is_ok_and(|it| it.status.success());
    if !is_there(&["deny", "--version"]) {
        println!("deny: skipped: cargo-deny is not installed (cargo install cargo-deny --locked)");
        return Vec::new();
    }
    let complaints = cargo(&["deny", "--all-features", "check", "licenses", "sources", "bans"]);
    if !is_there(&["deny", "--all-features", "fetch", "db"]) {
        println!("deny: advisories skipped: the advisory database cannot be fetched");
        return complaints;
    }
    let advisories = cargo(&["deny", "--all-features", "check", "--disable-fetch", "advisories"]);
    complaints.into_iter().chain(advisories).collect()
}

/// Runs cargo in the directory of the caller; a complaint if that fails.
fn cargo(args: &[&str]) -> Vec<String> {
    match Command::new("cargo").args(args).status() {
        Ok(status) if status.success() => Vec::new(),
        Ok(status) => vec![format!("cargo {}: {status}", args.join(" "))],
        Err(error) => vec![format!("cannot run cargo: {error}")],
    }
}

fn tidy(root: &Path) -> Vec<String> {
    let of_crates = CRATES.iter().flat_map(|krate| check_crate(root, krate));
    of_crates.chain(check_documents(root)).collect()
}

fn check_crate(root: &Path, krate: &str) -> Vec<String> {
    let (mut complaints, mut lengths) = (Vec::new(), Vec::new());
    for path in files(&root.join(krate), "rs") {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        complaints.extend(check_file(&name, &text, &mut lengths));
    }
    complaints.extend(check_lengths(krate, lengths));
    complaints.extend(check_circles(root, krate));
    complaints
}

fn check_lengths(krate: &str, mut lengths: Vec<usize>) -> Option<String> {
    lengths.sort_unstable();
    let [median, longest] =
        [lengths.get(lengths.len() / 2), lengths.last()].map(|it| it.copied().unwrap_or(0));
    println!("{krate}: {} functions, median {median} lines, longest {longest}", lengths.len());
    (lengths.len() >= 20 && median > FUNCTION_LINES_MEDIAN_MAX)
        .then(|| format!("{krate}: the median function has {median} lines, over {FUNCTION_LINES_MEDIAN_MAX}"))
}

fn check_circles(root: &Path, krate: &str) -> Vec<String> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let src = root.join(krate).join("src");
    let name = krate.rsplit('/').next().unwrap_or(krate);
    let page = ["lib.rs", "main.rs"].map(|it| src.join(it)).into_iter().find(|it| it.exists());
    page.map_or_else(Vec::new, |page| circles::check(name, &page, &read))
}

/// The files with that extension in a folder and below, build output apart.
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("target") {
                dirs.push(path);
            } else if path.extension().is_some_and(|it| it == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn check_file(name: &str, text: &str, lengths: &mut Vec<usize>) -> Vec<String> {
    let mut complaints = words::check(name, text);
    let is_test = name.contains("/tests") || name.contains("/examples/");
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    if !is_test && code.lines().count() > FILE_LINES_MAX {
        complaints.push(format!("{name}: {} lines, over {FILE_LINES_MAX}", code.lines().count()));
    }
    for (n, line) in text.lines().enumerate() {
        if line.trim_end() != line || line.contains('\t') {
            complaints.push(format!("{name}:{}: white space at the end, or a tab", n + 1));
        }
    }
    for (title, fields) in structs(text).into_iter().filter(|_| name.starts_with("crates/core/")) {
        if fields > FIELDS_MAX {
            complaints.push(format!("{name}: {title} has {fields} fields, over {FIELDS_MAX}"));
        }
    }
    if !is_test {
        for (function, length) in functions(code) {
            if length > FUNCTION_LINES_MAX {
                complaints.push(format!("{name}: {function} has {length} lines, over {FUNCTION_LINES_MAX}"));
            }
            lengths.push(length);
        }
        if !text.starts_with("//!") {
            complaints.push(format!("{name}: no module documentation on its first line"));
        }
    }
    complaints
}

/// The name and the lines of the body of each function, going by indentation,
/// which rustfmt guarantees.
fn functions(code: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        if !is_function(body) {
            continue;
        }
        let indent = line.len() - body.len();
        let close = format!("{}}}", " ".repeat(indent));
        let Some(open) = (n..lines.len()).find(|at| lines[*at].ends_with(['{', '}', ';'])) else { continue };
        if !lines[open].ends_with('{') {
            continue;
        }
        let Some(end) = (open..lines.len()).find(|at| lines[*at] == close) else { continue };
        let name = body.split('(').next().unwrap_or(body).to_string();
        found.push((name, end - open - 1));
    }
    found
}

/// Whether the line begins a function of any visibility.
fn is_function(line: &str) -> bool {
    let item = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or(rest, |(_, item)| item),
        Some(rest) => rest,
        None => line,
    };
    let item = item.trim_start();
    item.strip_prefix("const ").unwrap_or(item).starts_with("fn ")
}

/// The name and the number of fields of each struct, going by indentation.
fn structs(code: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let Some((before, name)) = line.split_once("struct ").filter(|_| line.ends_with('{')) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let of_struct = before[indent..].split(' ').all(|word| word.is_empty() || word.starts_with("pub"));
        let close = format!("{}}}", " ".repeat(indent));
        let Some(end) = (n..lines.len()).find(|at| of_struct && lines[*at] == close) else { continue };
        let is_field = |line: &&&str| {
            let body = line.trim_start();
            line.len() - body.len() == indent + 4 && !body.starts_with(['/', '#', ')', ']', '}', '>'])
        };
        let name = name.split([' ', '<']).next().unwrap_or(name);
        found.push((name.to_string(), lines[n + 1..end].iter().filter(is_field).count()));
    }
    found
}

/// Every document is there that the project needs, or that another one links to.
fn check_documents(root: &Path) -> Vec<String> {
    let pages = ["README.md", "ARCHITECTURE.md", "STYLE.md", "HACKING.md", "CHANGELOG.md"];
    let missing =
        pages.iter().chain(&["LICENSE-MIT", "LICENSE-APACHE"]).filter(|name| !root.join(name).exists());
    let mut complaints: Vec<String> = missing.map(|name| format!("{name} is missing")).collect();
    for page in pages.iter().map(|name| root.join(name)).chain(files(&root.join("docs"), "md")) {
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        let name = page.strip_prefix(root).unwrap_or(&page).display();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or(link);
            if !target.is_empty() && !target.contains("://") && !page.with_file_name(target).exists() {
                complaints.push(format!("{name}: links to {target}, which is not there"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_struct_are_counted_and_nothing_else() {
        let code = "pub(crate) struct One<T> {\n    /// A field.\n    #[serde(default)]\n    pub a: u64,\n    \
                    b: Vec<\n        T,\n    >,\n}\n\nfn f() {\n    struct Two {\n        c: u8,\n    }\n}\n";
        assert_eq!(structs(code), [("One".to_string(), 2), ("Two".to_string(), 1)]);
    }

    #[test]
    fn a_function_is_measured_at_any_visibility() {
        let seen = ["", "pub ", "pub(super) ", "pub(in crate::cli) ", "const ", "pub(crate) const "];
        let code: String = seen.iter().map(|it| format!("{it}fn f() {{\n    g();\n}}\n")).collect();
        assert_eq!(functions(&code).len(), seen.len());
        assert!(functions("pub(in crate::cli) mod m {\n}\npub use a::b;\n").is_empty());
    }

    #[test]
    fn a_struct_of_core_with_too_many_fields_is_named() {
        let fields = |count| (0..count).map(|n| format!("    f{n}: u8,\n")).collect::<String>();
        let code = |count| format!("//! A file.\n\nstruct Many {{\n{}}}\n", fields(count));
        let complaints = |name, count| check_file(name, &code(count), &mut Vec::new());
        assert_eq!(complaints("crates/core/src/many.rs", FIELDS_MAX), [""; 0]);
        assert!(complaints("crates/core/src/many.rs", FIELDS_MAX + 1)[0].contains("Many has 13 fields"));
        assert_eq!(complaints("crates/sim/src/many.rs", FIELDS_MAX + 1), [""; 0]);
    }
}
