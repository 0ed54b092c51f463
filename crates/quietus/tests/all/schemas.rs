//! What the program prints with `--json`, against the schemas in `docs/schemas/`.

mod closed;

use crate::nbd::watched::ext2::tool;
use crate::program::{Server, private, quietus};
use jsonschema::Validator;
use quietus::cli::output;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, LazyLock, Mutex};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

/// The validator of the format `quietus-NAME-1`, as the documents have it.
fn validator(name: &str) -> Arc<Validator> {
    static KNOWN: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    // A report that is not valid may be asked for on purpose.
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let made = known.entry(name.into()).or_insert_with(|| {
        let path = directory().join(format!("{name}.json"));
        let schema =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let schema = serde_json::from_str(&schema).expect("JSON");
        Arc::new(jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema"))
    });
    Arc::clone(made)
}

/// The format of a report; that of a signed statement is in the statement, where the signature covers it.
fn format_of(report: &Value) -> Option<&str> {
    report["format"].as_str().or_else(|| report["statement"]["format"].as_str())
}

/// The report in `line`, which has to be as its schema says.
pub fn valid(line: &str) -> Value {
    let report: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let name = format_of(&report).and_then(|it| it.strip_prefix("quietus-")?.strip_suffix("-1"));
    let validator = validator(name.unwrap_or_else(|| panic!("no format: {line}")));
    let faults: Vec<_> =
        validator.iter_errors(&report).map(|it| format!("{}: {it}", it.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:#?}\n{line}");
    report
}

/// All reports in `lines`, each of which has to be as its schema says.
pub fn all_valid(lines: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(lines).lines().map(valid).collect()
}

/// What a command with `--json` has printed, each line of which has to be as its schema says.
pub fn checked(output: Output) -> Output {
    all_valid(&output.stdout);
    output
}

/// `QUIETUS_WRITE_SCHEMAS=1 cargo test -p quietus --test all schemas::` writes them.
#[test]
fn the_schemas_in_the_documents_are_those_of_the_code() {
    let is_write = std::env::var_os("QUIETUS_WRITE_SCHEMAS").is_some();
    let mut expected = Vec::new();
    for (name, schema) in closed::schemas() {
        let path = directory().join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&schema).expect("plain data") + "\n";
        if is_write {
            std::fs::write(&path, &text).expect("a document");
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{} is not the schema of the code", path.display());
        expected.push(format!("{name}.json"));
    }
    let names = std::fs::read_dir(directory()).expect("a directory").flatten().map(|it| it.file_name());
    let mut names: Vec<_> =
        names.map(|it| it.into_string().expect("text")).filter(|it| it != "README.md").collect();
    names.sort();
    assert_eq!(names, expected);
}

#[test]
fn a_report_with_a_wrong_time_without_a_field_or_with_one_too_many_is_not_valid() {
    let good = r#"{"format":"quietus-epoch-1","epoch":1,"name":null}"#;
    valid(good);
    let event =
        r#"{"format":"quietus-audit-entry-1","n":0,"time":"2026-11-20T10:00:00.000Z","event":"opened"}"#;
    valid(event);
    for bad in [
        good.replace("\"epoch\":1,", ""),
        good.replace(":1,", ":-1,"),
        good.replace("\"name\"", "\"more\":1,\"name\""),
        good.replace("epoch-1", "epoch-2"),
        event.replace("2026-11-20T10:00:00.000Z", "yesterday"),
        event.replace("opened", "died"),
        event.replace("\"n\":0", "\"n\":0,\"start\":0"),
    ] {
        assert!(std::panic::catch_unwind(|| valid(&bad)).is_err(), "{bad}");
    }
}

/// Fields whose unit is milliseconds or nanoseconds, and which are no times but durations; and the one time that `disk.toml` has so.
const NUMBERS: [&str; 7] =
    ["base_mtime_ns", "deadline_ms", "held_ms", "idle_after_ms", "life_ms", "oldest_ms", "root_life_ms"];
/// Fields that may be anything: a line that only a later version understands.
const UNTYPED: [&str; 1] = ["line"];
/// Keywords one of which says what a value is.
const TYPES: [&str; 7] = ["type", "$ref", "const", "enum", "anyOf", "oneOf", "allOf"];

/// Walks over a schema; `faults` takes what a reader of the reports would stumble over. An `open` schema is closed by the one around it.
fn judge(schema: &Value, path: &str, open: bool, faults: &mut Vec<String>) {
    let mut fault = |what: &str| faults.push(format!("{path}: {what}"));
    let is_list = |it: &Value| it["type"] == "array" || it.get("items").is_some();
    if schema.get("prefixItems").is_some() || schema.get("items").is_some_and(is_list) {
        fault("a list whose places have meanings");
    }
    let is_closed =
        ["additionalProperties", "unevaluatedProperties"].iter().any(|it| schema.get(it).is_some());
    let properties = schema.get("properties").and_then(Value::as_object);
    if properties.is_some() && !open && !is_closed {
        fault("fields that are not described are allowed");
    }
    let is_only = properties.is_some_and(|it| it.len() == 1) && schema["description"].is_string();
    for (name, property) in properties.into_iter().flatten() {
        judge_field(name, property, &format!("{path}.{name}"), is_only, faults);
    }
    let definitions = schema.get("$defs").and_then(Value::as_object).into_iter().flatten();
    definitions.for_each(|(name, it)| judge(it, &format!("{path}#{name}"), false, faults));
    for name in ["items", "additionalProperties"] {
        schema.get(name).into_iter().for_each(|it| judge(it, &format!("{path}/{name}"), false, faults));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let parts = schema.get(name).and_then(Value::as_array).into_iter().flatten().enumerate();
        let open = open || schema.get("unevaluatedProperties").is_some();
        parts.for_each(|(n, it)| judge(it, &format!("{path}/{name}/{n}"), open, faults));
    }
}

/// The same for a field; the only one of its structure has the description of that.
fn judge_field(name: &str, schema: &Value, path: &str, is_only: bool, faults: &mut Vec<String>) {
    let mut fault = |what: &str| faults.push(format!("{path}: {what}"));
    if !name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_') {
        fault("a name that is prose");
    }
    if (name.ends_with("_ms") || name.ends_with("_ns")) && !NUMBERS.contains(&name) {
        fault("a time that is a number");
    }
    if !TYPES.iter().any(|it| schema.get(it).is_some()) && !UNTYPED.contains(&name) {
        fault("anything at all");
    }
    if !is_only && schema["description"].as_str().is_none_or(str::is_empty) && schema.get("const").is_none() {
        fault("no description");
    }
    judge(schema, path, false, faults);
}

#[test]
fn every_field_has_a_name_a_type_and_a_description() {
    let mut faults = Vec::new();
    for (name, schema) in closed::schemas() {
        judge(schema.as_value(), name, false, &mut faults);
    }
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}

#[test]
fn what_a_reader_would_stumble_over_is_found() {
    for bad in [
        r#"{"type":"array","prefixItems":[{"type":"integer"}]}"#,
        r#"{"type":"array","items":{"type":"array"}}"#,
        r#"{"properties":{"a":{"type":"integer","description":"A."}}}"#,
        r#"{"properties":{"two words":{"type":"integer","description":"A."}},"additionalProperties":false}"#,
        r#"{"properties":{"closed_ms":{"type":"integer","description":"A."}},"additionalProperties":false}"#,
        r#"{"properties":{"a":{"description":"A."}},"additionalProperties":false}"#,
        r#"{"$defs":{"A":{"properties":{"a":{"type":"integer"}},"additionalProperties":false}}}"#,
    ] {
        let mut faults = Vec::new();
        judge(&serde_json::from_str(bad).expect("JSON"), "", false, &mut faults);
        assert_eq!(faults.len(), 1, "{bad}: {faults:?}");
    }
}

/// Runs command lines in one directory, and notes the formats of what they print.
struct Seen {
    dir: tempfile::TempDir,
    formats: BTreeSet<String>,
}

impl Seen {
    fn command(&self, line: &str) -> Command {
        let mut quietus = quietus();
        quietus.arg("--json").args(line.split_whitespace()).current_dir(self.dir.path());
        quietus.env("QUIETUS_LOG", "error").stdin(Stdio::null()).stdout(Stdio::piped());
        quietus
    }

    fn take(&mut self, line: &str) {
        let report = valid(line);
        self.formats.insert(format_of(&report).expect("a format").into());
    }

    fn run(&mut self, line: &str) {
        let output = self.command(line).output().expect("it runs");
        assert!(matches!(output.status.code(), Some(0 | 3)), "{line}: {output:?}");
        String::from_utf8(output.stdout).expect("text").lines().for_each(|line| self.take(line));
    }

    /// Serves a disk for a moment, while `line` runs.
    fn served(&mut self, disk: &str, line: &str) {
        let mut serve = self.command(&format!("serve {disk}"));
        let (_server, first) = Server::spawn(&mut serve, self.dir.path().join(disk).join("nbd.sock"));
        self.take(&first);
        self.run(line);
    }
}

#[test]
fn every_report_about_disks_is_as_its_schema_says() {
    let mut seen = Seen { dir: tempfile::tempdir().expect("a directory"), formats: BTreeSet::new() };
    let at = |name: &str| seen.dir.path().join(name);
    std::fs::write(at("image"), vec![7; 1 << 20]).expect("an image");
    std::fs::write(at("golden"), vec![7; 1 << 20]).expect("an image");
    tool("mke2fs", &["-q", "-F", "-b", "1024", at("guest").to_str().expect("text"), "1M"]);
    std::fs::write(at("letter"), "a letter").expect("a file");
    let write = format!("write {} letter", at("letter").display());
    tool("debugfs", &["-w", "-R", &write, at("guest").to_str().expect("text")]);
    let blocks = tool("debugfs", &["-R", "blocks /", at("guest").to_str().expect("text")]);
    for key in ["key", "new"] {
        private(&at(key), &[key.as_bytes()[0]; 32]);
    }
    for line in [
        "create vm --adopt image --deadline 1h",
        "purge vm 0+64K --dry-run",
        "purge vm 0+64K",
        "deaths vm",
        "shred vm --now",
        "deaths vm",
        "status vm",
        "sensitive vm",
        "prove vm",
        "verify vm",
        "export vm exported",
        "create over --store overlay --base golden",
        "purge over 0+64K --now",
        "compact over",
        "rebase over --base image",
        "commit over --dry-run",
        "commit over",
        "create keyed --store versions --size 1M --key-file key",
        "key keyed add --key-file key --new-key-file new",
        "key keyed list",
        "key keyed rotate --key-file key",
        "key keyed remove 1 --key-file key",
        "create old --store versions --seal none --from image --epoch manual",
        "repair old --dry-run",
        "doctor .",
        "list",
        "create box --size 1M --medium nand:chip,chip=slc-2k,blocks=160",
        "wear box",
        "prove box",
        "create files --adopt guest",
        "find files lost+found",
        "history files:/lost+found",
        "restore files:/lost+found --into back",
    ] {
        seen.run(line);
    }
    assert!(!seen.command("status nope").output().expect("it runs").status.success());
    let refused = seen.command("status nope").output().expect("it runs").stdout;
    seen.take(std::str::from_utf8(&refused).expect("text"));
    for line in [
        "epoch old --name first-one",
        "purge old 0+64K --now",
        "epoch old",
        "purge old 64K+64K --now",
        "epoch old",
        "versions old --unique",
        "status old",
        "diff old@1 old@2",
        "hold old@2 --name case --who legal --why subpoena",
        "versions old",
        "release old case",
        "restore old@1 --dry-run",
        "restore old@1",
        "forget old --chain 128K+64K --dry-run",
        "forget old --chain 128K+64K --current --wait",
        "forget old@2 --dry-run",
        "forget old@2 --wait",
        "prove old",
        "verify old --read-data",
        "deaths old",
    ] {
        seen.served("old", line);
    }
    // The entry behind `.` and `..` in the root folder names no inode any more.
    let entry = blocks.trim().parse::<u64>().expect("a block") * 1024 + 24;
    let purge = format!("purge past {entry}+4 --now");
    seen.run("create past --store versions --seal none --from guest --epoch manual");
    let forget = ["forget past:/letter --before 1 --dry-run", "forget past:/letter --before 1 --wait"];
    for line in ["epoch past", &purge, "diff past@1:/", forget[0], forget[1]] {
        seen.served("past", line);
    }
    let all = output::schemas().into_iter().map(|(name, _)| output::format(name));
    // A mount needs FUSE: its own tests look at its report.
    let of_disks =
        all.filter(|it| !["vault-", "sanitization", "mounted"].iter().any(|vault| it.contains(vault)));
    let missing: Vec<_> = of_disks.filter(|it| !seen.formats.contains(it)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
