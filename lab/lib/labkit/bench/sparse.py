"""a disk of 16 TiB of which little is used: time, memory and space

Creates it, serves it, asks for its status, then writes and trims blocks at random places all over
it; after each step the server's peak memory (VmHWM) and the space that the disk takes on the host. A
file of ext4 cannot be quite 16 TiB: there the disk is one block smaller.

The bar, with --require or without: --memory-max.
"""

import errno
import os
import random
import subprocess
import time
from collections import namedtuple

from .. import wire
from ..measure import allocated_bytes, median, table
from ..servers import STORES, parse_size, sparse
from . import Benchmark

BLOCK_BYTES = 4096


class Bench(Benchmark):
    """All steps are one case, of `quietus`."""

    # Step to seconds, the server's peak memory and the disk's space in MiB; None where there is neither yet.
    Sample = namedtuple("Sample", "steps")
    defaults = {"store": "in-place", "size": "16T", "repetitions": 1}
    short = {"size": "1T", "touch": 500}
    programs = ("nbdinfo",)
    fails_always = True

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--touch", type=int, default=20000, help="blocks written at random places (default %(default)s)")
        parser.add_argument("--memory-max", default="256M", help="most memory the server may take (default %(default)s)")
        parser.add_argument("--seed", type=int, default=1)

    def cases(self):
        return [("quietus",)]

    def sample(self, *case):
        size, rng, found = self.fitting(parse_size(self.options.size)), random.Random(self.options.seed), {}
        places = [rng.randrange(size // BLOCK_BYTES) * BLOCK_BYTES for _ in range(self.options.touch)]

        def step(what, action, server=None):
            started = time.monotonic()
            value = action()
            found[what] = (time.monotonic() - started, *((server.peak_kib() / 1024, allocated_bytes(server.disk) / (1 << 20))
                                                         if server else (None, None)))
            return value

        server = step(f"create {size:,} bytes", lambda: STORES[self.options.store](self.work, self.next_name(), size))
        step("serve, first connection", server.start, server)
        step("status", lambda: server.tool("status"), server)
        step(f"write {len(places)} blocks anywhere", lambda: touch(server, places, wire.WRITE), server)
        step("status after writing", lambda: server.tool("status"), server)
        step(f"trim {len(places) // 2} of them", lambda: touch(server, places[::2], wire.TRIM), server)
        step("shred --now", lambda: server.tool("shred", "--now"), server)
        step("nbdinfo --map --totals", lambda: subprocess.run(["nbdinfo", "--map", "--totals", server.uri], check=True,
                                                              stdout=subprocess.DEVNULL), server)
        server.kill()
        step("serve again after kill -9", server.start, server)
        step("verify", lambda: server.tool("verify"), server)
        server.remove()
        return self.Sample(found)

    def fitting(self, size):
        """`size`, or a block less where no file can be that large."""
        try:
            os.unlink(sparse(self.work.file("probe"), size))
            return size
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            return size - BLOCK_BYTES

    def render(self, samples):
        found = samples["quietus",]
        middle = {step: [None if None in figures else median(figures) for figures in zip(*(it.steps[step] for it in found))]
                  for step in found[0].steps}
        return table(["step", "time", "server's peak memory", "space on the host"],
                     [[step, f"{seconds:.2f} s", *("-" if mib is None else f"{mib:.1f} MiB" for mib in sizes)]
                      for step, (seconds, *sizes) in middle.items()])

    def missed(self, samples):
        most = max(mib or 0 for it in samples["quietus",] for _, mib, _ in it.steps.values())
        if most * (1 << 20) > parse_size(self.options.memory_max):
            yield f"{most:.1f} MiB of memory, more than {self.options.memory_max}"


def touch(server, places, command):
    """One request of a block at each place, several in flight."""
    client = wire.Client(server.socket)
    payload = os.urandom(BLOCK_BYTES) if command == wire.WRITE else b""
    client.many((command, place, BLOCK_BYTES, payload) for place in places)
    client.close()
