"""how fast dead data is destroyed, and what that costs the living

Bandwidth: for each policy a disk full of data is trimmed whole, and `shred --now` is timed. Beside it,
in the same repetition, the medium's own sequential bandwidth: overwriting an equally large file in
pieces of 1 MiB with a final fdatasync, twice: around the host's cache (O_DIRECT), four pieces under
way at once, and through the cache, one after the other. The latter also pays for a copy.
Latency: requests of 4 KiB on one half of a disk while the other half, full of dead data, is being
shredded, and the same requests while nothing is.

The bars: over all passes 80 % of the bandwidth around the cache, and twice the 99th percentile.
"""

import os
import subprocess
from collections import namedtuple

from .. import wire
from ..measure import elapsed, fill, fio, fio_nbd, lasting, median, table
from ..servers import NEVER, STORES, parse_size
from ..workspace import LabError
from . import Benchmark, medians

PASSES = {"clear": 1, "purge-2": 2, "4": 4, "6": 6, "dod-3": 3, "gutmann-35": 35}
JOBS = {f"random {way}, depth {depth}": [f"--rw=rand{way}", "--bs=4k", f"--iodepth={depth}"] for way in ("read", "write") for depth in (1, 4)}
SHARE_MIN, SLOWDOWN_MAX = 0.8, 2.0


class Bench(Benchmark):
    """A case is ("bandwidth", policy) or ("latency", job)."""

    # MiB a second: of the medium around and through the cache, and destroyed; or microseconds.
    Sample = namedtuple("Sample", "around cached shred idle_us busy_us", defaults=(None,) * 5)
    defaults = {"store": "in-place", "size": "1G", "seconds": 3.0, "repetitions": 3}
    short = {"size": "256M", "seconds": 0.3, "repetitions": 1, "only": "clear|purge-2|latency"}
    programs = ("fio",)

    def __init__(self, options, work):
        super().__init__(options, work)
        self.size, self.living = parse_size(options.size), None

    def cases(self):
        return [("bandwidth", policy) for policy in PASSES] + [("latency", job) for job in JOBS]

    def sample(self, what, which):
        if what == "bandwidth":
            medium = list(self.medium_bandwidth())
            server = self.start(which, self.size)
            shred = shred_bandwidth(server)
            server.remove()
            return self.Sample(*medium, shred)
        if self.living is None:
            self.living = self.start("purge-2", 2 * self.size)
            fill(self.living)
        idle = self.foreground(JOBS[which], self.options.seconds)
        return self.Sample(idle_us=idle, busy_us=self.while_shredding(JOBS[which]))

    def start(self, policy, size):
        """A server that destroys nothing unasked."""
        return self.server(STORES[self.options.store], ["--policy", policy, *NEVER], size=size)

    def medium_bandwidth(self):
        """MiB a second of overwriting a file in order, durably: around the cache, and through it."""
        path = self.work.file("bandwidth")
        job = [f"--filename={path}", f"--size={self.size}", "--rw=write", "--bs=1M", "--overwrite=1", "--end_fsync=1"]
        if not os.path.exists(path):
            fio(*job, "--ioengine=psync")
        for way in (["--ioengine=io_uring", "--iodepth=4", "--direct=1"], ["--ioengine=psync"]):
            os.sync()  # what earlier steps left is not to be measured
            yield fio(*job, *way).mib_s

    def foreground(self, job, seconds):
        """The 99th percentile in microseconds on the living half."""
        os.sync()
        return fio_nbd(self.living, *job, "--offset=0", f"--size={self.size}", *lasting(seconds)).p99_us

    def while_shredding(self, job):
        """The same, while the other half is destroyed; this must outlast the job."""
        server, seconds = self.living, self.options.seconds
        for _ in range(3):
            fill(server, self.size, self.size)
            trim(server, self.size, self.size)
            os.sync()
            shredder = self.work.spawn([server.binary, "shred", server.disk, "--now"], stdout=subprocess.DEVNULL)
            found = self.foreground(job, seconds)
            outlasted = shredder.poll() is None
            if shredder.wait() != 0:
                raise LabError(f"quietus shred --now ended with {shredder.returncode}")
            if outlasted:
                return found
            seconds /= 3
        raise LabError(f"--size {self.options.size}: shredded before fio had ended; choose a larger size")

    def render(self, samples):
        bandwidths, latencies = [], []
        for (what, which), found in samples.items():
            if what == "bandwidth":
                around, cached, shred = medians(found, "around", "cached", "shred")
                bandwidths.append([which, str(PASSES[which]), f"{around:,.0f}", f"{cached:,.0f}", f"{shred:,.0f}",
                                   f"{share(which, found):.0%}"])
            else:
                idle, busy = medians(found, "idle_us", "busy_us")
                latencies.append([which, f"{idle:.0f} us", f"{busy:.0f} us", f"{slowdown(found):.2f}"])
        return "\n\n".join([
            table(["policy", "passes", "medium, MiB/s", "through the cache, MiB/s", "destroyed, MiB/s", "x passes / medium"], bandwidths),
            table(["4 KiB, foreground", "p99 without", "p99 while shredding", "ratio"], latencies)])

    def missed(self, samples):
        for (what, which), found in samples.items():
            if what == "bandwidth" and share(which, found) < SHARE_MIN:
                yield f"{which}: {share(which, found):.0%} of the medium's bandwidth"
            if what == "latency" and slowdown(found) > SLOWDOWN_MAX:
                yield f"{which}: {slowdown(found):.2f} times the 99th percentile"


def trim(server, offset, length):
    """Tells the server that the range is dead."""
    client = wire.Client(server.socket)
    step = 1 << 30
    for start in range(offset, offset + length, step):
        client.call(wire.TRIM, start, min(step, offset + length - start))
    client.close()


def shred_bandwidth(server):
    """MiB a second of destroying the whole disk."""
    fill(server)
    trim(server, 0, server.size)
    os.sync()
    return (server.size >> 20) / elapsed(lambda: server.tool("shred", "--now"))


def share(policy, samples):
    """The bandwidth of all passes together, as a share of the medium's."""
    return median([it.shred * PASSES[policy] / it.around for it in samples])


def slowdown(samples):
    """By how much shredding lengthens the 99th percentile."""
    return median([it.busy_us / it.idle_us for it in samples])
