use super::*;

/// A subject that is no disk.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Forgotten {
    vault: String,
    snapshots: Vec<u64>,
    bytes: Bytes,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Bytes {
    destroyed: u64,
}

fn signed() -> Signed<Forgotten> {
    let statement =
        Forgotten { vault: "archive".into(), snapshots: vec![3, 4], bytes: Bytes { destroyed: 4096 } };
    Signed::sign(statement, &SigningKey::from_seed(&[7; 32]))
}

fn text() -> String {
    serde_json::to_string(&signed()).expect("plain data")
}

/// The error for the text with `from` replaced by `to`.
fn refused(from: &str, to: &str) -> String {
    let text = text();
    assert!(text.contains(from), "{from} is not in {text}");
    Signed::<Forgotten>::parse(&text.replacen(from, to, 1), None).expect_err(to).to_string()
}

#[test]
fn a_statement_of_any_subject_is_checked_however_it_is_laid_out() {
    let known = format!("{}\n", hex(&SigningKey::from_seed(&[7; 32]).public()).to_uppercase());
    let pretty = serde_json::to_string_pretty(&signed()).expect("plain data");
    for text in [text(), pretty] {
        assert_eq!(Signed::parse(&text, Some(&known)).expect("signed"), signed());
    }
    assert_eq!(signed().covered(), r#"{"vault":"archive","snapshots":[3,4],"bytes":{"destroyed":4096}}"#);
}

/// RFC 8032, section 7.1, test 1: the keys on disk outlive the library.
#[test]
fn a_seed_gives_the_key_that_the_standard_says() {
    let seed = unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").expect("digits");
    let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    assert_eq!(hex(&SigningKey::from_seed(&seed).public()), public);
}

#[test]
fn whatever_was_changed_is_refused() {
    for (from, to) in [("archive", "archivf"), ("[3,4]", "[3]"), ("4096", "4097")] {
        assert!(refused(from, to).contains("`signature` does not match"), "{to}");
    }
    let key = hex(&SigningKey::from_seed(&[8; 32]).public());
    assert!(refused(&signed().public_key, &key).contains("`signature` does not match"));
    let other = Signed::sign(signed().statement, &SigningKey::from_seed(&[8; 32])).signature;
    assert!(refused(&signed().signature, &other).contains("`signature` does not match"));
}

#[test]
fn what_the_signature_does_not_cover_is_refused_by_name() {
    for (from, to, field) in [
        ("\"destroyed\"", "\"kept\":0,\"destroyed\"", "`statement.bytes.kept`"),
        ("\"vault\"", "\"note\":\"clean\",\"vault\"", "`statement.note`"),
        ("{\"statement\"", "{\"clean\":true,\"statement\"", "`clean`"),
    ] {
        assert!(refused(from, to).contains(field), "{}", refused(from, to));
    }
}

#[test]
fn an_error_names_the_field_and_its_value() {
    let signed = signed();
    assert!(refused(&signed.public_key, "abc").contains("`public_key`: \"abc\""));
    assert!(refused(&signed.signature, "xyz").contains("`signature`: \"xyz\""));
    assert!(refused("\"vault\"", "\"wault\"").contains("missing field `vault`"));
    let known = |key: &str| signed.verify(Some(key)).expect_err(key).to_string();
    assert!(known("12").contains("\"12\" is not 64 hexadecimal digits"));
    let other = hex(&SigningKey::from_seed(&[8; 32]).public());
    assert!(known(&other).contains(&other) && known(&other).contains(&signed.public_key));
}
