use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::chunk::{Compression, Packed, VaultKey};
use crate::client::{Answer, Request};
use crate::tree::{Metadata, Node};
use crate::{Ordinal, PutId, Reference};

/// A vault that is a map, and counts what is read of it.
#[derive(Default)]
struct Map {
    chunks: BTreeMap<Fingerprint, (Reference, Packed)>,
    reads: usize,
}

impl Access for Map {
    fn ask(&mut self, request: Request) -> Result<Answer, VaultError> {
        Ok(match request {
            Request::BeginPut => Answer::BeginPut(PutId(1)),
            Request::Offer(_, names) => {
                Answer::Offer(names.iter().map(|it| self.chunks.get(it).map(|it| it.0)).collect())
            }
            Request::Store(_, chunks) => {
                let mut store = |chunk: Packed| {
                    let (fingerprint, ordinal) = (chunk.fingerprint(), Ordinal(self.chunks.len() as u64));
                    self.chunks.insert(fingerprint, (Reference { fingerprint, ordinal }, chunk));
                    Reference { fingerprint, ordinal }
                };
                Answer::Store(chunks.into_iter().map(&mut store).collect())
            }
            _ => return Err(VaultError::Answer),
        })
    }

    fn get(&mut self, chunk: &Reference) -> Result<Vec<u8>, VaultError> {
        self.reads += 1;
        let (_, packed) = self.chunks.get(&chunk.fingerprint).ok_or(VaultError::Absent(chunk.fingerprint))?;
        Ok(packed.stored().to_vec())
    }
}

/// The files of a tree, by path, with the length of their content.
type Files = BTreeMap<(String, String), u64>;

fn store(map: &mut Map, writer: &mut Writer, files: &Files) -> Recipe {
    let node = |name: &str, kind| Node { name: name.into(), metadata: Metadata::default(), kind };
    let mut folders: BTreeMap<&str, Vec<Node>> = BTreeMap::new();
    for ((folder, name), length) in files {
        let recipe = writer.file(map, &vec![7; *length as usize]).unwrap();
        folders.entry(folder).or_default().push(node(name, Kind::File(recipe)));
    }
    let folders: Vec<Node> = folders
        .into_iter()
        .map(|(name, nodes)| node(name, Kind::Folder(writer.folder(map, &nodes).unwrap())))
        .collect();
    writer.folder(map, &folders).unwrap()
}

fn read(map: &mut Map, folder: &Recipe) -> Files {
    let mut files = Files::new();
    for Node { name: folder, kind, .. } in read_folder(map, folder).unwrap() {
        let Kind::Folder(below) = kind else { panic!("{folder:?} is no folder") };
        for Node { name, kind, .. } in read_folder(map, &below).unwrap() {
            let Kind::File(recipe) = kind else { panic!("{name:?} is no file") };
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            files.insert((text(&folder), text(&name)), recipe.bytes());
        }
    }
    files
}

/// Trees of 40 folders of 60 files each; each differs from the one before in one file.
fn trees(count: u64) -> Vec<Files> {
    let name =
        |at: u64| (format!("{:02}", at / 60), format!("{:02} with a name that takes some space", at % 60));
    let mut files: Files = (0..2400).map(|at| (name(at), 1 + at % 9)).collect();
    (0..count)
        .map(|tree| {
            files.insert(name(tree * 7919 % 2400), 10 + tree);
            files.clone()
        })
        .collect()
}

#[test]
fn each_snapshot_loses_what_is_named_and_each_chunk_is_read_once() {
    let (mut map, trees) = (Map::default(), trees(50));
    let mut writer = Writer::begin(&mut map, &VaultKey::new(&[1; 32]), Compression::None).unwrap();
    let folders: Vec<Recipe> = trees.iter().map(|files| store(&mut map, &mut writer, files)).collect();
    let is_gone = |path: &[u8]| path.starts_with(b"07/1") || path == b"11";
    let mut thinning = Thinning::new(&is_gone);
    for (files, folder) in trees.iter().zip(&folders) {
        let named = |(folder, name): &(String, String)| {
            let path = format!("{folder}/{name}");
            path.starts_with("07/1") || folder == "11"
        };
        let (gone, left): (Files, Files) = files.clone().into_iter().partition(|(path, _)| named(path));
        let found = thinning.matching(&mut map, folder, b"").unwrap();
        let expected = Totals { files: gone.len() as u64, folders: 1, bytes: gone.values().sum() };
        assert_eq!((found, gone.len()), (expected, 70));
        let new = thinning.without(&mut writer, &mut map, folder, b"").unwrap().unwrap();
        assert_eq!(read(&mut map, &new), left);
        assert_eq!(thinning.without(&mut writer, &mut map, &new, b""), Ok(None), "nothing is left of it");
    }
    // The reads of a sanitization's enumeration: each chunk of a folder once.
    let mut enumerated = BTreeSet::new();
    for folder in &folders {
        let mut below = vec![folder.clone()];
        while let Some(folder) = below.pop() {
            for chunk in chunks(&mut map, &folder).unwrap() {
                if enumerated.insert(chunk.fingerprint) {
                    let kinds = nodes(&map.get(&chunk).unwrap()).unwrap().into_iter().map(|node| node.kind);
                    below.extend(
                        kinds.filter_map(|kind| if let Kind::Folder(it) = kind { Some(it) } else { None }),
                    );
                }
            }
        }
    }
    let mut again = Thinning::new(&is_gone);
    map.reads = 0;
    for folder in &folders {
        again.matching(&mut map, folder, b"").unwrap();
        again.without(&mut writer, &mut map, folder, b"").unwrap();
    }
    assert!(map.reads <= 2 * enumerated.len(), "{} reads of {} chunks", map.reads, enumerated.len());
}
