"""how long a mass delete on an overlay takes until the host has its space again

An overlay above an empty base is written full; then all of it (*all*), every second piece of 1 MiB
(*half*), or all but a tenth in pieces of 64 KiB, chosen at random (*most*), is trimmed over NBD, and
it is waited for until what all of its files take is what is left plus 1 % of the disk. Beside the
time: what the server wrote meanwhile, as the kernel counts it (all that it moved, and its map and
journal), and how long one sequential pass over as much takes: a copy of a file in the cache to the
medium.

The bar: the time of that pass, or a second (not of the mode punch, which moves nothing: there the
host frees); a delete of everything moves nothing.
"""

import os
import random
import re
import time
from collections import namedtuple
from itertools import product
from math import inf

from .. import wire
from ..bases import Base
from ..measure import allocated_bytes, fill, median, random_file, seconds_of, table
from ..servers import OFF, Overlay, QemuOverlay, parse_size, sparse
from ..workspace import LabError, wait_until
from . import Benchmark, medians

MIB = 1 << 20
MODES = ["lazy", "packed", "punch"]
PIECE_BYTES = {"all": 64 * MIB, "half": MIB, "most": 64 << 10}
SLACK_SHARE, SECONDS_MAX = 0.01, 900


class Bench(Benchmark):
    """A case is (overlay, delete); an overlay is a mode of quietus, or qcow2."""

    # Bytes before, after, alive; seconds of the trims, and until it was small; bytes written, a pass over them.
    Sample = namedtuple("Sample", "before after alive trims small written one_pass")
    defaults = {"size": "10G", "repetitions": 1}
    short = {"size": "256M"}
    programs = ("fio",)

    def __init__(self, options, work):
        super().__init__(options, work)
        self.base = Base(sparse(work.file("base"), parse_size(options.size)))

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--policy", default="none", help="of quietus (default %(default)s: the peer destroys nothing)")

    def peers(self):
        return {QemuOverlay.kind: QemuOverlay.programs}

    def cases(self):
        return list(product([*MODES, QemuOverlay.kind], PIECE_BYTES))

    def sample(self, overlay, delete):
        options = {"base": self.base.path}
        server = (self.server(QemuOverlay, **options) if overlay == QemuOverlay.kind else
                  self.server(Overlay, ["--mode", overlay, "--policy", self.options.policy], OFF, **options))
        fresh = allocated_bytes(server.files)
        fill(server)
        rest(server)
        before, written = allocated_bytes(server.files), written_bytes(server)
        pieces = dead_pieces(delete, server.size)
        alive = server.size - sum(length for _, length in pieces)
        trims, small = delete_all(server, pieces, alive + server.size * SLACK_SHARE + fresh)
        rest(server)
        after, written = allocated_bytes(server.files), written_bytes(server) - written
        server.remove()
        return self.Sample(before, after, alive, trims, small, written, self.one_pass(written))

    def one_pass(self, length):
        """Seconds of a copy of so many bytes to the medium."""
        if length < MIB:
            return 0.0
        source = random_file(self.work.file("source"), length)
        os.sync()
        took = seconds_of("dd", f"if={source}", f"of={source}.copy", "bs=1M", "conv=fdatasync", "status=none")
        os.unlink(source)
        os.unlink(f"{source}.copy")
        return took

    def end(self):
        self.base.check()

    def render(self, samples):
        head = ["overlay", "deleted", "before, MiB", "after, MiB", "alive, MiB", "trims answered", "small after", "written, MiB",
                "one pass over that"]
        return table(head, [[*case, *in_words(found)] for case, found in samples.items()])

    def missed(self, samples):
        for (overlay, delete), found in samples.items():
            if overlay in MODES:
                before, written, one_pass = medians(found, "before", "written", "one_pass")
                if overlay != "punch" and seconds_small(found) > max(1.0, one_pass):
                    yield f"{overlay}, {delete}: not as fast as one pass"
                if delete == "all" and written > SLACK_SHARE * before:
                    yield f"{overlay}, {delete}: {written // MIB:.0f} MiB were written"


def dead_pieces(delete, size):
    """The ranges to trim."""
    length = PIECE_BYTES[delete]
    rng = random.Random(1)
    chosen = {"all": lambda _: True, "half": lambda at: at // length % 2 == 0, "most": lambda _: rng.random() < 0.9}[delete]
    return [(at, min(length, size - at)) for at in range(0, size, length) if chosen(at)]


def delete_all(server, pieces, most):
    """Seconds until the trims were answered, and until the files took `most`; None for the latter: never."""
    started = time.monotonic()
    client = wire.Client(server.socket, timeout=SECONDS_MAX)
    client.many((wire.TRIM, start, length, b"") for start, length in pieces)
    trims = time.monotonic() - started
    try:
        wait_until("small", lambda: allocated_bytes(server.files) <= most, SECONDS_MAX)
        return trims, time.monotonic() - started
    except LabError:
        return trims, None
    finally:
        client.close()


def rest(server):
    """Returns when the server has nothing left to do."""
    os.sync() if server.kind == QemuOverlay.kind else server.tool("shred", "--now")


def written_bytes(server):
    """Bytes that the server's process has written so far, by the kernel's account."""
    with open(f"/proc/{server.process.pid}/io") as file:
        return int(re.search(r"^write_bytes: (\d+)$", file.read(), re.MULTILINE)[1])


def seconds_small(samples):
    """The median; infinity for never."""
    return median([inf if it.small is None else it.small for it in samples])


def in_words(samples):
    before, after, alive, trims, written, one_pass = medians(samples, "before", "after", "alive", "trims", "written", "one_pass")
    small = seconds_small(samples)
    return [*(f"{it / MIB:,.0f}" for it in (before, after, alive)), f"{trims:.2f} s", "never" if small == inf else f"{small:.2f} s",
            f"{written / MIB:,.0f}", f"{one_pass:.2f} s"]
