//! Findings about clients on a made-up host: sysfs and proc in a folder.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().expect("a directory"));
        for folder in ["sys/block", "proc/self", "disk"] {
            fs::create_dir_all(host.path(folder)).expect("a folder");
        }
        host.file("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(self, name: &str, text: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
        self
    }

    /// A process that runs the program at `path`, with this command line.
    fn process(self, number: u32, path: &str, words: &[&str]) -> Self {
        let this = self.file(&format!("proc/{number}/cmdline"), &words.join("\0"));
        symlink(path, this.path(&format!("proc/{number}/exe"))).expect("a link");
        this
    }

    /// A device that the client with process `owner` made; `part` of it if there is one.
    fn nbd(self, owner: u32, part: Option<u32>) -> Self {
        let this = self.file("sys/block/nbd0/pid", &owner.to_string()).file("sys/block/nbd0/dev", "43:0");
        fs::create_dir_all(this.path("sys/block/nbd0/holders")).expect("a folder");
        let Some(part) = part else { return this };
        let dir = format!("sys/block/nbd0/nbd0p{part}");
        fs::create_dir_all(this.path(&format!("{dir}/holders"))).expect("a folder");
        let this = this.file(&format!("{dir}/partition"), &part.to_string());
        this.file(&format!("{dir}/dev"), &format!("43:{part}"))
    }

    fn mounted(self, number: &str, driver: &str) -> Self {
        self.file(
            "proc/self/mountinfo",
            &format!("30 22 {number} / /mnt rw shared:1 - {driver} /dev/nbd0 rw"),
        )
    }

    fn attachment(&self, mode: Mode) -> Attachment {
        let roots = Roots { sys: self.path("sys"), proc: self.path("proc") };
        Attachment::new(mode, 1000, &self.path("disk"), roots)
    }

    /// The finding about process 7.
    fn finding(&self) -> Finding {
        let attachment = self.attachment(Mode::Auto);
        attachment.connected(Some(7));
        attachment.finding()
    }

    fn assert_direct(&self, why: &str) {
        let finding = self.finding();
        assert!(!finding.cached && finding.why.contains(why), "{finding:?}");
    }

    fn assert_cached(&self, why: &str) {
        let finding = self.finding();
        assert!(finding.cached && finding.why.contains(why), "{finding:?}");
    }
}

fn client() -> Host {
    Host::new().process(7, "/usr/sbin/nbd-client", &["nbd-client"])
}

#[test]
fn qemu_s_own_client_is_direct() {
    Host::new().process(7, "/usr/bin/qemu-system-x86_64", &["qemu-system-x86_64"]).assert_direct("QEMU");
    Host::new().process(7, "/usr/libexec/qemu-kvm", &["qemu-kvm"]).assert_direct("QEMU");
    Host::new().process(7, "/usr/bin/qemu-system-x86_64 (deleted)", &[]).assert_direct("QEMU");
}

#[test]
fn a_program_whose_path_cannot_be_read_is_known_by_its_short_name() {
    Host::new().file("proc/7/comm", "qemu-system-x86").assert_direct("qemu-system-x86 (process 7)");
}

#[test]
fn an_unknown_client_is_cached() {
    Host::new().process(7, "/usr/bin/python3", &["python3"]).assert_cached("python3 (process 7)");
    Host::new().process(7, "/usr/bin/qemu-nbd", &["qemu-nbd", "-c", "/dev/nbd0"]).assert_cached("qemu-nbd");
    Host::new().assert_cached("process 7 cannot be examined");
    let attachment = Host::new().attachment(Mode::Auto);
    attachment.connected(None);
    assert!(attachment.finding().cached);
}

#[test]
fn a_storage_daemon_is_direct_if_all_its_exports_are_known() {
    let daemon = |words: &[&str]| Host::new().process(7, "/usr/bin/qemu-storage-daemon", words);
    daemon(&["qsd", "--export", "type=vhost-user-blk,id=e"]).assert_direct("vhost-user");
    daemon(&["qsd", "--export=vhost-user-blk,id=e"]).assert_direct("vhost-user");
    daemon(&["qsd", "--chardev", "stdio,id=c"]).assert_cached("qemu-storage-daemon");
    daemon(&["qsd", "--export", "type=vhost-user-blk", "--export", "type=fuse"]).assert_cached("daemon");
    daemon(&["qsd", "--export", "type=vduse-blk,id=e"]).assert_cached("daemon");
}

#[test]
fn a_kernel_s_device_is_direct_where_the_kernel_has_mounted_it() {
    client().assert_cached("made no device");
    client().nbd(7, None).assert_cached("/dev/nbd0 is not mounted");
    client().nbd(7, None).mounted("43:0", "ext2").assert_direct("mounted by the kernel (ext2)");
    client().nbd(7, None).mounted("43:1", "ext2").assert_cached("is not mounted");
    client().nbd(7, None).mounted("43:0", "fuseblk").assert_cached("FUSE");
    client().nbd(7, Some(1)).assert_cached("not every partition");
    client().nbd(7, Some(1)).mounted("43:1", "vfat").assert_direct("vfat");
}

#[test]
fn what_stands_above_a_kernel_s_device_may_be_a_cache() {
    let mounted = || client().nbd(7, Some(1)).mounted("43:1", "ext2");
    mounted().file("sys/block/nbd0/nbd0p1/holders/dm-3", "").assert_cached("dm-3 stands above");
    mounted().file("sys/block/loop4/loop/backing_file", "/dev/nbd0").assert_cached("loop4 stands above");
    mounted().file("sys/block/loop4/loop/backing_file", "/dev/nbd1").assert_direct("ext2");
    let unreadable = mounted();
    fs::remove_dir(unreadable.path("sys/block/nbd0/holders")).expect("it is empty");
    unreadable.assert_cached("stands above");
}

#[test]
fn a_client_that_went_on_in_the_background_is_as_its_worst_device() {
    let host = client().nbd(8, None).mounted("43:0", "ext2");
    host.assert_direct("/dev/nbd0");
    host.file("sys/block/nbd1/pid", "9").assert_cached("/dev/nbd1");
}

#[test]
fn another_look_finds_what_has_come_since() {
    let host = client().nbd(7, None).mounted("43:0", "ext2");
    let attachment = host.attachment(Mode::Auto);
    attachment.connected(Some(7));
    assert_eq!(attachment.attached(), Attached::Direct);
    let _host = host.file("sys/block/nbd0/holders/dm-0", "");
    attachment.look_again();
    assert_eq!(attachment.attached(), Attached::Cached { hold_ms: 1000 });
}

#[test]
fn one_cached_client_of_several_decides_and_the_last_one_s_cache_may_come_again() {
    let host = Host::new().process(7, "/usr/bin/qemu-system-x86_64", &[]);
    let attachment = host.attachment(Mode::Auto);
    let direct = attachment.connected(Some(7));
    let stranger = attachment.connected(None);
    assert!(attachment.finding().cached);
    attachment.disconnected(stranger);
    assert!(!attachment.finding().cached);
    let stranger = attachment.connected(None);
    attachment.disconnected(direct);
    attachment.disconnected(stranger);
    assert!(attachment.finding().cached);
}

#[test]
fn the_note_outlives_the_server() {
    let host = Host::new();
    assert!(!host.attachment(Mode::Auto).finding().cached);
    host.attachment(Mode::Auto).note(true);
    assert!(host.attachment(Mode::Auto).finding().cached);
    assert!(!host.attachment(Mode::Direct).finding().cached);
    host.attachment(Mode::Auto).note(false);
    assert!(!host.attachment(Mode::Auto).finding().cached);
}

#[test]
fn the_owner_s_word_counts_whatever_connects() {
    let host = Host::new();
    for (mode, cached) in [(Mode::Direct, false), (Mode::Cached, true)] {
        let attachment = host.attachment(mode);
        attachment.connected(None);
        attachment.look_again();
        assert_eq!(attachment.finding().cached, cached);
    }
}

#[test]
fn this_very_process_is_a_stranger() {
    let roots = Roots::default();
    let finding = Peer::new(&roots, Some(std::process::id())).look(&roots);
    assert!(finding.cached && finding.why.contains("is not known"), "{finding:?}");
}
