"""The layout of a raw image, by e2fsprogs."""

import re
import tempfile

from .layout import Layout, said_by
from .servers import sparse
from .workspace import LabError

_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")
_FIXED = re.compile(r"(?:superblock|descriptors|GDT blocks|bitmap|Inode table) at (\d+(?:-\d+)?)")
_LIST = re.compile(r"[\d ]+")
_JOURNAL = "Journal inode:"
_BLOCK = re.compile(r"^Block size: +(\d+)$", re.MULTILINE)


def _spans(text):
    return [range(int(match[1]), int(match[2] or match[1]) + 1) for match in _NUMBERS.finditer(text)]


def make(path, kind, size, *words):
    """An image of `size` bytes with an ext2, ext3 or ext4, blocks of 4 KiB; `words` are more arguments of mke2fs."""
    said_by("mke2fs", "-q", "-F", "-t", kind, "-b", "4096", *words, sparse(path, size))


def layout(image, unit_bytes):
    """The `Layout` of an ext2, ext3 or ext4, in its blocks or clusters; LabError if dumpe2fs cannot tell."""
    text = said_by("dumpe2fs", image)
    found = parse(text)
    found.journal = _journal(image) if _JOURNAL in text else set()
    return found.in_clusters(unit_bytes // int(_BLOCK.search(text)[1]))


def free_ranges(device):
    """(start, length) in bytes of all that no file has; of a file system that is frozen or not mounted."""
    text = said_by("dumpe2fs", device)
    block_bytes = int(_BLOCK.search(text)[1])
    return [(span.start * block_bytes, len(span) * block_bytes) for span in _free_spans(text)]


def _free_spans(text):
    lines = [line for line in text.splitlines() if line.startswith("  Free blocks:")]
    return [span for line in lines for span in _spans(line.partition(":")[2])]


def parse(text):
    """From what dumpe2fs prints; it does not say where the journal is."""
    free, fixed = set().union(*_free_spans(text)), set()
    for line in text.splitlines():
        for place in _FIXED.findall(line):
            fixed.update(*_spans(place))
    return Layout(free, fixed)


def _journal(image):
    text = said_by("debugfs", "-R", "blocks <8>", image)
    blocks = {int(word) for line in text.splitlines() if _LIST.fullmatch(line) for word in line.split()}
    if not blocks:
        raise LabError(f"debugfs {image}: {text[-300:]}")
    return blocks


def journal_content(image):
    """The content of the journal, as it lies in the image: mounted or not."""
    with tempfile.NamedTemporaryFile() as copy:
        text = said_by("debugfs", "-c", "-R", f"dump <8> {copy.name}", image)
        content = copy.read()
    if not content:
        raise LabError(f"debugfs {image}: {text[-300:]}")
    return content
