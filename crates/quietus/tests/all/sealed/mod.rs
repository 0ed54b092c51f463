//! Sealed disks: content in its place under keys that die with it.

mod made;
mod memory;
mod proof;
mod refused;
mod served;
mod tpm;

use crate::nbd::client::{Client, FLUSH, Style, TRIM};
use crate::program::{Disk, Server, private, text};
use std::os::unix::net::UnixStream;

const BLOCK: usize = 4096;
/// Where the slots of the root begin, and the bytes of each.
const SLOTS: [usize; 2] = [4096, 8192];
const SLOT_BYTES: usize = 40;

/// A sealed disk without a credential, made with further `args`.
fn made(args: &[&str]) -> Disk {
    Disk::new(&[&["--store", "sealed", "--no-credential"], args].concat())
}

/// A sealed disk of 1 MiB that a key file opens, and that file.
fn with_key() -> (Disk, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let key = dir.path().join("key");
    private(&key, &[7; 32]);
    let key = text(&key).to_string();
    (Disk::made(dir, &["--store", "sealed", "--size", "1M", "--key-file", &key]), key)
}

fn serve(disk: &Disk) -> Server {
    disk.serve(&["--detect", "off"])
}

fn client(server: &Server) -> Client<UnixStream> {
    let mut client = server.connect();
    client.agree(Style::Structured);
    client
}

/// Writes `bytes` of this value from block `block` on, durably.
fn fill(client: &mut Client<UnixStream>, block: usize, byte: u8, bytes: usize) {
    assert_eq!(client.write(0, (block * BLOCK) as u64, &vec![byte; bytes]), 0);
    assert_eq!(client.request(FLUSH, 0, 0, 0), 0);
}

/// Checks that every byte from block `block` on has this value.
#[track_caller]
fn assert_filled(client: &mut Client<UnixStream>, block: usize, byte: u8, bytes: usize) {
    let found = client.read(0, (block * BLOCK) as u64, bytes).expect("bytes");
    let wrong = found.iter().position(|it| *it != byte);
    assert_eq!(wrong, None, "block {block} reads as {:?}", wrong.map(|at| found[at]));
}

fn trim(client: &mut Client<UnixStream>, block: usize, blocks: usize) {
    assert_eq!(client.request(TRIM, 0, (block * BLOCK) as u64, (blocks * BLOCK) as u64), 0);
}

/// The number of the last purge.
fn purges(disk: &Disk) -> u64 {
    let status = disk.json("status", &[]);
    assert_eq!(status["store"]["kind"], "sealed", "{status}");
    status["store"]["purge"].as_u64().expect("a number")
}

/// A disk with content in blocks 0 to 19, of which 8 to 11 died and were purged.
fn purged() -> Disk {
    let disk = made(&["--size", "1M"]);
    let server = serve(&disk);
    let mut client = client(&server);
    fill(&mut client, 0, 0x41, 20 * BLOCK);
    trim(&mut client, 8, 4);
    disk.json("shred", &["--now"]);
    drop(client);
    server.stop();
    disk
}
