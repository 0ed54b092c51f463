"""Changes by the checker of a file system, and the content that it destroyed by that.

Below ext2 a power cut may leave an inode whose blocks have been given to others since.
Where the checker takes another file's data for its pointers, it clears those that cannot be
true: content that the disk had kept is gone, and it is no fault of the disk's.
"""

from . import sectors, wire

SECTOR = sectors.SECTOR
_PIECE_BYTES = 1 << 20


def disk(path):
    """All that a server's disk reads as."""
    client = wire.Client(path)
    pieces = [client.call(wire.READ, at, min(_PIECE_BYTES, client.size - at)) for at in range(0, client.size, _PIECE_BYTES)]
    client.close()
    return b"".join(pieces)


class Check:
    """Sectors as they were `before`, and as the `requests` (`relay.Kept`) of a check left them."""

    def __init__(self, before=b"", requests=()):
        after = {}
        for it in requests:
            data = it.payload if it.command == wire.WRITE else bytes(it.length) if it.command in (wire.TRIM, wire.ZERO) else b""
            for at in range(0, len(data), SECTOR):
                after[it.offset + at] = data[at:at + SECTOR]
        pairs = ((before[at:at + SECTOR], data) for at, data in after.items())
        self.changed = [(old, new) for old, new in pairs if old != new]

    def damaged(self):
        """Content of which the check left a part: to what a survey says of that sector now."""
        said = [(sectors.describe(old), sectors.describe(new)) for old, new in self.changed]
        return {tag: rest for tag, rest in said if isinstance(tag, sectors.Tag) and isinstance(rest, str)}

    def took(self, tag):
        """Whether the disk had that content whole, and the check put something else in its place."""
        content = sectors.content([tag])
        return any(old == content for old, _ in self.changed)

    def took_name(self, name):
        """Whether the check removed that name from a directory."""
        name = name.encode()
        return any(name in old and name not in new for old, new in self.changed)

    def explains(self, path, wanted, found):
        """Whether all that differs from what was `wanted` of a file was there, and the check took it."""
        if found is None:
            return self.took_name(path.rpartition("/")[2])
        differ = [tag for tag, other in zip(wanted, found) if tag != other]
        return len(wanted) == len(found) and all(tag and self.took(tag) for tag in differ)
