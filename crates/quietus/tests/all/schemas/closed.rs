//! The schemas as the documents have them: with the format of the report, and closed to fields that they do not describe.

use quietus::cli::output;
use schemars::Schema;
use serde_json::{Map, Value, json};

/// Keywords whose schemas apply to the same value as the schema around them.
const IN_PLACE: [&str; 4] = ["$ref", "allOf", "anyOf", "oneOf"];

/// The name and the schema of every report and signed statement, by name.
pub fn schemas() -> Vec<(&'static str, Schema)> {
    let documented = |(name, mut schema): (_, Schema)| {
        let object = schema.ensure_object();
        object.insert("title".into(), json!(output::format(name)));
        match statement(object) {
            Some(statement) => name_format(statement, name),
            None => {
                let own = object.get("properties").and_then(|it| it.get("format"));
                assert!(own.is_none(), "{name}: a report has a `format`, and not two");
                name_format(object, name);
            }
        }
        close(object);
        (name, schema)
    };
    output::schemas().into_iter().map(documented).collect()
}

/// The statement of a signed one, which has the format where the signature covers it.
fn statement(schema: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    let name = schema.get("properties")?["statement"]["$ref"].as_str()?.strip_prefix("#/$defs/")?.to_owned();
    schema.get_mut("$defs")?.get_mut(&name)?.as_object_mut()
}

/// Says in the schema of an object that its format is that of reports with this `name`.
fn name_format(object: &mut Map<String, Value>, name: &str) {
    let properties = object.entry("properties").or_insert_with(|| json!({}));
    properties["format"] =
        json!({ "const": output::format(name), "description": "The name and version of the format." });
    let required =
        object.entry("required").or_insert_with(|| json!([])).as_array_mut().expect("a list of names");
    if !required.contains(&json!("format")) {
        required.insert(0, json!("format"));
    }
}

/// Forbids, in `root` and its definitions, fields that have no description.
fn close(root: &mut Map<String, Value>) {
    let open = root.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    Closing { open }.value(root);
}

struct Closing {
    /// The definitions as they were, to be used where others add fields to theirs.
    open: Map<String, Value>,
}

impl Closing {
    /// Closes the schema of a whole value.
    fn value(&self, schema: &mut Map<String, Value>) {
        let has_properties = schema.contains_key("properties");
        let is_composed = has_properties && IN_PLACE.iter().any(|it| schema.contains_key(*it));
        match is_composed {
            true => {
                self.open_parts(schema);
                schema.insert("unevaluatedProperties".into(), false.into());
            }
            false if has_properties => _ = schema.entry("additionalProperties").or_insert(false.into()),
            false => {}
        }
        self.inner(schema, !is_composed);
    }

    /// Replaces references, in schemas of the same value, by what they refer to: a closed one would forbid the fields beside it.
    fn open_parts(&self, schema: &mut Map<String, Value>) {
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix("#/$defs/"));
        if let Some(part) = name.and_then(|name| self.open.get(name)).cloned() {
            schema.remove("$ref");
            let all = schema.entry("allOf").or_insert(json!([])).as_array_mut();
            all.expect("a list of schemas").push(part);
        }
        parts(schema).for_each(|part| self.open_parts(part));
    }

    /// Closes the schemas within `schema`; with `parts` also the schemas of the same value.
    fn inner(&self, schema: &mut Map<String, Value>, are_values: bool) {
        for name in ["properties", "$defs"] {
            let all = schema.get_mut(name).and_then(Value::as_object_mut).into_iter().flatten();
            all.filter_map(|(_, it)| it.as_object_mut()).for_each(|it| self.value(it));
        }
        for name in ["items", "additionalProperties"] {
            schema.get_mut(name).and_then(Value::as_object_mut).into_iter().for_each(|it| self.value(it));
        }
        parts(schema).for_each(|part| match are_values {
            true => self.value(part),
            false => self.inner(part, false),
        });
    }
}

/// The schemas in `schema` that apply to the same value.
fn parts(schema: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let lists = schema.iter_mut().filter(|(name, _)| IN_PLACE.contains(&name.as_str()));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten().filter_map(Value::as_object_mut)
}
