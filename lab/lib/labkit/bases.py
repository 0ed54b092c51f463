"""Base images for overlays: made once, and never written to again."""

import hashlib
import os
import subprocess

from .servers import ROOT
from .workspace import LabError

_PIECE_BYTES = 1 << 20
# Of what guests build: gcc takes five times as long in a guest.
COMPILER = "tcc"


def digest(path):
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE_BYTES):
            found.update(piece)
    return found.hexdigest()


class Base:
    """An image that is ready: from now on it must stay as it is."""

    def __init__(self, path):
        self.path = path
        os.chmod(path, 0o444)  # root could write all the same: hence the digest
        self.digest = digest(path)

    def check(self):
        """LabError if it was changed."""
        if digest(self.path) != self.digest:
            raise LabError(f"the base image {self.path} was changed")


def alive_bytes(base, image, free, block_bytes):
    """Bytes that an overlay cannot do without: blocks of `image` that are not in `free` and not as in `base`."""
    count = 0
    with open(base, "rb") as old, open(image, "rb") as new:
        for first in range(0, os.path.getsize(image) // block_bytes, _PIECE_BYTES // block_bytes):
            before, after = old.read(_PIECE_BYTES), new.read(_PIECE_BYTES)
            if before != after:
                count += sum(first + at // block_bytes not in free for at in range(0, len(after), block_bytes)
                             if before[at:at + block_bytes] != after[at:at + block_bytes])
    return count * block_bytes


def upstream_tree(package):
    """The sources of a Debian package as its authors released them, fetched once; the tree."""
    directory = os.path.join(ROOT, "target", "lab-sources")
    tree = os.path.join(directory, package)
    if not os.path.exists(tree):
        fetch = os.path.join(ROOT, "lab", "lib", "fetch-sources")
        done = subprocess.run([fetch, directory, package], capture_output=True, text=True)
        released = sorted(name for name in os.listdir(directory) if ".orig.tar" in name and name.startswith(package))
        if done.returncode != 0 or not released:
            raise LabError(f"{fetch} {package}: {done.stdout[-300:]}{done.stderr[-300:]}")
        os.makedirs(tree + ".new")
        subprocess.run(["tar", "-xf", os.path.join(directory, released[-1]), "-C", tree + ".new", "--strip-components=1"],
                       check=True)
        os.rename(tree + ".new", tree)
    return tree
