use super::*;

/// The complaints about a crate of these files.
fn complaints(files: &[(&str, &str)]) -> Vec<String> {
    let read = |path: &Path| {
        files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_string())
    };
    check("toy", Path::new("lib.rs"), &read)
}

/// The modules of each circle.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let of = |it: String| it["import circle of ".len()..].split(';').next().unwrap_or_default().to_string();
    complaints(files).into_iter().map(of).collect()
}

#[test]
fn siblings_that_use_each_other_are_a_circle_and_a_chain_is_none() {
    let root = ("lib.rs", "mod a;\nmod b;\nmod c;\n");
    let (a, b) = (("a.rs", "use crate::b::B;\n"), ("b.rs", "fn f() { super::c::f() }\n"));
    assert_eq!(circles(&[root, a, b, ("c.rs", "")]), [""; 0]);
    assert_eq!(circles(&[root, a, b, ("c.rs", "use crate::a::A as D;\n")]), ["toy/a, toy/b, toy/c"]);
    let two = [root, ("a.rs", "use crate::{b::B, x::*};\n"), ("b.rs", "use super::a;\n"), ("c.rs", "")];
    assert_eq!(circles(&two), ["toy/a, toy/b"]);
}

#[test]
fn a_folder_answers_for_all_below_it_and_its_children_are_compared_too() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a/mod.rs", "mod deep;\nmod other;\n"),
        ("a/deep.rs", "use super::super::b;\nuse super::other::X;\n"),
        ("a/other.rs", "use crate::a::deep::Y;\n"),
        ("b.rs", "mod in_line {\n    fn f(_: crate::a::other::X) {}\n}\n"),
    ];
    assert_eq!(circles(&files), ["toy/a, toy/b", "toy/a/deep, toy/a/other"]);
}

#[test]
fn a_name_from_the_page_above_is_its_owners() {
    let (root, page) =
        (("lib.rs", "mod a;"), ("a.rs", "mod b;\nmod c;\npub use b::Thing;\npub struct Own;\n"));
    let b = ("a/b.rs", "use super::c::C;\n");
    assert_eq!(circles(&[root, page, b, ("a/c.rs", "use super::Thing;\n")]), ["toy/a/b, toy/a/c"]);
    assert_eq!(circles(&[root, page, b, ("a/c.rs", "use super::Own;\nuse std::b::Thing;\n")]), [""; 0]);
    let renamed = ("a/c.rs", "use super::b as d;\nfn f() {}\n");
    assert_eq!(circles(&[root, page, b, renamed]), ["toy/a/b, toy/a/c"]);
}

#[test]
fn tests_comments_literals_and_visibility_do_not_count() {
    let quiet = "// crate::b::B\n/* crate::b */\nconst A: &str = \"crate::b::B\\\" crate::b\";\nconst R: &str = r#\"\" \
                 crate::b::B\"#;\nfn f<'a>(_: &'a char) -> char { '\\'' }\npub(in crate::b) fn g() -> char { '\"' }\n\
                 #[cfg(test)]\nuse crate::b::B;\n#[cfg(test)]\nmod tests {\n    use crate::b::{B, C};\n}\n\
                 struct S {\n    #[cfg(test)]\n    b: crate::b::B,\n}\n";
    let root = ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod missing;\n");
    assert_eq!(circles(&[root, ("a.rs", quiet), ("b.rs", "use crate::a::f;\n")]), [""; 0]);
    let loud = format!("{quiet}fn h(_: crate::b::B) {{}}\n");
    assert_eq!(circles(&[root, ("a.rs", &loud), ("b.rs", "use crate::a::f;\n")]), ["toy/a, toy/b"]);
}

#[test]
fn a_complaint_names_the_place_and_a_file_that_is_missing() {
    let files =
        [("lib.rs", "mod a;\nmod b;\n"), ("a.rs", "use crate::b::B;\n"), ("b.rs", "use crate::a::A;\n")];
    let found = complaints(&files);
    assert!(found.len() == 1 && found[0].contains("a uses b: a.rs names crate::b::B"), "{found:?}");
    assert_eq!(complaints(&files[..2]), ["b/mod.rs: cannot be read"]);
}
