"""A guest's writes, in the order in which they came: the disk at each instant, and the journal's blocks.

Numbers of journal blocks (jbd2) are those of `include/linux/jbd2.h` in the kernel.
"""

import struct
from collections import namedtuple

from . import sectors, wire

JOURNAL_MAGIC = 0xC03B3998
DESCRIPTOR, COMMIT, REVOKE = 1, 2, 5
SECTOR = sectors.SECTOR

Span = namedtuple("Span", "start end")


class Trace:
    """Requests as a relay kept them; `index` is a request's place in their order."""

    def __init__(self, requests):
        self.requests = requests

    def writes(self, start=0, end=None):
        """(index, offset, bytes) of each write."""
        for index, request in enumerate(self.requests[start:end], start):
            if request.command == wire.WRITE:
                yield index, request.offset, request.payload

    def first(self, command, spans=None, start=0):
        """The index of the first request of that kind that touches one of the spans; None if there is none."""
        for index, request in enumerate(self.requests[start:], start):
            if request.command == command and (spans is None or _touches(request, spans)):
                return index
        return None

    def image(self, end=None):
        """The disk, as it was before request number `end`: every sector ever written, by its number."""
        image = {}
        for _, offset, data in self.writes(0, end):
            for at in range(0, len(data), SECTOR):
                image[(offset + at) // SECTOR] = data[at:at + SECTOR]
        return Image(image)

    def spans_of(self, file, end=None):
        """Where sectors of that file were written to, one span each."""
        found = set()
        for _, offset, data in self.writes(0, end):
            found |= {Span(offset + it.position, offset + it.position + it.length)
                      for it in sectors.finds(data) if it.tag.file == file}
        return found

    def journal_blocks(self, kind, journal, block_bytes, start=0):
        """Indices of writes that put such a block (`COMMIT`, `REVOKE`) into the journal."""
        return [index for index, found, _ in self.transactions(journal, block_bytes, start) if found == kind]

    def transactions(self, journal, block_bytes, start=0):
        """(index, kind, number) of each block of the log's own that was written into the journal."""
        for index, offset, data in self.writes(start):
            for at in range(0, len(data), block_bytes):
                magic, kind, number = struct.unpack_from(">3I", data, at)
                if magic == JOURNAL_MAGIC and kind in (DESCRIPTOR, COMMIT, REVOKE) and (offset + at) // block_bytes in journal:
                    yield index, kind, number

    def out_of_turn(self, journal, block_bytes):
        """(commits, those that something of the next transaction did not wait for): a flush has to lie between."""
        committed, commits, early = None, 0, 0
        for index, kind, number in self.transactions(journal, block_bytes):
            if committed and number != committed[1]:
                between = self.requests[committed[0]:index]
                early += number != committed[1] + 1 or all(it.command != wire.FLUSH for it in between)
                committed = None
            if kind == COMMIT:
                committed, commits = (index, number), commits + 1
        return commits, early


class Image:
    """A disk's content, sparse."""

    def __init__(self, content):
        self.content = content

    def read(self, offset, length):
        """Some bytes; zeros where nothing was written."""
        first = offset // SECTOR
        data = b"".join(self.content.get(at, bytes(SECTOR)) for at in range(first, -(-(offset + length) // SECTOR)))
        return data[offset - first * SECTOR:][:length]


def log_in_use(journal, head=0):
    """From a journal's content: the bytes of its blocks, and those that a replay would read, or that are not of the log.

    Its superblock lies at byte `head`; on a device of its own that is not the first."""
    block_bytes, maxlen, first, sequence, start = struct.unpack_from(">5I", journal, head + 12)
    in_use = set(range(first)) | set(range(maxlen, len(journal) // block_bytes))
    if start:
        commits = {}
        for at in range(first, maxlen):
            magic, kind, number = struct.unpack_from(">3I", journal, at * block_bytes)
            if (magic, kind) == (JOURNAL_MAGIC, COMMIT) and (number - sequence) % (1 << 32) < 1 << 31:
                commits[(number - sequence) % (1 << 32)] = at
        length = (commits[max(commits)] - start) % (maxlen - first) + 1 if commits else 0
        in_use |= {first + (start - first + at) % (maxlen - first) for at in range(length)}
    return block_bytes, in_use


def _touches(request, spans):
    end = request.offset + request.length
    return any(request.offset < span.end and span.start < end for span in spans)


class Ext:
    """Where an image of ext2, ext3 or ext4 has its inodes."""

    def __init__(self, image):
        head = image.read(1024, 1024)
        self.block = 1024 << struct.unpack_from("<I", head, 24)[0]
        self.per_group, self.inode_bytes = struct.unpack_from("<I", head, 40)[0], struct.unpack_from("<H", head, 88)[0]
        self.descriptors = (struct.unpack_from("<I", head, 20)[0] + 1) * self.block
        self.descriptor_bytes = 64 if struct.unpack_from("<I", head, 96)[0] & 0x80 else 32

    def place(self, image, number):
        """The first byte of an inode."""
        group, within = divmod(number - 1, self.per_group)
        table = struct.unpack("<I", image.read(self.descriptors + group * self.descriptor_bytes + 8, 4))[0]
        return table * self.block + within * self.inode_bytes

    def bitmap(self, image, group=0):
        """The span of a group's block bitmap."""
        block = struct.unpack("<I", image.read(self.descriptors + group * self.descriptor_bytes, 4))[0]
        return Span(block * self.block, (block + 1) * self.block)

    def inode(self, image, number):
        return Inode(image.read(self.place(image, number), 128))


class Inode:
    """The fields of an inode that matter here (Linux's `ext4.h`)."""

    def __init__(self, data):
        self.size, self.dtime = struct.unpack_from("<I", data, 4)[0], struct.unpack_from("<I", data, 20)[0]
        self.links = struct.unpack_from("<H", data, 26)[0]
        self.pointers = struct.unpack_from("<15I", data, 40)
        self.generation = struct.unpack_from("<I", data, 100)[0]
        self.extents = struct.unpack_from("<H", data, 42)[0]
