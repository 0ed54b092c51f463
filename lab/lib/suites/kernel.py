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


def _files(stage, attach):
    server, _ = _guest(stage, attach, "--fs", "ext4", "--mkfs", "", "--mount-opts", "discard", "--", FILES_TEST, "write")
    stage.run(GUEST_RUN, "--attach", attach, "--disk", server.uri, "--fs", "ext4", "--fsck", "--", FILES_TEST, "check")


def _register(attach, client, needs, raw="raw disk, discard, zeroes", newest=False):
    suite(f"{client}: {raw}", needs, newest=newest)(lambda stage: _guest(stage, attach, "--", DISK_TEST))
    suite(f"{client}: ext4 with discard, files, fsck", needs, newest=newest)(lambda stage: _files(stage, attach))


_register("nbd", "kernel nbd.ko", ["socat", "nbd-client"], raw="raw disk, FUA, discard, zeroes")
_register("virtio", "kernel virtio", ["qemu-storage-daemon"])
_register("qemu", f"{NEWEST} kernel in QEMU, which is the client", [f"qemu-system-{os.uname().machine}"], newest=True)


@suite("kernel nbd.ko: four connections", needs=["socat", "nbd-client"])
def nbd_connections(stage):
    _guest(stage, "nbd", "--connections", "4", "--", DISK_TEST, shared=True)
