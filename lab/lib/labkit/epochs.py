"""Kept epochs of a disk: each must show, for as long as it is kept, what the disk showed when it closed."""

import hashlib
from datetime import datetime

from . import wire

READ_BYTES = 4 << 20


def digest(content):
    """What a content is compared by."""
    return hashlib.blake2b(content).hexdigest()


def seconds(time):
    """Seconds since 1970 of a time as reports have it (RFC 3339)."""
    return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()


class Epochs:
    """The account of a disk's kept epochs.

    `shown` has, by epoch, the digest of what it showed when it closed, or when it was seen first.
    """

    def __init__(self, server):
        self.server, self.shown, self.compared = server, {}, 0

    def kept(self):
        return [number for number, _ in self.closed()]

    def closed(self):
        """The kept epochs, and when each closed, in seconds since 1970."""
        return [(it["epoch"], seconds(it["closed"])) for it in self.server.kept()]

    def close(self, content):
        """Closes an epoch that shows `content`: nothing is under way. Its number."""
        number = self.server.tool("epoch")["epoch"]
        self.shown[number] = digest(content)
        return number

    def read(self, number):
        """All that the epoch shows; None if it is not kept any more."""
        try:
            client = wire.Client(self.server.socket, export=f"{self.server.export}@{number}")
        except wire.Disconnected:
            return None
        try:
            reads = range(0, client.size, READ_BYTES)
            return b"".join(client.call(wire.READ, at, min(READ_BYTES, client.size - at)) for at in reads)
        except OSError:
            return None
        finally:
            client.close()

    def check(self):
        """Reads every kept epoch; complaints."""
        complaints = []
        for number in self.kept():
            content = self.read(number)
            if content is None:
                # A rule of retention may have forgotten it meanwhile.
                if number in self.kept():
                    complaints.append(f"epoch {number} is kept, and cannot be read")
                continue
            self.compared += number in self.shown
            if self.shown.setdefault(number, digest(content)) != digest(content):
                complaints.append(f"epoch {number} does not show what it showed before")
        return complaints
