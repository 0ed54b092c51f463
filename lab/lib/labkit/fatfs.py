"""The layout of a raw image of FAT12, FAT16, FAT32 or exFAT.

Field names and offsets are those of the specifications: Microsoft's "FAT: General
Overview of On-Disk Format" 1.03, and "exFAT file system specification".
"""

import struct

from .layout import Layout
from .workspace import LabError

_ENDS = {12: 0xFFF, 16: 0xFFFF, 32: 0xFFFFFFF}
_BITMAP_ENTRY, _UPCASE_ENTRY = 0x81, 0x82


class Volume:
    """Where the parts of a FAT volume are: in bytes, from the start of the disk."""

    def __init__(self, boot):
        sector, self.cluster = _of(boot, 11, "H"), boot[13] * _of(boot, 11, "H")
        reserved, fats, root_entries = _of(boot, 14, "H"), boot[16], _of(boot, 17, "H")
        sectors_per_fat = _of(boot, 22, "H") or _of(boot, 36, "I")
        total = _of(boot, 19, "H") or _of(boot, 32, "I")
        if not sector or not self.cluster:
            raise LabError("FAT: the boot sector has no bytes a sector or sectors a cluster")
        self.fat, self.fat_bytes, self.fats = reserved * sector, sectors_per_fat * sector, fats
        self.root = self.fat + fats * self.fat_bytes
        self.data = self.root + -(-root_entries * 32 // sector) * sector
        self.clusters = (total * sector - self.data) // self.cluster
        self.bits = 32 if not _of(boot, 22, "H") else 12 if self.clusters < 4085 else 16
        self.root_cluster = _of(boot, 44, "I") if self.bits == 32 else None

    def entry(self, raw, number):
        """The entry of cluster `number` in the first FAT."""
        at = self.fat + number * self.bits // 8
        if self.bits == 12:
            return _of(raw, at, "H") >> (4 if number % 2 else 0) & 0xFFF
        return _of(raw, at, "H" if self.bits == 16 else "I") & _ENDS[self.bits]

    def place(self, number):
        """The first byte of cluster `number`."""
        return self.data + (number - 2) * self.cluster


def _of(data, at, kind):
    return struct.unpack_from("<" + kind, data, at)[0]


def _read(image, block_bytes, cluster, data):
    if cluster != block_bytes or data % block_bytes:
        raise LabError(f"{image}: clusters of {cluster} bytes at {data} do not lie on blocks of {block_bytes}")


def layout(image, block_bytes):
    """The `Layout` of a FAT12, FAT16 or FAT32, whose clusters are the blocks."""
    with open(image, "rb") as file:
        volume = Volume(file.read(512))
        _read(image, block_bytes, volume.cluster, volume.data)
        file.seek(0)
        raw = file.read(volume.data)
    first = volume.data // block_bytes
    free = {first + number - 2 for number in range(2, volume.clusters + 2) if volume.entry(raw, number) == 0}
    return Layout(free, set(range(first)))


def exfat_layout(image, block_bytes):
    """The `Layout` of an exFAT, whose clusters are the blocks."""
    with open(image, "rb") as file:
        raw = file.read()
    sector, cluster = 1 << raw[108], 1 << raw[108] + raw[109]
    heap, clusters, root = _of(raw, 88, "I") * sector, _of(raw, 92, "I"), _of(raw, 96, "I")
    _read(image, block_bytes, cluster, heap)
    first, bitmap, fixed = heap // block_bytes, b"", set(range(heap // block_bytes))
    at = heap + (root - 2) * cluster
    for entry in range(at, at + cluster, 32):
        if raw[entry] in (_BITMAP_ENTRY, _UPCASE_ENTRY):
            start, length = _of(raw, entry + 20, "I"), _of(raw, entry + 24, "Q")
            fixed.update(range(first + start - 2, first + start - 2 + -(-length // cluster)))
            if raw[entry] == _BITMAP_ENTRY:
                bitmap = raw[heap + (start - 2) * cluster:][:length]
    if not bitmap:
        raise LabError(f"{image}: no allocation bitmap in the first cluster of the root directory")
    free = {first + number for number in range(clusters) if not bitmap[number // 8] >> number % 8 & 1}
    return Layout(free, fixed)
