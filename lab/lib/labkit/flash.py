"""Roots of sealed disks on flash: what the raw chip holds (docs/formats/root-media.md), and what that opens."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))
from seal_reference import crc32c, little  # noqa: E402
from test_keytree import PAGES_AT, levels, tag_of  # noqa: E402

PAGE_BYTES = 4096
RECORD_BYTES = 64
_SLOT = re.compile(rb"QNOR[\x02\x03]\0\0\0")


def cells(raw):
    """The cells in the records of slots that are whole, anywhere on the chip: by cell, the number of its purge."""
    found = {}
    for match in _SLOT.finditer(raw):
        record = raw[match.start():match.start() + RECORD_BYTES]
        if len(record) == RECORD_BYTES and crc32c(record[:56]) == record[56:60]:
            found[bytes(record[20:52])] = int.from_bytes(record[16:20], "little")
    return found


def opens(cell, key_tree, disk, size):
    """Whether a cell opens a top page in the bytes of a key tree. `disk`: 16 bytes of its uuid; `size`: its bytes."""
    associated = b"QKEYPAGE" + disk + little(len(levels(size)) - 1, 1) + little(0, 8)
    for at in (PAGES_AT, PAGES_AT + PAGE_BYTES):
        page = key_tree[at:at + PAGE_BYTES]
        if page[:8] == b"QKEYPAGE" and tag_of(cell, bytes(12), associated, page[32:]) == page[8:24]:
            return True
    return False


class Judge:
    """Follows what a chip held. `opens` tells whether a cell opens the disk's top page now."""

    def __init__(self, opens):
        self.opens = opens
        self.seen = {}

    @property
    def purge(self):
        """The number of the last purge that was seen."""
        return max(self.seen.values(), default=0)

    def note(self, raw):
        """Remembers all cells that the chip holds, at any time."""
        self.seen.update(cells(raw))

    def complaints(self, raw):
        """What is wrong with a chip at rest: one cell may be there, which opens, and no byte of an earlier one."""
        present = cells(raw)
        self.note(raw)
        complaints = []
        if len(present) != 1:
            complaints.append(f"the chip holds the cells of purges {sorted(present.values())}, and not of one")
        for cell, number in present.items():
            if not self.opens(cell):
                complaints.append(f"the cell of purge {number} does not open the top page")
        for cell, number in self.seen.items():
            # Any 8 bytes of a cell would show that it was not destroyed as a whole.
            left = [at for at in range(0, 32, 8) if cell[at:at + 8] in raw]
            if cell not in present and left:
                complaints.append(f"bytes {left} of the cell of purge {number} are left")
        return complaints
