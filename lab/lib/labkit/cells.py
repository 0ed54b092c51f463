"""What the root of a sealed disk opens, read by an implementation of its own (docs/formats/{topcell,keytree}.md)."""

import time

from seal_reference import crc32c
from test_keytree import ENTRIES, LOG_AT, LOG_BYTES, PAGES_AT, chacha20, derived, levels, tag_of

from .workspace import LabError

SLOTS = (4096, 8192)
SLOT_BYTES = 4096
STORED = 1 << 31
SETTLES_SECONDS = 10


def slots(root):
    """The whole slots in the bytes of a root, as (number of the purge, cell); and whether all else of both is zeros."""
    whole, rest = [], b""
    for index, at in enumerate(SLOTS):
        slot = root[at:at + SLOT_BYTES]
        number = int.from_bytes(slot[:4], "little")
        if any(slot) and number % 2 == index and crc32c(root[12:28] + slot[:36]) == slot[36:40]:
            whole.append((number, slot[4:36]))
            rest += slot[40:]
        else:
            rest += slot
    return whole, not any(rest)


def unsealed(cell, nonce, associated, tag, cipher):
    """ChaCha20-Poly1305 of RFC 8439; None if it does not open."""
    return chacha20(cell, 1, nonce, cipher) if tag_of(cell, nonce, associated, cipher) == tag else None


class Tree:
    """All cells of blocks that `root` opens in `tree`, both the bytes of the files, on a disk of `size` bytes."""

    def __init__(self, root, tree, size):
        (self.purge, cell), = slots(root)[0]
        self.disk, self.tree, self.blocks = root[12:28], tree, size // 4096
        self.levels = levels(size)
        self.cells = {}
        top = len(self.levels) - 1
        plain = self._opened(top, 0, cell)
        self._page(top, 0, plain)
        self._log(plain[:32])

    def _opened(self, level, index, cell):
        at = PAGES_AT + 8192 * (sum(self.levels[level + 1:]) + index)
        associated = b"QKEYPAGE" + self.disk + bytes([level]) + index.to_bytes(8, "little")
        for place in (self.tree[at:at + 4096], self.tree[at + 4096:at + 8192]):
            plain = unsealed(cell, bytes(12), associated, place[8:24], place[32:])
            if plain is not None:
                return plain
        raise LabError(f"page {index} of level {level} does not open")

    def _page(self, level, index, plain):
        for number in range(ENTRIES):
            entry = plain[32 + 36 * number:68 + 36 * number]
            stored = int.from_bytes(entry[32:], "little") & STORED
            self._child(level, index * ENTRIES + number, entry[:32], stored)

    def _child(self, level, child, cell, stored):
        if level == 0:
            if child < self.blocks:
                self.cells[child] = cell
        elif child < self.levels[level - 1]:
            if stored:
                self._page(level - 1, child, self._opened(level - 1, child, cell))
            else:
                for number in range(ENTRIES):
                    self._child(level - 1, child * ENTRIES + number, derived(cell, number), 0)

    def _log(self, cell):
        before, half = bytes(16), LOG_AT + self.purge % 2 * LOG_BYTES
        for number in range(LOG_BYTES // 512):
            sector = self.tree[half + 512 * number:half + 512 * (number + 1)]
            associated = b"QKEYLOG1" + self.disk + self.purge.to_bytes(4, "little") + before
            before = sector[12:28]
            plain = unsealed(cell, sector[:12], associated, before, sector[28:])
            if plain is None or int.from_bytes(plain[:4], "little") != number:
                return
            for at in range(4, 484, 40):
                first, kind, count = (int.from_bytes(plain[at + a:at + b], "little") for a, b in ((0, 5), (5, 6), (6, 8)))
                if kind == 1:
                    seed = plain[at + 8:at + 40]
                    self.cells.update((block, derived(seed, block % 65536)) for block in range(first, first + count))


class Cells:
    """The account of a sealed disk's cells: those of the root, and those of blocks that have died since."""

    def __init__(self, server):
        self.server, self.roots, self.present, self.dead = server, {}, {}, set()
        self.looks = 0

    def _root(self):
        with open(self.server.root, "rb") as file:
            return file.read()

    def one_root(self):
        """Complaints unless the start has left one whole slot and zeros. A purge may be between two steps: it ends."""
        limit = time.monotonic() + SETTLES_SECONDS
        while True:
            whole, zeros = slots(self._root())
            self.roots.update(whole)
            if len(whole) == 1 and zeros:
                self.looks += 1
                return []
            if time.monotonic() > limit:
                return [f"the root has {len(whole)} whole slots, and {'zeros' if zeros else 'remains'} beside them"]
            time.sleep(0.001)

    def after_shred(self, shadow):
        """Complaints if a cell of an earlier root is left, or one under which content has died since the last look."""
        complaints = self.one_root()
        if complaints:
            return complaints
        root = self._root()
        with open(self.server.map, "rb") as file:
            tree = Tree(root, file.read(), self.server.size)
        for number, cell in self.roots.items():
            if number != tree.purge and cell[:16] in root:
                complaints.append(f"the root has the cell of purge {number} after purge {tree.purge}")
        self.dead |= {self.present[block] for block in shadow.died if block in self.present}
        shadow.died.clear()
        left = [block for block, cell in tree.cells.items() if cell in self.dead]
        if left:
            complaints.append(f"{len(left)} blocks have a cell that a block died with: {left[:3]} ...")
        self.present = {block: cell for block, cell in tree.cells.items() if shadow.has_content(block)}
        return complaints
