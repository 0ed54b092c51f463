"""what it costs to know of deaths, in instructions that the server executes

Time is noisy, and a processor's own counters are often not to be had. So what a guest asks of its
disk is recorded once, from mkfs to the end of the last sync of a workload (see `lab/bench detect
--help`). The very same requests are then sent, one after the other, to servers in valgrind, which
counts the instructions of the workload's part: without detection and with, for each policy. Only
the server's own count, not the kernel's for it (input, output, sockets). Nothing is destroyed
meanwhile but what a policy of several passes must destroy before a block is written anew: of all that
detection adds, *in the watcher* is what it takes to know; the rest is reading what is replaced,
destroying, and the record of that.

Then the same requests are sent to servers as they are, without and with detection in each repetition.
The processor time of the server, the kernel's for it included, is put beside the time that the
workload takes below a guest, without detection.

The bar: with one pass, 2 % of PostMark's time.
"""

import os
import time
from collections import namedtuple
from functools import cached_property, lru_cache
from itertools import product

from .. import workloads
from ..measure import median, table
from ..relay import Relay
from ..replay import CountedQuietus, processor_seconds, replay
from ..servers import NEVER, OFF, Quietus
from . import Benchmark, medians

SIDES = [OFF, ["--detect", "auto"]]
COST_MAX = 0.02
# A guest takes longer from mkfs to its next write; the server finds the file system meanwhile.
ATTACH_SECONDS = 4


class Recording:
    """The requests of a guest before and in the workload, and how long that takes without detection."""

    def __init__(self, bench, fs, workload):
        self.bench, self.fs, self.workload = bench, fs, workload
        server = bench.server(Quietus, NEVER, OFF)
        relay = Relay(os.path.join(server.directory, "relay.sock"), server.socket, fs.block, keep=True)
        bench.workloads.make(fs, relay.uri)
        before = len(relay.kept)
        bench.workloads.run(fs.guest(bench.work, relay.uri), workload)
        relay.check()
        self.before, self.within = relay.kept[:before], relay.kept[before:]
        server.remove()

    @cached_property
    def took(self):
        """Seconds of the workload on a disk of its own."""
        server = self.bench.server(Quietus, NEVER, OFF)
        self.bench.workloads.make(self.fs, server.uri)
        seconds = self.bench.workloads.run(self.fs.guest(self.bench.work, server.uri), self.workload)
        server.remove()
        return seconds

    def prepared(self, kind, passes, side):
        """A server of a fresh disk, with these options of `serve`, that was asked for everything up to the workload."""
        server = self.bench.server(kind, ["--policy", workloads.POLICIES[passes], *NEVER], side)
        replay(server.socket, self.before)
        time.sleep(ATTACH_SECONDS)
        return server


class Bench(Benchmark):
    """A case is (file system, workload, passes)."""

    # Instructions without and with detection, and in the watcher; seconds of processor time, and of the workload.
    Sample = namedtuple("Sample", "requests counted_off counted_on watcher clock_off clock_on took")
    defaults = {"size": "1G", "fs": "ext2", "block": 4096, "files": 10000, "operations": 10000, "small_files": 20000,
                "only": "PostMark, [12]$", "repetitions": 5}
    short = {"size": "128M", "files": 200, "operations": 200, "small_files": 1000, "only": "PostMark, 1$", "repetitions": 1}

    note = " Instructions by valgrind's callgrind."

    def __init__(self, options, work):
        super().__init__(options, work)
        self.workloads = workloads.Workloads(options, work)
        self.recording = lru_cache(None)(lambda title, workload: Recording(self, self.known[title], workload))
        self.counts = lru_cache(None)(lambda *case: [self.count(*case, side) for side in (0, 1)])

    add_arguments = staticmethod(workloads.add_arguments)

    def cases(self):
        return list(product(self.known, workloads.NAMES, workloads.POLICIES))

    def needs(self, case):
        return ["valgrind", *workloads.PROGRAMS.get(case[1], ())]

    def sample(self, title, workload, passes):
        recording = self.recording(title, workload)
        (off, _), (on, watcher) = self.counts(title, workload, passes)
        return self.Sample(len(recording.within), off, on, watcher, *(self.clock(recording, passes, it) for it in SIDES), recording.took)

    def clock(self, recording, passes, side):
        """Seconds of the server's processor time for the workload."""
        server = recording.prepared(Quietus, passes, side)
        before = processor_seconds(server.process.pid)
        replay(server.socket, recording.within)
        took = processor_seconds(server.process.pid) - before
        server.remove()
        return took

    def count(self, title, workload, passes, side):
        """Instructions for the same, and how many of them in the watcher."""
        recording = self.recording(title, workload)
        server = recording.prepared(CountedQuietus, passes, SIDES[side])
        server.zero()
        replay(server.socket, recording.within)
        counted = server.count()
        server.remove()
        return counted

    def render(self, samples):
        head = ["file system", "workload", "passes", "requests", "instructions without detection", "with",
                "in the watcher (a request)", "processor time without", "with", "more"]
        return table(head, [in_words(*it) for it in samples.items()])

    def missed(self, samples):
        for (fs, workload, passes), found in samples.items():
            if (workload, passes) == ("PostMark", "1") and share(found) > COST_MAX:
                yield f"{fs}, {workload}: detection costs {share(found):.2%} of the time"


def share(samples):
    """Processor time that detection adds, as a share of the workload's time."""
    off, on, took = medians(samples, "clock_off", "clock_on", "took")
    return (on - off) / took


def in_words(case, samples):
    requests, off, on, watcher, clock_off, clock_on, took = map(median, zip(*samples))
    return [*case, f"{requests:,.0f}", *(f"{count / 1e6:,.0f} M" for count in (off, on)),
            f"{watcher / 1e6:,.0f} M ({watcher // requests:,.0f})", f"{clock_off:.3f} s", f"{clock_on:.3f} s",
            f"{share(samples):.2%} of {took:.1f} s"]
