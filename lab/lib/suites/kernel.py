"""Real kernels above the disk: nbd.ko, virtio over qemu-storage-daemon, and virtio of a QEMU that is the client."""

import os

from labkit.guest import GUEST_RUN, guest_form
from labkit.servers import ROOT
from labkit.suite import MIB, NEWEST, Skip, expect, suite

DISK_TEST = os.path.join(ROOT, "lab", "lib", "guest-disk-test")
FILES_TEST = os.path.join(ROOT, "lab", "lib", "guest-files-test")
NBD_KO = "drivers/block/nbd.ko"


def _need_guest(attach):
    if attach != "nbd" or guest_form() != "uml":
        return
    if os.geteuid() != 0 and not os.access("/dev/net/tun", os.W_OK):
        raise Skip("neither root nor a /dev/net/tun that we may open")
    if not any(NBD_KO in os.path.join(root, name) for root, _, names in os.walk("/usr/lib/uml/modules") for name in names):
        raise Skip("the guest's kernel has no nbd.ko")


def _guest(stage, attach, *arguments, size=256 * MIB, shared=False):
    _need_guest(attach)
    server = stage.serve_shared(size) if shared else stage.serve(size)
    keep = stage.work.directory("guest")
    said = stage.run(GUEST_RUN, "--attach", attach, "--disk", server.uri, "--keep", keep, *arguments)
    with open(os.path.join(keep, "console.log"), errors="replace") as console:
        errors = [line for line in console if "I/O error" in line or "timed out" in line]
    expect("the guest's kernel saw errors", not errors, " ".join(errors[:2]))
    return server, said


@suite("kernel nbd.ko: raw disk, FUA, discard, zeroes", needs=["socat", "nbd-client"])
def nbd_raw(stage):
    _guest(stage, "nbd", "--", DISK_TEST)


@suite("kernel nbd.ko: four connections", needs=["socat", "nbd-client"])
def nbd_connections(stage):
    _guest(stage, "nbd", "--connections", "4", "--", DISK_TEST, shared=True)


@suite("kernel nbd.ko: ext4 with discard, files, fsck", needs=["socat", "nbd-client"])
def nbd_files(stage):
    _files(stage, "nbd")


@suite("kernel virtio: raw disk, discard, zeroes", needs=["qemu-storage-daemon"])
def virtio_raw(stage):
    _guest(stage, "virtio", "--", DISK_TEST)


@suite("kernel virtio: ext4 with discard, files, fsck", needs=["qemu-storage-daemon"])
def virtio_files(stage):
    _files(stage, "virtio")


def _files(stage, attach):
    server, _ = _guest(stage, attach, "--fs", "ext4", "--mkfs", "", "--mount-opts", "discard", "--", FILES_TEST, "write")
    stage.run(GUEST_RUN, "--attach", attach, "--disk", server.uri, "--fs", "ext4", "--fsck", "--", FILES_TEST, "check")


QEMU = f"qemu-system-{os.uname().machine}"


@suite(f"{NEWEST} kernel in QEMU, which is the client: raw disk, discard, zeroes", needs=[QEMU], newest=True)
def qemu_raw(stage):
    _guest(stage, "qemu", "--", DISK_TEST)


@suite(f"{NEWEST} kernel in QEMU, which is the client: ext4 with discard, files, fsck", needs=[QEMU], newest=True)
def qemu_files(stage):
    _files(stage, "qemu")
