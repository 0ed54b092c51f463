"""what it costs to destroy only what is marked with `chattr +s`: time below a guest, beside the paper's

After "TrueErase", section 7. PostMark in a guest: --files files of 1 KiB in 20 folders, and as many transactions, 80 % of
those that read or append read; then all is deleted, then sync. The guest writes what is older than half a second, so that files
reach the disk before they die, and the server is told so (`--settle`). On a fresh disk in place, with 2 passes: without detection; all
destroyed; and only what is marked (`serve --sensitive marked`), where nothing is, or 5 or 10 % of the files. *Random*: a
shim before libc marks each file that its name chooses as soon as it is made. *By locality*: it marks the first 1 or 2 folders.

Build: --cycles times `make` and `make clean` of Lua, each followed by a sync, in a folder of objects beside the sources, which is marked
or not.

Nothing is destroyed before the guest has unmounted, but what must be before a block is written anew; then `shred
--now` is timed, and "with overwrites" is both together.

The bars: with overwrites 1.01 of the time without detection where nothing is marked, 1.1 at 5 % and for the build, 1.2 at 10 %.
"""

import os
from collections import namedtuple
from itertools import product

from .. import workloads
from ..bases import COMPILER, upstream_tree
from ..guest import Guest
from ..measure import elapsed, table
from ..servers import MARKED, NEVER, OFF, ROOT, Quietus
from . import Benchmark, medians

FOLDERS = 20
WRITE_BACK_MS = 500
# Four times as long as the guest takes, as in `lab/table8`.
SETTLE = ["--settle", f"{WRITE_BACK_MS * 4 // 1000}s"]
POSTMARK = f"set size 1024 1024\nset bias read 8\nset subdirectories {FOLDERS}\n"
FOLLOWED = [*MARKED, *SETTLE]
BUILD_GUEST = os.path.join(ROOT, "lab", "lib", "build-guest")
# Options of serve, and the guest's environment.
UNMARKED = {"no detection": (OFF, []), "all sensitive": (SETTLE, []), "nothing marked": (FOLLOWED, [])}
WAYS = {
    "PostMark": {
        **UNMARKED,
        **{f"{share} %, {how}": (FOLLOWED, [words.format(share, share * FOLDERS // 100)])
           for share, (how, words) in product((5, 10), (("random", "LAB_MARKED={0}"), ("by locality", "LAB_MARKED_FOLDERS={1}")))},
    },
    "build": {**UNMARKED, "objects marked": (FOLLOWED, ["LAB_MARK_OBJECTS=1"])},
}
COST_MAX = {"nothing marked": 1.01, "5 %, random": 1.1, "5 %, by locality": 1.1, "10 %, random": 1.2, "10 %, by locality": 1.2,
            "objects marked": 1.1}
# On raw flash: how many times as long as without.
PAPER = {("PostMark", "nothing marked"): "1.03", ("PostMark", "5 %, random"): "7.39", ("PostMark", "5 %, by locality"): "3.42",
         ("PostMark", "10 %, random"): "10.7", ("PostMark", "10 %, by locality"): "4.45", ("build", "objects marked"): "1.59 to 2.70"}


class Bench(Benchmark):
    """A case is (file system, workload, way)."""

    # Seconds of the workload, and with `shred --now`; bytes overwritten.
    Sample = namedtuple("Sample", "took both destroyed")
    defaults = {"size": "1G", "fs": "ext2", "block": 4096, "repetitions": 5, "files": 10000}
    short = {"size": "64M", "files": 300, "cycles": 1, "repetitions": 1, "only": "no detection|5 %|objects"}
    programs = ("cc",)

    def __init__(self, options, work):
        super().__init__(options, work)
        self.workloads = workloads.Workloads(options, work, POSTMARK, WRITE_BACK_MS)
        workloads.make_shim(self.workloads.share)
        self.tree = upstream_tree("lua5.4")

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--files", type=int, help="PostMark's files and transactions (default %(default)s)")
        parser.add_argument("--cycles", type=int, default=10, help="of the build (default %(default)s)")
        parser.set_defaults(operations=0, small_files=0)

    def cases(self):
        return [(fs, workload, way) for fs in self.known for workload, ways in WAYS.items() for way in ways]

    def needs(self, case):
        return [*self.programs, *(["make", COMPILER] if case[1] == "build" else ["postmark"])]

    def sample(self, title, workload, way):
        serve, environment = WAYS[workload][way]
        server = self.server(Quietus, ["--policy", workloads.POLICIES["2"], *NEVER], serve)
        fs = self.known[title]
        self.workloads.make(fs, server.uri, f"-d {self.tree}" if workload == "build" else "")
        os.sync()
        guest = Guest(self.work, server.uri, fs.driver, fs.mount())
        took = self.workloads.measure(guest, workload, [*environment, *self.command(workload)])
        both = took + elapsed(lambda: server.tool("shred", "--now"))
        counters = server.tool("status")["counters"]
        server.remove()
        return self.Sample(took, both, counters["destroyed_bytes"] + counters["rewritten_bytes"])

    def command(self, workload):
        """What the guest runs, as `env` takes it."""
        if workload == "build":
            return [BUILD_GUEST, str(self.options.cycles), COMPILER]
        return ["LD_PRELOAD=/mnt/share/shim.so", "postmark"]

    def render(self, samples):
        rows = []
        for (fs, workload, way), found in samples.items():
            took, both, destroyed = medians(found, "took", "both", "destroyed")
            plain = without_detection(samples, fs, workload)
            rows.append([fs, workload, way, in_words(took, plain), in_words(both, plain), f"{destroyed / 1e6:.1f} MB",
                         PAPER.get((workload, way), "")])
        return table(["file system", "workload", "destroyed is", "foreground", "with overwrites", "overwritten", "the paper's"], rows)

    def missed(self, samples):
        for (fs, workload, way), found in samples.items():
            (both,), plain = medians(found, "both"), without_detection(samples, fs, workload)
            if plain and both / plain > COST_MAX.get(way, both / plain):
                yield f"{fs}, {workload}, {way}: {both / plain:.2f} times as long as without detection"


def without_detection(samples, fs, workload):
    """Seconds of the workload; 0 where they were not measured."""
    return medians(samples.get((fs, workload, "no detection"), []), "took")[0]


def in_words(seconds, plain):
    """Seconds, and how many times as long that is as without detection."""
    return f"{seconds:.2f} s" + (f" ({seconds / plain:.2f})" if plain else "")
