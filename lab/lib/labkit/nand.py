"""Chips of raw NAND flash that nandsim simulates, disks on them, and what a raw read finds."""

import fcntl
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))
from seal_reference import crc32c  # noqa: E402

from . import tags  # noqa: E402
from .mtd import Device, load_module, run  # noqa: E402
from .servers import Quietus  # noqa: E402
from .workspace import wait_until  # noqa: E402

# 64 MiB in 512 blocks of 64 pages of 2 KiB, with 64 spare bytes.
_SLC = ["first_id_byte=0x20", "second_id_byte=0xa2", "third_id_byte=0x00", "fourth_id_byte=0x15"]
BLOCK_PAGES = 64
PAGE_BYTES = 2048
# linux/include/uapi/mtd/ubi-user.h
_UBI_IOCMKVOL, _UBI_IOCATT, _UBI_IOCDET, _UBI_DYNAMIC = 0x40986F00, 0x40186F40, 0x40046F41, 3


def _numbers(rng, blocks, count, most, unit=1):
    """`count` different numbers of blocks, or of pages in them, each with how often it works."""
    chosen = rng.sample(range(blocks), count)
    return ",".join(f"{block * unit + rng.randrange(unit)}:{rng.randrange(1, most)}" for block in chosen)


def _bad(rng, blocks):
    return "badblocks=" + ",".join(str(block) for block in rng.sample(range(blocks), 3))


# Module parameters of each kind of chip: what is wrong with it.
KINDS = {
    # One wrong bit in 256 bytes is corrected.
    "plain": lambda rng, blocks: [],
    # Some reads find up to four wrong bits; as many in 512 bytes are corrected.
    "flips": lambda rng, blocks: ["bch=4", "bitflips=4", _bad(rng, blocks)],
    # Blocks that cannot be erased after some erasures, pages that cannot be programmed after some programs.
    "worn": lambda rng, blocks: [_bad(rng, blocks), "weakblocks=" + _numbers(rng, blocks, blocks // 24, 6),
                                 "weakpages=" + _numbers(rng, blocks, blocks // 24, 5, BLOCK_PAGES)],
    # Pages that look blank after some reads: what they held is lost.
    "grave": lambda rng, blocks: [_bad(rng, blocks), "gravepages=" + _numbers(rng, blocks, blocks // 24, 60, BLOCK_PAGES)],
    # Pages of 512 bytes: too small.
    "small": None,
}


class Chip(Device):
    """A fresh chip of that kind, of 512 blocks at most. A second one has the other blocks (`other`)."""

    def __init__(self, kind, rng, blocks=256):
        if os.path.exists("/sys/module/nandsim"):
            run("rmmod", "nandsim")
        self.kind = kind
        chosen = KINDS[kind]
        load_module("nandsim", *([*_SLC, f"parts={blocks}", *chosen(rng, blocks)] if chosen else []))
        super().__init__("NAND simulator partition 0")

    @staticmethod
    def other():
        return Device("NAND simulator partition 1")

    def seen(self):
        """What the driver counted, in words."""
        return f"{self.fact('bad_blocks')} bad blocks, {self.fact('corrected_bits')} bits corrected, {self.fact('ecc_failures')} failed"


class OnChip(Quietus):
    """Our server, of a disk on a chip or what names one, with its root there too. As large as the chip suggests if `size` is None. With `has_key`
    a sealed disk has a key file."""

    is_raw = keeps_unflushed = False

    def __init__(self, work, name, store, chip, size=None, create_options=(), serve_options=(), has_key=False):
        self.store, self.chip = store, getattr(chip, "device", chip)
        self.has_key = has_key and store == "sealed"
        super().__init__(work, name, size, create_options, serve_options)

    def create(self):
        self.disk = os.path.join(self.directory, self.export)
        size = ["--size", str(self.size)] if self.size else []
        credential = ["--no-credential"] if self.store == "sealed" else []
        if self.has_key:
            self.key = os.path.join(self.directory, "key")
            with open(self.key, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(os.urandom(32))
            credential = ["--key-file", self.key]
        self.tool("create", "--store", self.store, "--medium", f"nand:{self.chip}", *credential, *size, *self.create_options)

    def argv(self):
        return [*super().argv(), *(["--key-file", self.key] if self.has_key else [])]

    @property
    def uuid(self):
        """The 16 bytes that name the disk."""
        with open(os.path.join(self.disk, "disk.toml")) as file:
            return bytes.fromhex(re.search(r'uuid = "(.*)"', file.read())[1].replace("-", ""))


def found_in(raw):
    """The (number, sector) of every tag in `raw`, whole or not, once each. Skips the rest of a sector that is whole."""
    found, at = set(), raw.find(tags.MAGIC)
    while 0 <= at <= len(raw) - 16:
        unit = raw[at:at + 16]
        found.add(struct.unpack("<II", unit[8:]))
        is_whole = raw[at:at + tags.SECTOR] == unit * (tags.SECTOR // 16)
        at = raw.find(tags.MAGIC, at + (tags.SECTOR if is_whole else 16))
    return found


def slots(raw, disk):
    """The cells in whole slots of the root of the disk `disk`, wherever a page of the chip has one: (number of the purge, cell)."""
    found = []
    for at in range(0, len(raw), PAGE_BYTES):
        page = raw[at:at + PAGE_BYTES]
        # A slot is 40 bytes and zeros. Most pages are neither.
        if page[40:72] == bytes(32) and any(page[4:40]) and page[40:] == bytes(PAGE_BYTES - 40) and crc32c(disk + page[:36]) == page[36:40]:
            found.append((int.from_bytes(page[:4], "little"), page[4:36]))
    return found


class Cells:
    """Follows the cells that a chip held in the root of a sealed disk."""

    def __init__(self, disk):
        self.disk, self.seen = disk, {}

    def note(self, raw):
        """The numbers of the purges whose cells are there; all of them are remembered."""
        found = slots(raw, self.disk)
        self.seen.update((cell, number) for number, cell in found)
        return sorted(number for number, _ in found)

    @property
    def purge(self):
        return max(self.seen.values(), default=-1)

    def left(self, raw):
        """The numbers of earlier purges of whose cells 8 bytes are left."""
        last = self.purge
        return sorted(number for cell, number in self.seen.items()
                      if number != last and any(cell[at:at + 8] in raw for at in range(0, 32, 8)))


class Ubifs:
    """UBIFS on a chip, as the kernel has it, without compression."""

    def __init__(self, chip, place):
        self.place = place
        for name in ("ubi", "ubifs"):
            load_module(name)
        number = int(re.search(r"\d+$", chip.device)[0])
        self._ask("/dev/ubi_ctrl", _UBI_IOCATT, struct.pack("<iiih10x", -1, number, 0, 0))
        wait_until("/dev/ubi0", lambda: os.path.exists("/dev/ubi0"))
        free, block = (int(open(f"/sys/class/ubi/ubi0/{name}").read()) for name in ("avail_eraseblocks", "eraseblock_size"))
        self._ask("/dev/ubi0", _UBI_IOCMKVOL, struct.pack("<iiqBBh4x128s", -1, 1, free * block, _UBI_DYNAMIC, 0, 4, b"disk"))
        self.mount()

    @staticmethod
    def _ask(path, request, argument):
        with open(path, "rb", buffering=0) as file:
            fcntl.ioctl(file, request, argument)

    def mount(self):
        os.makedirs(self.place, exist_ok=True)
        run("mount", "-t", "ubifs", "-o", "compr=none", "ubi0:disk", self.place)

    def close(self):
        run("umount", self.place)
        self._ask("/dev/ubi_ctrl", _UBI_IOCDET, struct.pack("<i", 0))
