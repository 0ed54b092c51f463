"""what it costs the server to follow marks, in instructions

As `lab/bench instructions`: PostMark below a guest is recorded once with none of its files marked, and once with a tenth (a shim
before libc marks those that their names choose). The very same requests are then sent to servers in valgrind: one that
destroys all that dies, and one that follows marks (`serve --sensitive marked`). What that adds is the cost of marks.

The bars: 1 % more instructions with nothing marked, 2 % with a tenth.
"""

import os
from collections import namedtuple
from functools import lru_cache
from itertools import product

from .. import workloads
from ..measure import table
from ..replay import CountedQuietus, replay
from ..servers import MARKED
from . import Benchmark, medians
from .instructions import Recording

SETTLE = ["--settle", "2s"]
# The guest's environment.
SHARES = {"nothing": [], "10 %": ["LAB_MARKED=10"]}
MORE_MAX = {"nothing": 0.01, "10 %": 0.02}


class Bench(Benchmark):
    """A case is (file system, share that is marked, passes)."""

    # Instructions of the servers, and in their watchers.
    Sample = namedtuple("Sample", "requests all followed watcher_all watcher_followed")
    defaults = {"size": "1G", "fs": "ext2", "block": 4096, "files": 10000, "repetitions": 3}
    short = {"size": "128M", "files": 200, "repetitions": 1, "only": "1$"}
    programs = ("valgrind", "postmark", "cc")
    note = " Instructions by valgrind's callgrind."

    def __init__(self, options, work):
        super().__init__(options, work)
        self.workloads = workloads.Workloads(options, work)
        workloads.make_shim(self.workloads.share)
        self.recording = lru_cache(None)(self.record)

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--files", type=int, help="PostMark's files and transactions (default %(default)s)")
        parser.add_argument("--keep-profiles", metavar="DIR", help="callgrind's profiles, for callgrind_annotate")
        parser.set_defaults(operations=0, small_files=0)

    def record(self, title, marked):
        """The requests of PostMark, with such a share of its files marked."""
        return Recording(self, self.known[title], "PostMark", ["LD_PRELOAD=/mnt/share/shim.so", *SHARES[marked]])

    def cases(self):
        return list(product(self.known, SHARES, ("1", "2")))

    def sample(self, title, marked, passes):
        recording = self.recording(title, marked)
        (everything, watching), (followed, following) = (self.count(recording, passes, *it) for it in (("all", SETTLE), ("followed", [*MARKED, *SETTLE])))
        return self.Sample(len(recording.within), everything, followed, watching, following)

    def count(self, recording, passes, name, serve):
        """Instructions for the workload, and how many of them in the watcher."""
        server = recording.prepared(CountedQuietus, passes, serve)
        server.zero()
        replay(server.socket, recording.within)
        counted = server.count()
        if self.options.keep_profiles:
            os.makedirs(self.options.keep_profiles, exist_ok=True)
            os.rename(server.dumped, os.path.join(self.options.keep_profiles, f"{recording.fs.slug}-{passes}-{name}"))
        server.remove()
        return counted

    def render(self, samples):
        head = ["file system", "marked", "passes", "requests", "instructions, all sensitive", "marks followed", "more",
                "in the watcher, all sensitive", "marks followed"]
        return table(head, [in_words(*it) for it in samples.items()])

    def missed(self, samples):
        for (fs, marked, passes), found in samples.items():
            if more(found) > MORE_MAX[marked]:
                yield f"{fs}, {marked} marked, {passes} passes: {more(found):.1%} more instructions"


def more(samples):
    """Instructions that marks add, as a share of the others."""
    everything, followed = medians(samples, "all", "followed")
    return followed / everything - 1


def in_words(case, samples):
    """A row of the table."""
    requests, *counts = medians(samples, *Bench.Sample._fields)
    everything, followed, watching, following = (f"{count / 1e6:,.1f} M" for count in counts)
    return [*case, f"{requests:,.0f}", everything, followed, f"{more(samples):+.1%}", watching, following]
