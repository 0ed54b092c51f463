"""writes over dead blocks of a sealed disk, also while its root is busy: the 99th percentile beside plain writes

Writes of 4 KiB at depth 32 to each of --writes blocks, on a disk that is full of content: *plain* ones, and those *after* a TRIM of these blocks was
answered. The root is a file, or lies in a TPM in software. *Busy*: a purge is under way, and from its write to the root on, the TPM answers that it is
busy for --busy seconds.
*Pairs* are of a TRIM and a write of the same block, which does not wait for the answer to the TRIM: its latency has that of the TRIM in it, whose death
has to be durable. *Beyond*: as many pairs as fit into the rest of the time in which the root is busy.

The bar: the 99th percentile of a write after a TRIM at most 1.5 times that of a plain one, on a file, and beside a busy root for --writes.
"""

import threading
import time
from collections import namedtuple

from .. import wire
from ..measure import fill, fio_nbd, lasting, table
from ..servers import OFF, Sealed
from ..tpm import Tpm
from ..workspace import LabError, wait_until
from . import Benchmark, in_times, medians, ratio

PLAIN = ["--rw=randwrite", "--bs=4k", "--iodepth=32"]
PAIRS = ["--rw=randtrimwrite", "--bs=4k", "--iodepth=32"]
BLOCK, TRIM_MAX, TIMES_MAX = 4096, 16 << 20, 1.5
BUSY = "TPM, busy"


class Bench(Benchmark):
    """A case is (root, load)."""

    Sample = namedtuple("Sample", "p99_us writes iops")
    defaults = {"size": "4G", "seconds": 3.0, "repetitions": 5}
    short = {"size": "64M", "seconds": 0.3, "repetitions": 1, "writes": 1000, "busy": 3.0}
    programs = ("fio", "swtpm")

    def __init__(self, options, work):
        super().__init__(options, work)
        self.servers, self.tpm = {}, None

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--busy", type=float, default=60.0, help="seconds (default %(default)g)")
        parser.add_argument("--writes", type=int, default=65536, help="of a sample but for pairs (default %(default)s)")

    def cases(self):
        quiet = [(root, load) for root in ("file", "TPM") for load in ("plain", "after", "pairs")]
        return [*quiet, (BUSY, "after"), (BUSY, "beyond")]

    def sample(self, root, load):
        if (root, load) == (BUSY, "beyond"):
            found, self.beyond = self.beyond, None
            return found
        server = self.served(root)
        settle(server)
        if root == BUSY:
            return self.while_busy(server)
        if load == "pairs":
            return measured(server, PAIRS, self.options.seconds)
        if load == "after":
            self.kill_blocks(server)
        return self.each_block(server)

    def kill_blocks(self, server):
        """A TRIM of all blocks that `each_block` writes."""
        client, end = wire.Client(server.socket), self.options.writes * BLOCK
        for at in range(0, end, TRIM_MAX):
            client.call(wire.TRIM, at, min(TRIM_MAX, end - at))
        client.close()

    def each_block(self, server):
        """A write of each block, in random order."""
        return measured(server, [*PLAIN, "--norandommap=0", f"--size={self.options.writes * BLOCK}"])

    def served(self, root):
        """The server of that root; its disk is full of content."""
        kind = root.partition(",")[0]
        if kind not in self.servers:
            self.tpm = self.tpm or Tpm(self.work)
            words = ["--root", self.tpm.root()] if kind == "TPM" else []
            self.servers[kind] = self.server(Sealed, [*words, "--idle-after", "100ms"], OFF)
            fill(self.servers[kind])
        return self.servers[kind]

    def while_busy(self, server):
        """Writes while a purge cannot go on: as many as asked for, then pairs until the root is not busy any more."""
        client = wire.Client(server.socket)
        self.tpm.is_busy, before = True, self.tpm.refused
        client.call(wire.WRITE, 0, BLOCK, b"x" * BLOCK)
        client.call(wire.TRIM, 0, BLOCK)
        client.close()
        wait_until("a purge finds its root busy", lambda: self.tpm.refused > before)
        ends = time.monotonic() + self.options.busy
        timer = threading.Timer(self.options.busy, setattr, (self.tpm, "is_busy", False))
        timer.start()
        self.kill_blocks(server)
        found = self.each_block(server)
        left = ends - time.monotonic()
        if left < 1 and self.options.busy > 3:
            raise LabError(f"{found.writes} writes took {self.options.busy - left:.1f} s, longer than the root was busy")
        self.beyond = measured(server, PAIRS, max(1, left + 2))
        timer.join()
        if (latched := server.tool("status")["latched"]) is not None:
            raise LabError(f"the disk is latched: {latched}")
        return found

    def render(self, samples):
        rows = []
        for (root, load), found in samples.items():
            p99, writes, iops = medians(found, *self.Sample._fields)
            times = ratio(samples, (root, load), (root.partition(",")[0], "plain"), "p99_us")
            rows.append([root, load, f"{writes:,.0f}", f"{iops / 1000:.1f} k/s", f"{p99 / 1000:.2f} ms", in_times(times)])
        return table(["root", "writes", "number", "a second", "99th percentile", "times that of plain writes"], rows)

    def missed(self, samples):
        for root, load in samples:
            times = ratio(samples, (root, load), (root.partition(",")[0], "plain"), "p99_us")
            if load == "after" and times and times > TIMES_MAX:
                yield f"{root}: the 99th percentile after a TRIM is {times:.2f} times that of plain writes"


def measured(server, job, seconds=None):
    """The writes of a job: all of them, or those of so many seconds."""
    found = fio_nbd(server, *job, *(lasting(seconds) if seconds else []))
    return Bench.Sample(found.p99_us, found.requests, found.iops)


def settle(server):
    """Waits until nothing is owed: what an earlier load left would be destroyed beside this one."""
    def is_done():
        status = server.tool("status")
        return not status["owed"]["queued_bytes"] and not status["store"]["is_purging"]
    wait_until("all that died is destroyed", is_done, 300, 0.1)
