//! What the program prints with `--json`, against the schemas in `docs/schemas/`.

use quietus::output;
use serde_json::Value;
use std::path::PathBuf;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

/// The report in `line`, which has to be as its schema says.
pub fn valid(line: &str) -> Value {
    let report: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    // The format of a signed statement is in the statement, where the signature covers it.
    let Some(format) = report["format"].as_str() else {
        let format = report["statement"]["format"].as_str().expect("a format");
        assert!(format.starts_with("quietus-") && report["signature"].is_string(), "{line}");
        return report;
    };
    let name = format.strip_prefix("quietus-").and_then(|it| it.strip_suffix("-1")).expect("a name");
    let path = directory().join(format!("{name}.json"));
    let schema = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let schema = serde_json::from_str(&schema).expect("a schema");
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema");
    let faults: Vec<_> = validator.iter_errors(&report).map(|it| format!("{}: {it}", it.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:#?}\n{line}");
    report
}

/// All reports in `lines`.
pub fn all_valid(lines: &[u8]) -> Vec<Value> {
    std::str::from_utf8(lines).expect("text").lines().map(valid).collect()
}

/// `QUIETUS_WRITE_SCHEMAS=1 cargo test -p quietus --test all schemas::` writes them.
#[test]
fn the_schemas_in_the_documents_are_those_of_the_code() {
    let is_write = std::env::var_os("QUIETUS_WRITE_SCHEMAS").is_some();
    let mut expected = Vec::new();
    for (name, schema) in output::schemas() {
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
    let mut names: Vec<_> = names.map(|it| it.into_string().expect("text")).filter(|it| it != "README.md").collect();
    names.sort();
    assert_eq!(names, expected);
}

#[test]
fn a_report_with_a_wrong_time_or_without_a_field_is_not_valid() {
    let good = r#"{"format":"quietus-epoch-1","epoch":1,"name":null}"#;
    valid(good);
    for bad in [
        good.replace("\"epoch\":1,", ""),
        good.replace(":1,", ":-1,"),
        r#"{"format":"quietus-audit-entry-1","n":0,"time":"yesterday","event":"opened"}"#.into(),
    ] {
        assert!(std::panic::catch_unwind(|| valid(&bad)).is_err(), "{bad}");
    }
}
