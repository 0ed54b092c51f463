use std::collections::HashMap;

use super::folder::BadNode;
use super::*;
use crate::chunk::{CHUNK_BYTES_MAX, KEY_BYTES, VaultKey};
use crate::container::Class;
use crate::testing::{Noise, fingerprint};
use crate::{Ordinal, Reference};

#[derive(Debug, PartialEq)]
enum Error {
    Metadata(BadMetadata),
    Node(BadNode),
    Missing,
}

impl From<BadMetadata> for Error {
    fn from(error: BadMetadata) -> Error {
        Error::Metadata(error)
    }
}

impl From<BadNode> for Error {
    fn from(error: BadNode) -> Error {
        Error::Node(error)
    }
}

/// Chunks of metadata by fingerprint.
#[derive(Default)]
struct Chunks(HashMap<[u8; 32], Vec<u8>>);

impl Chunks {
    fn store(&mut self, bytes: &[u8]) -> Result<Reference, Error> {
        assert!(bytes.len() <= CHUNK_BYTES_MAX);
        let fingerprint = VaultKey::new(&[1; KEY_BYTES]).fingerprint(Class::Metadata, bytes);
        self.0.insert(fingerprint.0, bytes.to_vec());
        Ok(Reference { fingerprint, ordinal: Ordinal(self.0.len() as u64) })
    }

    fn fetch(&self, chunk: &Reference) -> Result<Vec<u8>, Error> {
        self.0.get(&chunk.fingerprint.0).cloned().ok_or(Error::Missing)
    }

    fn recipe(&mut self, spans: &[Span]) -> Recipe {
        let mut builder = RecipeBuilder::default();
        for span in spans {
            builder.push(*span, &mut |bytes| self.store(bytes)).unwrap();
        }
        builder.finish(&mut |bytes| self.store(bytes)).unwrap()
    }

    fn content(&self, recipe: &Recipe) -> Result<Vec<Span>, Error> {
        let mut found = Vec::new();
        recipe.walk(&mut |chunk| self.fetch(chunk), &mut |span, layer| {
            if layer == Layer::Content {
                found.push(*span);
            }
            true
        })?;
        Ok(found)
    }

    fn folder(&mut self, nodes: &[Node]) -> Result<Recipe, Error> {
        let mut builder = FolderBuilder::default();
        for node in nodes {
            builder.push(node, &mut |bytes| self.store(bytes))?;
        }
        builder.finish(&mut |bytes| self.store(bytes))
    }
}

fn some_spans(count: usize, seed: u64) -> Vec<Span> {
    let mut noise = Noise(seed);
    let span = |at: usize, noise: &mut Noise| match at % 10 {
        0 => Span::hole(noise.next() >> 24),
        _ => {
            let chunk = Reference { fingerprint: fingerprint(noise), ordinal: Ordinal(noise.next() >> 24) };
            Span::chunk(chunk, 1 + noise.next() % 65_536)
        }
    };
    (0..count).map(|at| span(at, &mut noise)).collect()
}

#[test]
fn a_recipe_of_any_length_has_its_spans_in_order() {
    for count in [0, 1, 31, 32, 33, 200, 5_000, 100_000] {
        let (mut chunks, wanted) = (Chunks::default(), some_spans(count, 1));
        let recipe = chunks.recipe(&wanted);
        assert!(recipe.top().0.len() <= 32, "{} spans at the top of {count}", recipe.top().0.len());
        assert_eq!(recipe.bytes(), wanted.iter().map(|span| span.bytes).sum::<u64>());
        assert_eq!(chunks.content(&recipe).unwrap(), wanted);
    }
}

#[test]
fn a_changed_span_costs_a_chunk_of_each_layer() {
    let (mut chunks, mut spans) = (Chunks::default(), some_spans(100_000, 2));
    chunks.recipe(&spans);
    let before = chunks.0.len();
    spans[50_000] = some_spans(2, 3)[1];
    spans.insert(70_000, some_spans(3, 4)[2]);
    let recipe = chunks.recipe(&spans);
    assert_eq!(chunks.content(&recipe).unwrap(), spans);
    let new = chunks.0.len() - before;
    assert!(new <= 10, "{new} new chunks of {before}");
}

#[test]
fn what_is_not_to_be_entered_is_not_fetched() {
    let (mut chunks, spans) = (Chunks::default(), some_spans(5_000, 5));
    let recipe = chunks.recipe(&spans);
    assert_eq!(recipe.top().1, Layer::Spans);
    let mut fetched = 0;
    let mut fetch = |_: &Reference| -> Result<Vec<u8>, Error> {
        fetched += 1;
        Err(Error::Missing)
    };
    recipe.walk(&mut fetch, &mut |_, _| false).unwrap();
    assert_eq!(recipe.walk(&mut fetch, &mut |_, _| true), Err(Error::Missing));
    assert_eq!(fetched, 1);
}

fn some_node(number: u64, noise: &mut Noise, chunks: &mut Chunks) -> Node {
    let recipe = chunks.recipe(&some_spans(noise.next() as usize % 40, number));
    let kind = match number % 7 {
        0 => Kind::Folder(recipe),
        1 => Kind::Link(b"../where \xff".to_vec()),
        2 => Kind::BlockDevice(8, 1),
        3 => Kind::Pipe,
        _ => Kind::File(recipe),
    };
    let metadata = Metadata {
        mode: 0o644,
        user: noise.next() as u32,
        group: 7,
        modified_ns: noise.next() as i64,
        attributes: vec![(b"user.note".to_vec(), noise.bytes(number as usize % 64))],
        hard_link: number.is_multiple_of(5).then_some(number),
        origin: number.is_multiple_of(3).then_some(Origin { inode: number, changed_ns: noise.next() as i64 }),
    };
    Node { name: format!("{number:08}\u{e4}").into_bytes(), metadata, kind }
}

#[test]
fn a_folder_of_any_size_has_its_entries_and_a_new_one_costs_a_few_chunks() {
    let (mut chunks, mut noise) = (Chunks::default(), Noise(6));
    let mut all: Vec<Node> =
        (0..20_000).map(|number| some_node(2 * number, &mut noise, &mut chunks)).collect();
    let mut before = 0;
    for _ in 0..2 {
        let recipe = chunks.folder(&all).unwrap();
        let found: Vec<Node> = chunks
            .content(&recipe)
            .unwrap()
            .iter()
            .flat_map(|span| nodes(&chunks.fetch(&span.reference().unwrap()).unwrap()).unwrap())
            .collect();
        assert!(found == all, "other entries than were put in");
        let new = chunks.0.len() - std::mem::replace(&mut before, chunks.0.len());
        assert!(before == new || new <= 6, "{new} new chunks of {before}");
        all.insert(10_000, some_node(19_999, &mut Noise(7), &mut Chunks::default()));
    }
}

#[test]
fn names_that_lead_elsewhere_and_entries_that_do_not_fit_are_refused() {
    let mut chunks = Chunks::default();
    let named =
        |name: &[u8]| Node { name: name.to_vec(), ..some_node(3, &mut Noise(8), &mut Chunks::default()) };
    for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0b"] {
        assert_eq!(chunks.folder(&[named(name)]), Err(Error::Node(BadNode::Name(name.to_vec()))));
    }
    assert_eq!(chunks.folder(&[named(b"b"), named(b"a")]), Err(Error::Node(BadNode::Order(b"a".to_vec()))));
    assert_eq!(chunks.folder(&[named(b"a"), named(b"a")]), Err(Error::Node(BadNode::Order(b"a".to_vec()))));
    let mut long = named(b"long");
    long.metadata.attributes = vec![(b"user.long".to_vec(), vec![1; CHUNK_BYTES_MAX])];
    assert!(matches!(chunks.folder(&[long]), Err(Error::Node(BadNode::Long { .. }))));
    assert!(chunks.folder(&[named(b"\xff\xfe"), named(b"\xff\xff")]).is_ok(), "a name need not be text");
}

#[test]
fn bytes_that_are_no_metadata_are_refused_without_asking_for_memory() {
    let (mut chunks, mut noise) = (Chunks::default(), Noise(9));
    let recipe = chunks.recipe(&some_spans(5_000, 10));
    let (top, _) = recipe.top();
    let sound = chunks.fetch(&top[0].reference().unwrap()).unwrap();
    assert!(spans(&sound[..sound.len() - 1]).is_err());
    for _ in 0..20_000 {
        let mut bytes = sound.clone();
        let at = noise.next() as usize % bytes.len();
        bytes[at] = noise.next() as u8;
        let _ = (spans(&bytes), nodes(&bytes));
    }
    assert!(nodes(&[0xff; 64]).is_err());
}

#[test]
fn a_chunk_of_spans_is_of_one_layer_only() {
    let mut chunks = Chunks::default();
    let own = Reference { fingerprint: fingerprint(&mut Noise(11)), ordinal: Ordinal(1) };
    let span = postcard::to_allocvec(&Span::chunk(own, 1)).unwrap();
    let role = Role::Spans { is_folder: false, layer: 0 };
    chunks.0.insert(own.fingerprint.0, [vec![role.byte()], span.clone()].concat());
    for layers in [0, 1, 2, 7, 8, 255] {
        let encoded = [vec![layers, 1], span.clone()].concat();
        let recipe: Recipe = postcard::from_bytes(&encoded).unwrap();
        let mut visits = 0;
        let walked = recipe.walk(&mut |chunk| chunks.fetch(chunk), &mut |_, _| {
            visits += 1;
            true
        });
        assert_eq!(walked.is_err(), layers > 1, "{walked:?}");
        assert!(visits <= 2);
    }
}

#[test]
fn every_chunk_that_metadata_names_is_a_child_in_its_role() {
    let (mut chunks, mut noise) = (Chunks::default(), Noise(12));
    let nodes: Vec<Node> = (0..3_000)
        .filter(|number| number % 7 != 0)
        .map(|number| some_node(number, &mut noise, &mut chunks))
        .collect();
    let folder = chunks.folder(&nodes).unwrap();
    let snapshot = Snapshot {
        name: b"a name".to_vec(),
        host: b"a host".to_vec(),
        tags: vec![b"one".to_vec(), b"other".to_vec()],
        begun_ms: 6,
        created_ms: 7,
        totals: Totals { files: 3, folders: 2, bytes: 1 },
        folder,
        top: Some(Metadata { mode: 0o700, ..Metadata::default() }),
    };
    let bytes = snapshot.to_bytes();
    assert_eq!(Snapshot::from_bytes(&bytes).unwrap(), snapshot);
    let (mut pending, mut found) = (vec![(Role::Snapshot, bytes)], HashMap::<Role, usize>::new());
    while let Some((wanted, bytes)) = pending.pop() {
        let (role, named) = children(&bytes).unwrap();
        assert_eq!(role, wanted);
        for Child { chunk, role } in named {
            *found.entry(role).or_default() += 1;
            if role != Role::Content {
                // No folder has the random spans that `some_node` makes.
                pending.extend(chunks.fetch(&chunk).ok().map(|bytes| (role, bytes)));
            }
        }
    }
    let content = nodes.iter().map(|node| match &node.kind {
        Kind::File(recipe) => {
            chunks.content(recipe).unwrap().iter().filter(|it| it.reference().is_some()).count()
        }
        _ => 0,
    });
    assert_eq!(found[&Role::Content], content.sum::<usize>());
    assert!(
        found[&Role::Nodes] > 10 && found.keys().any(|role| matches!(role, Role::Spans { .. })),
        "{found:?}"
    );
    assert!(Snapshot::from_bytes(b"").is_err() && children(&[3]).is_err() && children(&[0]).is_err());
    assert!(children(&[0x48]).is_err(), "spans of a ninth layer");
}
