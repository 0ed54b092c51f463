"""Requests at random, whose results an account of the disk follows."""

import os
import select
import time

from . import tags, wire
from .shadow import Request

KIB = 1024
READS_IN_FLIGHT_MAX = 2
LENGTHS = [512, 1024, 3584, 4 * KIB, 4 * KIB, 4 * KIB, 8 * KIB, 12 * KIB, 64 * KIB, 256 * KIB]


class Load:
    """One connection's requests, until the server is gone. `may_fail`: replies with errors are no faults."""

    def __init__(self, rng, shadow, depth, may_fail=False):
        self.rng, self.shadow, self.depth, self.may_fail = rng, shadow, depth, may_fail
        self.writes = 0
        self.acknowledged = 0
        self.complaints = []

    def run(self, client):
        """Sends and receives until the connection breaks."""
        try:
            while True:
                self._burst(client, self.rng.randrange(1, 200))
                self._drain(client)
                # Long enough, now and then, for an idle disk to shred.
                time.sleep(self.rng.choice([0, 0, 0, 0.005, 0.05]))
        except wire.Disconnected:
            self._rest(client)
        client.close()
        self.shadow.killed()

    def _burst(self, client, count):
        for _ in range(count):
            while len(self.shadow.in_flight) >= self.depth:
                self._take(client)
            self._submit(client)
            while self.shadow.in_flight and select.select([client.socket], [], [], 0)[0]:
                self._take(client)

    def _drain(self, client):
        while self.shadow.in_flight:
            self._take(client)

    def _rest(self, client):
        """Replies that were sent before the kill still count."""
        try:
            self._drain(client)
        except wire.Disconnected:
            pass

    def _take(self, client):
        cookie, error, data = client.receive()
        if error:
            request = self.shadow.failed(cookie)
            if not self.may_fail:
                self.complaints.append(
                    f"command {request.command} at {request.offset}+{request.length} failed: {os.strerror(error)}")
            return
        self.acknowledged += 1
        self.complaints += self.shadow.acknowledged(cookie, data)

    def _submit(self, client):
        command, flags = self._choose()
        offset, length = self._range(client.size)
        if command == wire.FLUSH:
            offset, length = 0, 0
        elif not self.shadow.is_free(offset, length):
            return
        after = self._after(command, offset, length)
        payload = after if command == wire.WRITE else b""
        # Known to be in flight before it is sent: the kill may come in between.
        self.shadow.sent(client.cookie + 1, Request(command, offset, length, after, bool(after and flags & wire.FUA)))
        client.send(command, offset, length, payload, flags)

    def _choose(self):
        dice = self.rng.random()
        if dice < 0.50:
            return wire.WRITE, self.rng.choice([0, 0, 0, wire.FUA])
        if dice < 0.75:
            return wire.TRIM, 0
        if dice < 0.83:
            return wire.ZERO, self.rng.choice([0, wire.NO_HOLE])
        if dice < 0.93 and self._reads() < READS_IN_FLIGHT_MAX:
            return wire.READ, 0
        return wire.FLUSH, 0

    def _reads(self):
        return sum(it.command == wire.READ for it in self.shadow.in_flight.values())

    def _range(self, size):
        length = self.rng.choice(LENGTHS)
        # Half of all requests fall on an eighth of the disk: much is overwritten.
        span = size // self.rng.choice([1, 8]) - length
        unit = 512 if length % 4096 else 4096
        return self.rng.randrange(span // unit + 1) * unit, length

    def _after(self, command, offset, length):
        if command == wire.WRITE:
            self.writes += 1
            return tags.content(self.writes, offset, length)
        return bytes(length) if command in (wire.TRIM, wire.ZERO) else b""
