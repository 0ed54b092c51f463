//! The test vectors of `docs/formats/sealing.md` and `keys.md`, read from the documents themselves.
//! `lab/lib/test_seal.py` checks the same vectors with an implementation of its own.

use crate::common::Scripted;
use argon2::{Algorithm, Argon2, AssociatedData, ParamsBuilder, Version};
use quietus_core::base::cell::Cell;
use quietus_core::media::cipher::Cipher;
use quietus_seal::keys::{Credential, KeyFile, Stretch};
use quietus_seal::{
    Block, Context, DiskId, Epoch, Generation, Generator, MasterKey, Random, Sealer, SectorCipher, Sequence,
    Session, Slot,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most bytes that a vector prints whole; it prints the hash of more, and a dash for no bytes.
const PRINTED_BYTES_MAX: usize = 64;

/// The fields of one vector.
struct Vector(BTreeMap<String, String>);

impl Vector {
    fn text(&self, field: &str) -> &str {
        self.0.get(field).unwrap_or_else(|| panic!("{field} is missing in {:?}", self.0))
    }

    fn number<N: TryFrom<u64, Error: std::fmt::Debug>>(&self, field: &str) -> N {
        N::try_from(self.text(field).parse().unwrap()).unwrap()
    }

    fn bytes(&self, field: &str) -> Vec<u8> {
        let hex = self.text(field).trim_matches('-').as_bytes().chunks(2);
        hex.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
    }

    fn array<const N: usize>(&self, field: &str) -> [u8; N] {
        self.bytes(field).try_into().unwrap()
    }

    fn master(&self) -> MasterKey {
        MasterKey::new(&self.array("master"))
    }

    fn context(&self) -> Context {
        Context {
            block: Block(self.number("block")),
            born: Epoch(self.number("born")),
            slot: Slot(self.number("slot")),
            sequence: Sequence(self.number("sequence")),
        }
    }
}

/// The vectors of a kind: the blocks that begin with ```` ```vector KIND ````.
fn vectors(kind: &str) -> Vec<Vector> {
    let document = concat!(
        include_str!("../../../../docs/formats/sealing.md"),
        include_str!("../../../../docs/formats/keys.md")
    );
    let opening = format!("```vector {kind}\n");
    let blocks = document.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap());
    let field = |line: &str| line.split_once(" = ").map(|(name, value)| (name.into(), value.into()));
    let found: Vec<Vector> = blocks.map(|block| Vector(block.lines().filter_map(field).collect())).collect();
    assert!(!found.is_empty(), "the document has no vector {kind}");
    found
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

fn printed(bytes: &[u8]) -> String {
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    let bytes = match bytes.len() {
        0 => return "-".into(),
        1..=PRINTED_BYTES_MAX => bytes,
        _ => &hash,
    };
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn blocks_are_sealed_as_documented() {
    for vector in vectors("block") {
        let seal = vector.text("seal").parse().unwrap();
        let generation = Generation(vector.number("generation"));
        let disk = DiskId(vector.array("disk"));
        let keys = Sealer::new(seal, &vector.master(), generation, disk, session(&vector));
        let mut block = data(vector.number("length"));
        let drawn = vector.bytes("drawn");
        let stub = keys.close(&vector.context(), &mut block, &mut Scripted(&drawn)).unwrap();
        let found = (printed(&block), printed(&stub));
        let expected = (vector.text("ciphertext").to_owned(), vector.text("stub").to_owned());
        assert_eq!(found, expected, "{seal}");
        keys.open(&vector.context(), &mut block, &vector.bytes("stub")).unwrap();
        assert_eq!(block, data(vector.number("length")), "{seal}");
    }
}

#[test]
fn sectors_are_encrypted_under_their_cell_as_documented() {
    for vector in vectors("sectors") {
        let cipher = match vector.text("master") {
            "-" => SectorCipher::new_without_master(),
            _ => SectorCipher::new(&vector.master()),
        };
        let (block, cell) = (Block(vector.number("block")), Cell::from_bytes(&vector.bytes("cell")).unwrap());
        let (from, content) = (vector.number("from"), data(vector.number("length")));
        let mut sectors = content.clone();
        cipher.encrypt(block, &cell, from, &mut sectors);
        assert_eq!(printed(&sectors), vector.text("ciphertext"), "sectors from {from} on");
        cipher.decrypt(block, &cell, from, &mut sectors);
        assert_eq!(sectors, content);
    }
}

fn session(vector: &Vector) -> Session {
    Session(vector.array("session"))
}

#[test]
fn generator_gives_the_documented_bytes() {
    for vector in vectors("generator") {
        let mut generator = Generator::new(&vector.array("seed"));
        let mut bytes = vec![0; vector.number("skip")];
        generator.fill(&mut bytes);
        let mut bytes = [0; 32];
        generator.fill(&mut bytes);
        assert_eq!(printed(&bytes), vector.text("bytes"));
        generator.reseed(&vector.array("reseed"));
        generator.fill(&mut bytes);
        assert_eq!(printed(&bytes), vector.text("after"));
    }
}

#[test]
fn key_file_is_as_documented() {
    for vector in vectors("keys") {
        let secret = vector.bytes("secret");
        let numbers: Vec<u32> =
            vector.text("stretch").split(' ').filter_map(|text| text.parse().ok()).collect();
        let (credential, stretch) = match (vector.text("kind"), &numbers[..]) {
            ("key file", []) => (Credential::KeyFile(&secret), Stretch::default()),
            ("passphrase", [memory_kib, passes, lanes]) => (
                Credential::Passphrase(&secret),
                Stretch { memory_kib: *memory_kib, passes: *passes, lanes: *lanes },
            ),
            kind => panic!("unknown kind {kind:?}"),
        };
        let (disk, drawn) = (DiskId(vector.array("disk")), vector.bytes("drawn"));
        let (mut file, _) = KeyFile::create(disk, &credential, stretch, &mut Scripted(&drawn)).unwrap();
        file.add_session(session(&vector), Generation(0)).unwrap();
        let bytes = file.to_bytes();
        let part = |at: usize, field: &str| {
            let expected = vector.bytes(field);
            assert_eq!(bytes[at..at + expected.len()], expected, "{field}");
        };
        part(0, "header");
        part(4096, "key-slot");
        part(9 * 4096, "master-key");
        part(73 * 4096, "record");
        assert_eq!(printed(&bytes), vector.text("file"));
        let read = KeyFile::from_bytes(&bytes).unwrap().unlock(&credential).unwrap();
        assert_eq!(read.newest().0, Generation(0));
    }
}

/// No seal goes without a vector, at a length of one batch of the cipher and at others.
#[test]
fn every_seal_has_vectors() {
    for seal in quietus_seal::Seal::ALL {
        let count = vectors("block").iter().filter(|vector| vector.text("seal") == seal.name()).count();
        assert_eq!(count, 2, "{seal}");
    }
}

/// RFC 9106, section 5.3. The other implementation takes the result of Argon2id from the vector.
#[test]
fn argon2id_agrees_with_its_rfc() {
    let mut params = ParamsBuilder::new();
    params.m_cost(32).t_cost(3).p_cost(4).data(AssociatedData::new(&[4; 12]).unwrap());
    let params = params.build().unwrap();
    let argon2 = Argon2::new_with_secret(&[3; 8], Algorithm::Argon2id, Version::V0x13, params).unwrap();
    let mut tag = [0; 32];
    argon2.hash_password_into(&[1; 32], &[2; 16], &mut tag).unwrap();
    assert_eq!(printed(&tag), "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659");
}
