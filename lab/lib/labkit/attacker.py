"""An attacker of a sealed disk, written from docs/formats/keytree.md, topcell.md, keys.md and sealing.md alone: all cells that
some roots open, in every page and sector that the medium of keys ever had, and what every block that was ever written holds under them.

ChaCha20, ChaCha20-Poly1305 and AES-XTS are those of python3-cryptography; the rest is lab/lib/seal_reference.py, and
the shape of the key tree test_keytree.py.
"""

import hmac
import os
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .writes import PAGE

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from seal_reference import Aes, blake3_keyed, counter_mode, derive, little, siv_seal  # noqa: E402
from test_keytree import ENTRIES, LOG_AT, LOG_BYTES, PAGES_AT, levels  # noqa: E402

SECTOR = 512
SEED_CELLS = 1 << 16
_KINDS = (1, 2)


def _number(data):
    return int.from_bytes(data, "little")


def keystream(key, counter, nonce, length):
    """ChaCha20 (RFC 8439)."""
    cipher = Cipher(algorithms.ChaCha20(key, little(counter, 4) + nonce), None)
    return cipher.encryptor().update(bytes(length))


def derived(cell, number, count=1):
    """Cells that are derived from a cell, from that number on."""
    stream = keystream(cell, number, b"derived cell", 64 * count)
    return [stream[at:at + 32] for at in range(0, len(stream), 64)]


def master_key(keys, secret):
    """The master key in a file of keys that a key file opens."""
    disk = keys[16:32]
    slot, page = keys[PAGE:2 * PAGE], keys[9 * PAGE:10 * PAGE]
    root = _unwrap(derive(secret, slot[48:80], b"quietus key slot 1 key file", 64), slot[:80], slot[80:96], slot[96:128])
    return _unwrap(derive(root, disk, b"quietus master key 1", 64), page[:48], page[48:64], page[64:96])


def _unwrap(keys, header, tag, wrapped):
    payload = counter_mode(Aes(keys[32:]), tag, wrapped)
    if not hmac.compare_digest(siv_seal(keys, header, payload)[1], tag):
        raise ValueError("the credential does not open the file of keys")
    return payload


class Attacker:
    """`pages` has every version of each page of the key tree's medium, by its number; `size` is that of the disk in bytes.

    `cells` are the cells that the roots given to `open` lead to, by block."""

    def __init__(self, size, uuid, pages, master):
        self.uuid, self.pages = uuid, pages
        self.blocks = -(-size // PAGE)
        self.levels = levels(size)
        self.secret = derive(master, b"", b"quietus sealed blocks v1", 32)
        self.sectors = self._log_sectors()
        self.cells, self.tried, self.opened = {}, set(), 0

    def _log_sectors(self):
        """Each sector of the log in all versions: number in its half, and bytes."""
        found = set()
        for number in range(LOG_AT // PAGE, PAGES_AT // PAGE):
            for page in self.pages.get(number, ()):
                at = (number * PAGE - LOG_AT) // SECTOR
                found |= {((at + n) % (LOG_BYTES // SECTOR), page[n * SECTOR:(n + 1) * SECTOR]) for n in range(PAGE // SECTOR)}
        return sorted(found)

    def open(self, root):
        """Follows both slots of a root's 12 KiB, whatever they hold."""
        for at in (4096, 8192):
            self._page(len(self.levels) - 1, 0, bytes(root[at + 4:at + 36]))

    def _page(self, level, index, cell):
        """All versions of a page that open under a cell, and what they lead to."""
        if (level, index, cell) in self.tried:
            return
        self.tried.add((level, index, cell))
        place = PAGES_AT // PAGE + 2 * (sum(self.levels[level + 1:]) + index)
        associated = b"QKEYPAGE" + self.uuid + little(level, 1) + little(index, 8)
        for page in [*self.pages.get(place, ()), *self.pages.get(place + 1, ())]:
            try:
                plain = ChaCha20Poly1305(cell).decrypt(bytes(12), page[32:] + page[8:24], associated)
            except InvalidTag:
                continue
            self.opened += 1
            if level == len(self.levels) - 1:
                self._log(plain[:32])
            for n in range(ENTRIES):
                entry = plain[32 + 36 * n:68 + 36 * n]
                self._entry(level, ENTRIES * index + n, entry[:32], _number(entry[32:]) >> 31)

    def _entry(self, level, number, cell, is_stored):
        """What an entry says of a block, or of a page of the level below."""
        if level == 0:
            self._block(number, cell)
        elif is_stored:
            self._page(level - 1, number, cell)
        elif number < self.levels[level - 1]:
            for n, child in enumerate(derived(cell, 0, ENTRIES)):
                self._entry(level - 1, ENTRIES * number + n, child, False)

    def _block(self, number, cell):
        if number < self.blocks:
            self.cells.setdefault(number, set()).add(cell)

    def _log(self, cell):
        """Each sector that says its own number under this cell. The tags, and so the order of the sectors, are not asked for."""
        for number, sector in self.sectors:
            plain = bytes(a ^ b for a, b in zip(sector[28:], keystream(cell, 1, sector[:12], 484)))
            if _number(plain[:4]) == number:
                self.opened += 1
                for at in range(4, 484, 40):
                    first, kind, count = _number(plain[at:at + 5]), plain[at + 5], _number(plain[at + 6:at + 8])
                    for block in range(first, first + count) if kind in _KINDS else ():
                        self._block(block, derived(plain[at + 8:at + 40], block % SEED_CELLS)[0])

    def contents(self, data, staged):
        """What each version of each block, and each version of each slot of the journal, holds under each cell: 4096 bytes each."""
        for block, versions in data.items():
            for cell in self.cells.get(block, ()):
                keys = blake3_keyed(self.secret, cell + little(block, 8))
                for version in [*versions, *staged]:
                    unit = modes.XTS(little(block, 16))
                    yield Cipher(algorithms.AES(keys), unit).decryptor().update(version)


def slots(journal, head):
    """All versions of the journal's slots: its pages, and the bytes of its head."""
    count, half = _number(head[12:16]), _number(head[16:24])
    first = (4096 + 2 * half) // PAGE
    return [version for number, versions in journal.items() if first <= number < first + count for version in versions]

