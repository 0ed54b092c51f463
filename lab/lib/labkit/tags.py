"""Content that says what it is: which write, and where.

A sector is 512 bytes: 32 times (magic, write number, sector number). Every
sector of every write is different, so that bytes are recognised wherever they
turn up, and by content alone.
"""

import re
import struct

SECTOR = 512
MAGIC = b"QTagQTag"
_UNIT = struct.Struct("<8sII")
_ANY = re.compile(re.escape(MAGIC) + b"(.{8})", re.DOTALL)


def content(number, offset, length):
    """The content that write `number` puts at `offset` (both in whole sectors of bytes)."""
    first = offset // SECTOR
    repeat = SECTOR // _UNIT.size
    return b"".join(_UNIT.pack(MAGIC, number, sector) * repeat
                    for sector in range(first, first + length // SECTOR))


def found_in(data):
    """The (write number, sector number) of every tag in `data`, once each."""
    return {struct.unpack("<II", match[1]) for match in _ANY.finditer(data)}


def of(sector_content):
    """The (write number, sector number) that begin a sector, or None."""
    if sector_content[:8] != MAGIC:
        return None
    return struct.unpack("<II", sector_content[8:16])
