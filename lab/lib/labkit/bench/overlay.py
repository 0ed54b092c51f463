"""how much of an overlay comes back when a guest deletes, and what it costs, beside others

After "Practical Techniques for Eliminating Storage of Deleted Data", section 4: a guest above a fresh
overlay on one base, which holds the file system and a source tree, does

- build: --cycles times `make` and `make clean` of Lua;
- dbench: --seconds of it with --clients, each sector with a byte that is not zero (by itself dbench
  writes nothing but zeros), then its files are deleted;
- bonnie: bonnie++ with --mib of data and --thousands of files of 0.5 to 4 KiB, which it deletes.

The overlays:

- none: quietus with `--detect off`, told nothing: it only grows, and times are held against it;
- direct: the same; after each deletion the guest freezes its file system and says what is free, and
  `quietus purge` tells the disk: its time counts;
- zero: with `--detect-zeroes`; what the guest deletes it overwrites with zeros first;
- flagged: the guest has mounted with discard (not ext2, whose driver cannot);
- implicit: the guest tells nothing and zeroes nothing: quietus infers what is dead, and waits --settle
  seconds for what the guest may hold back;
- qemu: qemu-nbd on a qcow2 file, discard=unmap, detect-zeroes=unmap, told nothing;
- qemu-flagged: the same, and the guest has mounted with discard;
- uml: user-mode Linux' own copy-on-write file (ubd; it drops the guest's flushes).

Space is what all files of an overlay take on the host: when fresh, at most, and when all is deleted
and synced and the space has not changed for --rest seconds (implicit: and --settle), the guest still
running; and once it has unmounted, when its journal is not needed any more. *Alive* is what no overlay
could do without then: blocks that the file system has in use, and that are not as in the base.
Recovered is the share of what was neither: (most - unmounted) / (most - fresh - alive), and the same at
rest: there a journal counts as dead, so that the bar is on this where there is none. Time is until all
is synced; of dbench its throughput is compared. At the end the base must be as it was.

The bars, of quietus alone: 99.9 % recovered, and 3 % more time than *none*.
"""

import contextlib
import os
import sys
import threading
import time
from collections import namedtuple
from itertools import product

from .. import extfs, filesystems
from ..bases import COMPILER, Base, alive_bytes, upstream_tree
from ..guest import Guest, add_guest_arguments
from ..measure import allocated_bytes, median, table
from ..options import add_more_options
from ..servers import OFF, ROOT, Overlay, QemuOverlay, parse_size
from ..workloads import make_shim
from ..workspace import LabError
from . import Benchmark, in_times, medians

GUEST = os.path.join(ROOT, "lab", "lib", "overlay-guest")
MIB = 1 << 20
RANGES_A_CALL = 1000
REST_SECONDS_MAX = 300
SHARE_MIN, COST_MAX = 0.999, 0.03

# `disk` is what serves it; `create` are options of quietus, `mount` of the guest, `work` of its workload.
Way = namedtuple("Way", "disk create mount work infers", defaults=((), (), (), False))
WAYS = {
    "none": Way("quietus"), "direct": Way("quietus", work=["--tell"]),
    "zero": Way("quietus", create=["--detect-zeroes"], work=["--zero"]),
    "flagged": Way("quietus", mount=["discard"]), "implicit": Way("quietus", infers=True),
    "qemu": Way("qemu"), "qemu-flagged": Way("qemu", mount=["discard"]), "uml": Way("uml"),
}
PROGRAMS = {"build": ["make"], "dbench": ["dbench"], "bonnie": ["bonnie++"]}
BONNIE = ["sequential-creates", "sequential-deletes", "random-creates", "random-deletes"]


class Bench(Benchmark):
    """A case is (file system, workload, overlay)."""

    # Figures that the guest told, by name; bytes on the host.
    Sample = namedtuple("Sample", "said fresh most rested unmounted alive")
    defaults = {"size": "2G", "seconds": 30.0, "repetitions": 3}
    short = {"size": "192M", "seconds": 5.0, "repetitions": 1, "cycles": 1, "mib": 16, "thousands": 1, "rest": 3.0, "settle": 3}

    def __init__(self, options, work):
        super().__init__(options, work)
        self.known = {name: filesystems.FileSystem(name, block=4096, size=parse_size(options.size))
                      for name in options.fs.split(",")}
        self.share = work.directory("share")
        make_shim(self.share)
        tree = upstream_tree("lua5.4")
        self.bases = {name: self.base(name, tree) for name in self.known}

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--fs", default="ext2,ext4", help="some of ext2,ext3,ext4 (default %(default)s)")
        parser.add_argument("--cycles", type=int, default=10, help="of build (default %(default)s)")
        parser.add_argument("--clients", type=int, default=4, help="of dbench (default %(default)s)")
        parser.add_argument("--mib", type=int, default=512, help="of bonnie++'s data (default %(default)s)")
        parser.add_argument("--thousands", type=int, default=16, help="of bonnie++'s small files, each 1,024 (default %(default)s)")
        parser.add_argument("--rest", type=float, default=6, metavar="SECONDS", help="default %(default)g")
        parser.add_argument("--settle", type=int, default=60, metavar="SECONDS", help="of quietus serve (default %(default)s)")
        add_more_options(parser, "create", "serve")
        add_guest_arguments(parser)

    def base(self, name, tree):
        """A file system with that tree, all of its metadata made."""
        path = self.work.file(f"base-{name}")
        files = self.options.thousands * 1024 + 20000
        extfs.make(path, name, parse_size(self.options.size), "-N", str(files), "-d", tree,
                   "-E", "lazy_itable_init=0,lazy_journal_init=0")
        return Base(path)

    def peers(self):
        needed = {"qemu": QemuOverlay.programs, "uml": [os.environ.get("UML_KERNEL") or "linux.uml"]}
        return {name: needed[way.disk] for name, way in WAYS.items() if way.disk in needed}

    def cases(self):
        return [it for it in product(self.known, PROGRAMS, WAYS) if "discard" not in WAYS[it[2]].mount or it[0] != "ext2"]

    def needs(self, case):
        return PROGRAMS[case[1]] + [COMPILER] * (case[1] == "build")

    def sample(self, name, workload, overlay):
        fs, way = self.known[name], WAYS[overlay]
        stand = Stand(self, way, self.bases[name].path)
        fresh, rested, said = stand.space(), [], {}
        guest = Guest(self.work, stand.uri, fs.driver, fs.mount(*way.mount), extra=stand.extra, seconds_max=7200)
        with peak_of(stand.space) as most:
            guest.converse([GUEST, workload, *self.words(), *way.work], {
                "purge": lambda: stand.purge(os.path.join(self.share, "free")),
                "end": lambda: (stand.rest(), rested.append(stand.space())),
            }, "--share", self.share, hear=lambda line: hear(line, said))
        if not rested:
            raise LabError(f"{workload} on {overlay} did not end: {said}")
        stand.rest(unmounted=True)
        unmounted, alive = stand.space(), stand.alive(self.bases[name].path, fs.block)
        stand.end()
        return self.Sample(said, fresh, most[-1], rested[0], unmounted, alive)

    def words(self):
        """The sizes, for the guest."""
        names = ["cycles", "clients", "mib", "thousands"]
        return ["--seconds", f"{self.options.seconds:.0f}", "--compiler", COMPILER,
                *(word for name in names for word in (f"--{name}", str(getattr(self.options, name))))]

    def end(self):
        for base in self.bases.values():
            base.check()

    def render(self, samples):
        head = ["file system", "workload", "overlay", "fresh, MiB", "at most", "at rest", "unmounted", "alive", "recovered at rest",
                "unmounted", "time", "/ none"]
        return "\n\n".join(filter(None, [table(head, [row(samples, case) for case in samples]), figure_12(samples)]))

    def missed(self, samples):
        for case, these in samples.items():
            if WAYS[case[2]].disk == "quietus" and case[2] != "none":
                found = recovered_mostly(these, "rested" if case[0] == "ext2" else "unmounted")
                if found is not None and found < SHARE_MIN:
                    yield f"{', '.join(case)}: {share(found)} recovered"
                if (against_none(samples, case) or 0) > 1 + COST_MAX:
                    yield f"{', '.join(case)}: {against_none(samples, case):.2f} of the time"


class Stand:
    """One fresh overlay, and what serves it."""

    def __init__(self, bench, way, base):
        options, size = bench.options, os.path.getsize(base)
        self.way, self.extra = way, ()
        self.rest_seconds, self.settle_seconds = options.rest, options.settle if way.infers else 0
        if way.disk == "uml":
            self.server = None
            self.files = self.uri = os.path.join(bench.work.directory(bench.next_name()), "cow")
            self.extra = ["--base", base]
            return
        detect = ["--settle", f"{options.settle}s"] if way.infers else OFF
        self.server = (bench.server(QemuOverlay, size=size, base=base) if way.disk == "qemu" else
                       bench.server(Overlay, [*way.create, *options.create], [*detect, *options.serve], size=size, base=base))
        self.files, self.uri = self.server.files, self.server.uri

    def space(self):
        return allocated_bytes(self.files)

    def rest(self, unmounted=False):
        """Returns when its size has not changed for as long as it should."""
        seconds = self.rest_seconds + (0 if unmounted else self.settle_seconds)
        since, size, end = time.monotonic(), self.space(), time.monotonic() + REST_SECONDS_MAX
        while time.monotonic() < min(since + seconds, end):
            time.sleep(0.2)
            if self.space() != size or self.way.disk == "quietus" and self.server.tool("status")["owed"]["queued_bytes"]:
                since, size = time.monotonic(), self.space()

    def purge(self, path):
        """Tells the overlay's server of the ranges in a file."""
        with open(path) as file:
            ranges = file.read().split()
        for first in range(0, len(ranges), RANGES_A_CALL):
            self.server.tool("purge", *ranges[first:first + RANGES_A_CALL])

    def alive(self, base, block_bytes):
        """Bytes that the overlay needs; 0 where that cannot be told."""
        if not self.server:
            return 0
        image = self.server.flat()
        found = alive_bytes(base, image, extfs.layout(image, block_bytes).free, block_bytes)
        os.unlink(image)
        return found

    def end(self):
        if self.server:
            self.server.remove()
        else:
            os.unlink(self.files)


@contextlib.contextmanager
def peak_of(space):
    """A list whose last is the most space that an overlay takes meanwhile, looked at ten times a second."""
    most, ended = [0], threading.Event()

    def look():
        while not ended.wait(0.1):
            most.append(max(most.pop(), space()))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()
        most.append(max(most.pop(), space()))


def hear(line, said):
    words = line.split()
    if len(words) == 3 and words[0] in ("took", "figure"):
        said[words[1]] = float(words[2])
    elif line not in ("purge", "end"):
        print(f"guest: {line}", file=sys.stderr)


def recovered(sample, when):
    """The share of unneeded content that did not stay, `rested` or `unmounted`; None if there was none."""
    dead = sample.most - sample.fresh - sample.alive
    return (sample.most - getattr(sample, when)) / dead if dead > 0 else None


def recovered_mostly(these, when):
    shares = [it for it in (recovered(sample, when) for sample in these) if it is not None]
    return median(shares) if shares else None


def work_time(sample):
    """Seconds of the work; of dbench for as much of it."""
    return 1 / max(sample.said["throughput"], 1e-3) if "throughput" in sample.said else sample.said["all"]


def against_none(samples, case):
    """The time of a case against the overlay that only grows; None without that."""
    plain = samples.get((*case[:2], "none"))
    return median(map(work_time, samples[case])) / median(map(work_time, plain)) if plain else None


def share(value):
    return "-" if value is None else f"{value:.2%}"


def said(samples, name):
    """The median of what the guests said by that name; None if they did not."""
    found = [it.said[name] for it in samples if name in it.said]
    return median(found) if found else None


def row(samples, case):
    these, against = samples[case], against_none(samples, case)
    throughput = said(these, "throughput")
    return [*case, *(f"{it / MIB:,.1f}" for it in medians(these, "fresh", "most", "rested", "unmounted", "alive")),
            *(share(recovered_mostly(these, it)) for it in ("rested", "unmounted")),
            f"{said(these, 'all'):,.1f} s" if throughput is None else f"{throughput:,.1f} MiB/s",
            in_times(against)]


def figure_12(samples):
    """bonnie++'s creates and deletes."""
    rows = [[case[0], case[2], *("-" if (found := said(these, name)) is None else f"{found:,.0f}" for name in BONNIE)]
            for case, these in samples.items() if case[1] == "bonnie"]
    return table(["file system", "overlay", *(f"{name.replace('-', ' ')} a second" for name in BONNIE)], rows) if rows else ""
