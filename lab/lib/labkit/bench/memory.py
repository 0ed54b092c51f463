"""a disk that keeps versions, written at random: the server's memory, at most and when it is idle again

Writes so much anywhere on the disk, 64 requests in flight, with a flush after each `--flush-every`, and an epoch each second. Then
nothing for ten seconds. The memory is what the kernel counts as resident: at
most (VmHWM), at the end of the writes and after the pause (VmRSS); all of the program counts, its code too. With `--requests 64K` the
same of larger requests. Then the server is stopped and started, and reads at random what the oldest epoch shows, the middle one, and the
current state. With `--epoch flush --flush-every 1` each write is an epoch.

The bar: `--memory`, which the server is given, and `--besides` for the program itself: its code, and the stacks of its threads.
"""

import os
import random
import time
from collections import namedtuple

from .. import wire
from ..measure import median, table
from ..servers import OFF, Versions, parse_size
from . import Benchmark

MIB = 1 << 20
IDLE_SECONDS = 10
# Content for writes is cut out of so many random bytes: each block differs from the others.
POOL = 4 * MIB
# Reads of each state, after a restart.
READS = 20_000


class Bench(Benchmark):
    """All steps are one case for each size of the requests."""

    # MiB: before the first request, at most, at the end of the writes, and after the pause; and MiB written in how many seconds.
    # The same at most after a restart, and how many epochs are kept.
    Sample = namedtuple("Sample", "before peak busy idle reopened written seconds epochs")
    defaults = {"size": "2G", "repetitions": 1}
    short = {"size": "256M", "amount": "64M"}
    fails_always = True

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--amount", default="4G", help="bytes written with each size of requests (default %(default)s)")
        parser.add_argument("--memory", default="128M", help="of the server (default %(default)s)")
        parser.add_argument("--besides", default="24M", help="what the program has besides (default %(default)s)")
        parser.add_argument("--requests", default="4K", help="bytes of each request, several as 4K,64K (default %(default)s)")
        parser.add_argument("--flush-every", type=int, default=4096, help="requests between flushes (default %(default)s)")
        parser.add_argument("--epoch", default="1s", help="when an epoch closes, as `create` has it (default %(default)s)")
        parser.add_argument("--seal", default="random-key", help="default %(default)s")
        parser.add_argument("--seed", type=int, default=1)

    def cases(self):
        return [(size,) for size in self.options.requests.split(",")]

    def sample(self, *case):
        length = parse_size(case[0])
        serve = [*OFF, "--memory", self.options.memory]
        server = self.server(Versions, ["--epoch", self.options.epoch], serve, seal=self.options.seal)
        before, began = server.peak_kib("VmRSS"), time.monotonic()
        written = self.write(server, length)
        took, busy = time.monotonic() - began, server.peak_kib("VmRSS")
        time.sleep(IDLE_SECONDS)
        kept, peak, idle = server.tool("status")["store"]["epochs"], server.peak_kib(), server.peak_kib("VmRSS")
        server.stop()
        server.start()
        self.read(server, length, kept)
        kib = (before, peak, busy, idle, server.peak_kib())
        server.remove()
        return self.Sample(*(it / 1024 for it in kib), written / MIB, took, kept)

    def write(self, server, length):
        """Writes at random; how many bytes."""
        rng, pool = random.Random(self.options.seed), os.urandom(POOL + length)
        places = parse_size(self.options.size) // length
        client, written = wire.Client(server.socket), 0

        def requests(count):
            for n in range(count):
                at = rng.randrange(POOL)
                yield wire.WRITE, rng.randrange(places) * length, length, pool[at:at + length]
                if n % self.options.flush_every == self.options.flush_every - 1:
                    yield wire.FLUSH, 0, 0

        while written < parse_size(self.options.amount):
            count = max(self.options.flush_every, 4096)
            client.many(requests(count))
            written += count * length
        client.close()
        return written

    def read(self, server, length, kept):
        """Reads at random from the oldest epoch, the middle one, and the current state."""
        rng, places = random.Random(self.options.seed), parse_size(self.options.size) // length
        oldest = server.tool("versions")["versions"][:1]
        middle = server.tool("versions", "--from", str(oldest[0]["epoch"] + kept // 2))["versions"][:1] if oldest else []
        for state in [f"@{it['epoch']}" for it in oldest + middle] + [""]:
            client = wire.Client(server.socket, export=state and f"{server.export}{state}")
            client.many((wire.READ, rng.randrange(places) * length, length) for _ in range(READS))
            client.close()

    def render(self, samples):
        rows = []
        for case, found in samples.items():
            *memory, written, seconds, epochs = (median(of) for of in zip(*found))
            rows.append([case[0], f"{written:,.0f} MiB in {seconds:.0f} s", f"{epochs:,.0f}", *(f"{mib:.1f} MiB" for mib in memory)])
        heads = ["requests", "written", "epochs", "before", "at most", "at the end of the writes", f"{IDLE_SECONDS} s later"]
        return table([*heads, "at most after a restart and reads"], rows)

    def missed(self, samples):
        most = (parse_size(self.options.memory) + parse_size(self.options.besides)) / MIB
        for case, found in samples.items():
            peak = max(max(it.peak, it.reopened) for it in found)
            if peak > most:
                yield f"requests of {case[0]}: {peak:.1f} MiB at most, more than {most:.0f} MiB"
