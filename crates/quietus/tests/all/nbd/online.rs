//! A disk is exported while a guest writes to it.

use crate::nbd::client::*;
use crate::program::{Disk, Server, quietus, signal, succeeds, text};
use rustix::process::Signal;
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SIZE: u64 = 96 << 20;
const PLACES: u64 = 24;
const IN_PLACE: [&str; 2] = ["--size", "96M"];

fn in_place() -> Disk {
    Disk::new(&IN_PLACE)
}

fn overlay() -> Disk {
    Disk::on(&[7; 8 << 20], &[&IN_PLACE[..], &["--store", "overlay", "--base"]].concat())
}

/// Where place `n` is: every other one goes down from the end, so that no order of
/// copying is the guest's.
fn place(n: u64) -> (u64, usize) {
    let (step, len) = (SIZE / PLACES, 4096 << (n % 7));
    (step * if n.is_multiple_of(2) { n } else { PLACES - n }, len)
}

/// Change `n` of the guest: which place, and what it holds then; 0 is a trim.
fn change(n: u64) -> (u64, u64) {
    let (round, place) = (n / PLACES, n % PLACES);
    (place, if round % 3 == 2 && place % 5 == 1 { 0 } else { n + 1 })
}

/// Makes one change after the other; `made` counts those that were replied to.
fn work(client: &mut Client<impl std::io::Read + std::io::Write>, made: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let (place_of, stamp) = change(made.load(Ordering::Relaxed));
        let (at, len) = place(place_of);
        let error = match stamp {
            0 => client.request(TRIM, 0, at, len as u64),
            _ => client.write(0, at, &stamp.to_le_bytes().repeat(len / 8)),
        };
        assert_eq!(error, 0);
        made.fetch_add(1, Ordering::Relaxed);
    }
}

/// What each place of the image holds, all of it.
fn stamps(image: &Path) -> HashMap<u64, u64> {
    let file = std::fs::File::open(image).unwrap();
    let stamp = |n| {
        let (at, len) = place(n);
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, at).unwrap();
        let stamp = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes == stamp.to_le_bytes().repeat(len / 8), "place {n} is torn");
        (n, stamp)
    };
    (0..PLACES).map(stamp).collect()
}

/// After how many changes the disk was like this.
fn moment(image: &HashMap<u64, u64>, changes: u64) -> Option<u64> {
    let mut disk: HashMap<u64, u64> = (0..PLACES).map(|n| (n, 0)).collect();
    (0..changes).find_map(|n| {
        let (place, stamp) = change(n);
        disk.insert(place, stamp);
        (disk == *image).then_some(n + 1)
    })
}

fn begin(served: &Server) -> Client<std::os::unix::net::UnixStream> {
    let mut client = served.connect();
    client.agree(Style::Structured);
    client
}

/// Puts something everywhere.
fn fill(served: &Server) {
    let mut client = begin(served);
    for at in (0..SIZE).step_by(4 << 20) {
        assert_eq!(client.write(0, at, &vec![9; 4 << 20]), 0);
    }
    for n in 0..PLACES {
        let (at, len) = place(n);
        assert_eq!(client.write(0, at, &vec![0; len]), 0);
    }
}

fn export(disk: &Disk, image: &Path) -> Child {
    let mut command = quietus();
    command.args(["--json", "export"]).arg(disk.path()).arg(image);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn done(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

/// The same through a vault: a snapshot of the disk, restored.
fn put_and_get(disk: &Disk, image: &Path) -> Output {
    let [vault, into] = ["vault", "restored"].map(|name| disk.beside(name));
    let command = |name: &str, args: &[&str]| {
        let mut command = quietus();
        command.args(["--json", "vault", name]).arg(&vault).args(args);
        command
    };
    if !vault.exists() {
        succeeds(&mut command("init", &["--size", "256M"]));
    }
    let put = command("put", &["s", "--disk", text(&disk.path())]).output().unwrap();
    if put.status.success() {
        succeeds(&mut command("get", &["s", "--into", text(&into)]));
        std::fs::rename(into.join("disk.img"), image).unwrap();
    }
    put
}

fn an_image_is_the_disk_at_one_instant(disk: &Disk, take: fn(&Disk, &Path) -> Output) {
    let served = disk.serve(&["--detect", "off"]);
    fill(&served);
    let (made, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut client = begin(&served);
    std::thread::scope(|scope| {
        scope.spawn(|| work(&mut client, &made, &stop));
        for n in 0..6 {
            let image = disk.beside(format!("image-{n}"));
            let before = made.load(Ordering::Relaxed);
            let output = take(disk, &image);
            let after = made.load(Ordering::Relaxed);
            if !output.status.success() {
                stop.store(true, Ordering::Relaxed);
                panic!("{output:?}");
            }
            let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let held = said["held_ms"].as_u64().unwrap_or(0);
            let stamps = std::panic::catch_unwind(|| stamps(&image));
            let moment = stamps.as_ref().ok().and_then(|it| moment(it, after + 1));
            stop.store(moment.is_none(), Ordering::Relaxed);
            let is_whole = moment.is_some_and(|moment| before <= moment);
            assert!(is_whole && held < 1100, "{before}, {moment:?}, {after}; {held}: {stamps:?}");
            println!("{before} changes before, {moment:?} in, {after} after; held for {held} ms");
            std::fs::remove_file(&image).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_image_of_a_disk_in_place_is_the_disk_at_one_instant() {
    an_image_is_the_disk_at_one_instant(&in_place(), |disk, image| done(export(disk, image)));
}

#[test]
fn an_image_of_an_overlay_is_the_disk_at_one_instant() {
    an_image_is_the_disk_at_one_instant(&overlay(), |disk, image| done(export(disk, image)));
}

#[test]
fn a_snapshot_of_a_disk_is_the_disk_at_one_instant() {
    an_image_is_the_disk_at_one_instant(&in_place(), put_and_get);
}

fn names(disk: &Disk) -> Vec<PathBuf> {
    std::fs::read_dir(disk.dir.path()).unwrap().map(|it| it.unwrap().path()).collect()
}

/// Begins to export, and stops the server in the middle of it.
fn half_way(disk: &Disk, served: &Server) -> Child {
    for n in 0..100 {
        let image = disk.beside(format!("half-{n}"));
        let mut client = export(disk, &image);
        let draft = disk.beside(format!(".half-{n}.export/raw"));
        let is_begun = || std::fs::metadata(&draft).is_ok_and(|it| it.len() == SIZE);
        while !is_begun() && client.try_wait().unwrap().is_none() {}
        signal(&served.child, Signal::STOP);
        if is_begun() {
            // So long that it is time to say how far it is.
            std::thread::sleep(Duration::from_millis(200));
            return client;
        }
        signal(&served.child, Signal::CONT);
        let output = done(client);
        assert!(output.status.success(), "{output:?}");
        std::fs::remove_file(image).unwrap();
    }
    panic!("it is always done too soon");
}

#[test]
fn an_export_that_is_interrupted_leaves_nothing_and_the_guest_goes_on() {
    let disk = in_place();
    let served = disk.serve(&["--detect", "off"]);
    fill(&served);
    let client = half_way(&disk, &served);
    signal(&client, Signal::INT);
    signal(&served.child, Signal::CONT);
    let output = done(client);
    assert_eq!((output.status.code(), names(&disk)), (Some(130), vec![disk.path()]), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"), "{output:?}");
    assert_eq!(begin(&served).write(0, 0, &[1; 4096]), 0);

    // What is killed cannot put its draft away: the next of its name does. It holds up no export.
    let mut client = half_way(&disk, &served);
    client.kill().unwrap();
    done(client);
    signal(&served.child, Signal::CONT);
    assert_eq!(begin(&served).write(0, 0, &[2; 4096]), 0);
    let image = disk.beside("image");
    assert!(done(export(&disk, &image)).status.success());
    let mut first = [0; 4096];
    std::fs::File::open(&image).unwrap().read_exact_at(&mut first, 0).unwrap();
    assert_eq!(first, [2; 4096]);
}

#[test]
fn a_server_that_ends_leaves_no_half_an_image() {
    let disk = in_place();
    for end in [Signal::TERM, Signal::KILL] {
        let mut served = disk.serve(&["--detect", "off"]);
        fill(&served);
        let client = half_way(&disk, &served);
        signal(&served.child, end);
        signal(&served.child, Signal::CONT);
        let output = done(client);
        let code = served.child.wait().unwrap();
        assert_eq!(code.success(), end == Signal::TERM, "{code}");
        // A stop in good order may let it come to its end.
        let image = names(&disk).into_iter().find(|it| *it != disk.path());
        assert_eq!(image.is_some(), output.status.success(), "{image:?}, {output:?}");
        assert!(end == Signal::TERM || image.is_none());
        image.into_iter().for_each(|it| std::fs::remove_file(it).unwrap());
    }
}
