use super::*;
use crate::{Attributes, ExtendedAttribute, Run, Unread};
use quietus_core::base::units::{Addr, Extent};

/// A tree of folders, files and links: the number of a file is its place in the list.
#[derive(Debug)]
struct Tree(Vec<(&'static str, Kind, &'static str)>);

/// A source of nothing.
struct Nothing;

impl Source for Nothing {
    fn bytes(&self) -> u64 {
        0
    }
    fn read(&mut self, _: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        Err(Unread("nothing is read".into()))
    }
}

impl Tree {
    fn node(&self, file: FileId) -> Result<(&'static str, Kind, &'static str), Error> {
        let missing = || Error::Missing(format!("inode {}", file.number));
        self.0.get(file.number as usize).copied().ok_or_else(missing)
    }
}

impl Volume for Tree {
    fn name(&self) -> &'static str {
        "tree"
    }
    fn root(&self) -> FileId {
        FileId { number: 0, generation: 0 }
    }
    fn attributes(&mut self, _: &mut dyn Source, file: FileId) -> Result<Attributes, Error> {
        let (_, kind, _) = self.node(file)?;
        Ok(Attributes { kind, ..crate::clusters::walk::plain(0) })
    }
    fn find(&mut self, _: &mut dyn Source, folder: FileId, name: &[u8]) -> Result<Option<Entry>, Error> {
        let path = format!("{}/{}", self.node(folder)?.0, str::from_utf8(name).unwrap());
        let number = self.0.iter().position(|it| it.0 == path);
        let file = |number| FileId { number: number as u64, generation: 0 };
        Ok(number.map(|it| Entry { name: name.to_vec(), file: file(it) }))
    }
    fn list(&mut self, _: &mut dyn Source, _: FileId, _: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
        unreachable!("a walk lists no folder")
    }
    fn runs(&mut self, _: &mut dyn Source, _: FileId, _: &mut dyn FnMut(Run) -> bool) -> Result<(), Error> {
        unreachable!("a walk reads no file")
    }
    fn read(&mut self, _: &mut dyn Source, _: FileId, _: u64, _: usize) -> Result<Vec<u8>, Error> {
        unreachable!("a walk reads no file")
    }
    fn link(&mut self, _: &mut dyn Source, file: FileId) -> Result<Vec<u8>, Error> {
        Ok(self.node(file)?.2.into())
    }
    fn extended(&mut self, _: &mut dyn Source, _: FileId) -> Result<Vec<ExtendedAttribute>, Error> {
        unreachable!("a walk reads no attributes")
    }
}

fn walked(path: &str) -> Result<&'static str, String> {
    let mut tree = Tree(vec![
        ("", Kind::Folder, ""),
        ("/a", Kind::Folder, ""),
        ("/a/b", Kind::Folder, ""),
        ("/a/b/c", Kind::Regular, ""),
        ("/a/up", Kind::Link, "../x"),
        ("/x", Kind::Folder, ""),
        ("/x/y", Kind::Regular, ""),
        ("/x/abs", Kind::Link, "/a/b/"),
        ("/x/self", Kind::Link, "self"),
        ("/x/out", Kind::Link, "../../../../a"),
        ("/x/gone", Kind::Link, "/a/none"),
    ]);
    let file = walk(&mut tree, &mut Nothing, path.as_bytes()).map_err(|it| it.to_string())?;
    tree.node(file).map(|it| it.0).map_err(|it| it.to_string())
}

#[test]
fn a_path_leads_from_the_root_whether_it_begins_with_a_slash_or_not() {
    for (path, file) in [("/", ""), ("", ""), ("/a/b/c", "/a/b/c"), ("a/b", "/a/b"), ("//a//b/", "/a/b")] {
        assert_eq!(walked(path), Ok(file), "{path}");
    }
}

#[test]
fn dots_never_lead_above_the_root() {
    for (path, file) in [
        ("/..", ""),
        ("/../../a/./b/..", "/a"),
        ("/a/b/../../x/y", "/x/y"),
        ("/x/out/b", "/a/b"),
        ("/a/b/c/..", "not a folder"),
    ] {
        assert_eq!(walked(path).unwrap_or_else(|it| if it == file { file } else { panic!("{it}") }), file);
    }
}

#[test]
fn links_are_followed_but_for_the_last_component() {
    for (path, file) in [
        ("/a/up", "/a/up"),
        ("/a/up/y", "/x/y"),
        ("/x/abs/c", "/a/b/c"),
        ("/a/up/abs/c", "/a/b/c"),
        ("/a/up/../a", "/a"),
        ("/x/abs/.", "/a/b"),
        ("/x/self", "/x/self"),
    ] {
        assert_eq!(walked(path), Ok(file), "{path}");
    }
    assert_eq!(
        walked("/x/self/y"),
        Err("damaged: the path leads through more than 40 symbolic links".into())
    );
}

#[test]
fn what_is_not_there_is_named_up_to_there() {
    for (path, text) in [
        ("/a/none", "no /a/none"),
        ("/a/none/deeper", "no /a/none"),
        ("none", "no /none"),
        ("/x/gone/y", "no /a/none"),
        ("/a/up/z", "no /x/z"),
        ("/a/b/c/d", "not a folder"),
    ] {
        assert_eq!(walked(path), Err(text.into()), "{path}");
    }
}

#[test]
fn a_number_is_a_file_of_its_own() {
    assert_eq!(walked("#3"), Ok("/a/b/c"));
    assert_eq!(walked("#99"), Err("no inode 99".into()));
    for path in ["#", "#a", "#-1", "#18446744073709551616"] {
        assert!(walked(path).unwrap_err().starts_with("no file number"), "{path}");
    }
}
