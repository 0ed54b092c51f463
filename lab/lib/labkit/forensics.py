"""Looks for dead content in the raw files of a disk."""

import mmap
import os

from . import tags
from .tags import SECTOR

PIECE_BYTES = 1 << 20


def raw_files(server):
    """Every file that holds, or may hold, content: the medium and what is beside it."""
    files = {server.medium}
    disk = getattr(server, "disk", None)
    for root, _, names in os.walk(disk) if disk else ():
        files |= {os.path.join(root, name) for name in names}
    return sorted(path for path in files if os.path.isfile(path) and os.path.getsize(path))


def dead_tags(path, shadow):
    """The tags in the file at `path` whose content is dead, as a set."""
    dead = set()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        for start in range(0, len(raw), PIECE_BYTES):
            # A tag that lies across two pieces is seen with the first.
            piece = raw[start:start + PIECE_BYTES + SECTOR]
            if piece[:PIECE_BYTES] != shadow.live[start:start + PIECE_BYTES]:
                dead |= {tag for tag in tags.found_in(piece) if shadow.is_dead(tag)}
    return dead


def search(server, shadow):
    """Complaints about dead content in any file of the disk."""
    complaints = []
    for path in raw_files(server):
        dead = dead_tags(path, shadow)
        if dead:
            some = ", ".join(f"write {number} of sector {sector}" for number, sector in sorted(dead)[:3])
            complaints.append(f"{os.path.basename(path)} holds {len(dead)} dead sectors: {some} ...")
    return complaints
