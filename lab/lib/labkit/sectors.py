"""Sectors that name their file, wherever they turn up.

Every 512-byte sector that the workload writes is sixteen times the same record:

| offset | type | what |
| --- | --- | --- |
| 0 | 4 bytes | `QSec` |
| 4 | u32 | run: one guest's life |
| 8 | u32 | file: never used again within a run |
| 12 | u32 | generation of the file: one more with each truncation |
| 16 | u32 | sector within the file |
| 20 | u32 | version of that sector: one more with each overwrite |
| 24 | u32 | order: the operation that wrote it |
| 28 | u32 | CRC-32 of the 28 bytes before |

All little-endian. So any 32 bytes that are left of a sector still name it.
"""

import mmap
import os
import re
import struct
import zlib
from collections import namedtuple

SECTOR = 512
RECORD = 32
_FIELDS = struct.Struct("<4sIIIIII")
_SEAL = struct.Struct("<I")
_MAGIC = b"QSec"
# One record and what repeats it at once: a whole sector is one find.
_FIND = re.compile(rb"(?s)(QSec.{28})\1{0,15}")

Tag = namedtuple("Tag", "run file generation sector version order")
Find = namedtuple("Find", "position length tag")


def record(tag):
    """The 32 bytes that name `tag`."""
    head = _FIELDS.pack(_MAGIC, *tag)
    return head + _SEAL.pack(zlib.crc32(head))


def content(tags):
    """The sectors of `tags`, one after the other; zeros for None."""
    return b"".join(record(tag) * (SECTOR // RECORD) if tag else bytes(SECTOR) for tag in tags)


def parse(data):
    """The tag in the first 32 bytes, or None."""
    if data[:4] != _MAGIC or zlib.crc32(data[:28]) != _SEAL.unpack_from(data, 28)[0]:
        return None
    return Tag(*_FIELDS.unpack_from(data)[1:])


def whole(sector):
    """The tag of a sector that is intact, None for zeros; ValueError for anything else."""
    tag = parse(sector[:RECORD]) if len(sector) == SECTOR else None
    if tag and sector == sector[:RECORD] * (SECTOR // RECORD):
        return tag
    if any(sector):
        raise ValueError("foreign bytes")
    return None


def describe(sector):
    """A sector in the words of a survey: its tag, None for zeros, a string for anything else."""
    try:
        return whole(sector)
    except ValueError:
        return sector[:16].hex()


def finds(raw):
    """Everything in `raw` that names a sector, however little is left of it."""
    for match in _FIND.finditer(raw):
        tag = parse(match[1])
        if tag:
            yield Find(match.start(), match.end() - match.start(), tag)


def finds_in_file(path):
    """`finds` of a file's content."""
    if not os.path.getsize(path):
        return
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        yield from finds(raw)
