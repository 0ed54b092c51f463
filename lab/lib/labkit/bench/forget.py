"""what it costs to forget data, beside overwriting them (figure 4 of the paper of 2005)

2^n blocks are written at once, in order, as all of an epoch. Then they are trimmed, so that only that epoch shows
them, and, once the trim has its receipts, `quietus forget --wait` is timed. Beside it, in the same repetition: as much data on a disk in place, trimmed,
and `quietus shred --now`. Passes are the same. Bytes are those that the server's passes wrote (the counter
`passed_bytes`); pages are the places of 4 KiB of the stub medium and the root, or of the content in place, which the server's passes
changed: told by comparing the files before and after. As a *range*, `quietus forget DISK@first..last --range` is timed instead, of a version that
many epochs show (`--epochs`), each with one other block. What the server writes to the stub medium meanwhile (commits, homes) is counted, too. *sync* is one durable write of 4 KiB to a file beside the disk.

The bars, at 64 MiB: 2,000 times fewer bytes destroyed, and 1,000 times fewer pages written a pass, than by overwriting; no
more than 3 times as long as 4 KiB. 4 GiB take no more than 2 s, as a range 5 s.
"""

import os
import time
from collections import namedtuple

from .. import wire
from ..measure import elapsed, fill, table
from ..servers import NEVER, OFF, Quietus, Versions, parse_size
from . import Benchmark, medians
from .shred import trim

BLOCK = 4096
TIMES_MAX, SECONDS_MAX, RANGE_SECONDS_MAX = 3, 2, 5
BYTES_MIN, PAGES_MIN = 2000, 1000
IN_PLACE = "in place"
RANGE = ", a range"


class Bench(Benchmark):
    """A case is (size in words, how)."""

    Sample = namedtuple("Sample", "seconds bytes pages sync_ms")
    defaults = {"repetitions": 3}
    short = {"repetitions": 1, "sizes": "4K,64K,1M"}
    programs = ("fio",)

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--sizes", default="4K,64K,1M,16M,64M,256M,1G", help="of the data (default %(default)s)")
        parser.add_argument("--seals", default="random-key,aon,aon-2005", help="default %(default)s")
        parser.add_argument("--epochs", type=int, default=1000, help="that show what is forgotten as a range (default %(default)s)")

    def cases(self):
        seals = self.options.seals.split(",")
        hows = [*seals, seals[0] + RANGE, IN_PLACE]
        return [(size, how) for size in self.options.sizes.split(",") for how in hows]

    def sample(self, size, how):
        length = parse_size(size)
        server = self.server(Quietus, NEVER, OFF, size=2 * length + (64 << 20)) if how == IN_PLACE \
            else self.server(Versions, ["--idle-after", "1ms"], OFF, size=2 * length + (64 << 20), seal=how.removesuffix(RANGE))
        fill(server, 0, length)
        if how != IN_PLACE:
            server.tool("epoch")
        if how.endswith(RANGE):
            self.add_epochs(server, length)
        trim(server, 0, length)
        if how != IN_PLACE:
            server.tool("epoch")
            settle(server)
        sync_ms = self.sync_ms()
        watched = [(server.medium, length)] if how == IN_PLACE else [(server.stubs, None), (server.root, None)]
        before, passed = [pages_of(path, most) for path, most in watched], passed_bytes(server)
        seconds = elapsed(lambda: self.destroy(server, how, length))
        pages = sum(changed(pages, path) for pages, (path, _) in zip(before, watched))
        found = self.Sample(seconds, passed_bytes(server) - passed, pages, sync_ms)
        server.remove()
        return found

    def add_epochs(self, server, length):
        """Closes more epochs that show the data: each writes one block behind it."""
        client = wire.Client(server.socket)
        for _ in range(self.options.epochs - 1):
            client.call(wire.WRITE, length, BLOCK, os.urandom(BLOCK))
            server.tool("epoch")
        client.close()

    @staticmethod
    def destroy(server, how, length):
        if how == IN_PLACE:
            server.tool("shred", "--now")
        elif how.endswith(RANGE):
            server.forget("first..last", "--range", f"0+{length}")
        else:
            server.forget(1)

    def sync_ms(self):
        """Milliseconds of one durable write of a page."""
        os.sync()
        path = self.work.file("sync")
        times = []
        with open(path, "wb", buffering=0) as file:
            for _ in range(9):
                started = time.monotonic()
                os.pwrite(file.fileno(), os.urandom(BLOCK), 0)
                os.fdatasync(file.fileno())
                times.append(time.monotonic() - started)
        return sorted(times)[4] * 1000

    def render(self, samples):
        rows = []
        for (size, how), found in samples.items():
            seconds, count, pages, sync_ms = medians(found, *self.Sample._fields)
            base = samples.get((size, IN_PLACE))
            fewer = "-" if how == IN_PLACE or not base or not count else f"{medians(base, 'bytes')[0] / count:.1f}"
            rows.append([size, how, f"{count:,.0f}", f"{pages:,.0f}", f"{seconds * 1000:,.1f} ms", f"{sync_ms:.2f} ms", fewer])
        return table(["data", "how", "bytes destroyed", "pages written", "time", "one sync", "times fewer bytes"], rows)

    def missed(self, samples):
        for size, how in samples:
            seconds, = medians(samples[size, how], "seconds")
            if how != IN_PLACE and size == "64M" and ("4K", how) in samples:
                times = seconds / medians(samples["4K", how], "seconds")[0]
                if times > TIMES_MAX:
                    yield f"{how}: forgetting 64 MiB takes {times:.1f} times as long as 4 KiB"
            if how != IN_PLACE and size == "64M" and (size, IN_PLACE) in samples:
                own, base = (medians(samples[size, case], "bytes", "pages") for case in (how, IN_PLACE))
                for what, least, count, of in zip(("bytes", "pages"), (BYTES_MIN, PAGES_MIN), own, base):
                    if of < least * count:
                        yield f"{how}: forgetting 64 MiB destroys {of / count:.0f} times fewer {what} than overwriting"
            most = RANGE_SECONDS_MAX if how.endswith(RANGE) else SECONDS_MAX
            if how != IN_PLACE and size == "4G" and seconds > most:
                yield f"{how}: forgetting 4 GiB takes {seconds:.1f} s"


def settle(server):
    """Waits until the trim has its receipts: one for each block, for which a forget would wait, too."""
    while (status := server.tool("status"))["waiting"] or status["owed"]["destroying"]:
        time.sleep(0.05)


def passed_bytes(server):
    return server.tool("status")["counters"]["passed_bytes"]


def pages_of(path, length=None):
    """The hash of each page of a file, or of its beginning."""
    with open(path, "rb") as file:
        return [hash(page) for page in iter(lambda: file.read(BLOCK) if length is None or file.tell() < length else b"", b"")]


def changed(before, path):
    """How many of the pages are other ones now."""
    after = pages_of(path, len(before) * BLOCK)
    return sum(old != new for old, new in zip(before, after)) + abs(len(after) - len(before))
