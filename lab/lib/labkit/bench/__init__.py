"""Benchmarks: a module for each of `NAMES`, with a class `Bench`; the module's text is its help.

Every benchmark has cases, tuples of words that may name a peer. A repetition measures each case
once, so that whatever else the machine does hits all servers alike; medians are compared.
"""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

from ..filesystems import add_arguments as add_file_systems, chosen
from ..measure import median
from ..options import command, tell
from ..servers import STORES, Quietus, parse_size
from ..wire import Disconnected
from ..workspace import LabError, Workspace, end, need

NAMES = ["io", "keys", "busy", "detect", "marks", "flash", "overlay", "shred", "shrink", "sparse", "attach", "instructions", "latency", "seal", "forget", "epochs", "history", "memory",
         "vault", "sanitize", "paths"]
# A benchmark has those of these options that it gives a default.
SHARED = {
    "size": {"help": "of the disk (default %(default)s)"},
    "store": {"help": "where quietus keeps content (default %(default)s)"},
    "seconds": {"type": float, "help": "of one repetition of the load (default %(default)g)"},
    "repetitions": {"type": int, "help": "of each case, in turns (default %(default)s)"},
}
FAILURES = (LabError, OSError, subprocess.SubprocessError, Disconnected)


class Benchmark:
    """The frame of a benchmark. A subclass has `cases()` in the order of one repetition, `sample(*case)`, which
    measures one of them once, and `render(samples)`: tables of the samples of each case."""

    Sample = None      # a named tuple: one repetition of one case
    defaults = {}      # of the options
    stores = STORES    # that it can measure
    short = {}         # the same with --short
    programs = ()      # that every case needs
    note = ""          # what a reader of the tables is to know
    fails_always = False  # whether a missed bar is a failure without --require, too

    def __init__(self, options, work):
        self.options, self.work, self.disks, self.started = options, work, 0, []
        self.known = {fs.title: fs for fs in chosen(options, parse_size(options.size))} if "fs" in self.defaults else {}

    @staticmethod
    def add_arguments(parser):
        """Options of this benchmark alone."""

    def peers(self):
        """The programs that each peer needs, by the peer's name."""
        return {}

    def missed(self, samples):
        """The bars that are missed, in words."""
        return ()

    def needs(self, case):
        """The programs that a case needs, those of peers apart."""
        return self.programs

    def end(self):
        """Comes after the last repetition."""

    def next_name(self):
        """A name that no disk has had."""
        self.disks += 1
        return f"disk{self.disks}"

    def server(self, kind, *words, size=None, **options):
        """A server of a new disk, started."""
        self.started.append(kind(self.work, self.next_name(), size or parse_size(self.options.size), *words, **options))
        return self.started[-1].start()


class Run:
    """All repetitions: `samples` by case, and why the peers in `out` have no samples."""

    def __init__(self, bench, name, options):
        self.bench, self.name, self.options = bench, name, options
        self.samples, self.out, self.failed = {}, {}, False
        for peer, programs in bench.peers().items():
            missing = ", ".join(program for program in programs if not shutil.which(program))
            if missing:
                self.leave_out(peer, f"not installed: {missing}")

    def peer(self, case):
        """The peer that a case is about, or None."""
        return next((word for word in case if word in self.bench.peers()), None)

    def leave_out(self, peer, why):
        """Drops a peer: its samples, its server, and its further cases."""
        self.out[peer] = why
        for server in self.bench.started:
            if server.kind not in {Quietus.kind, *self.bench.peers()} - {*self.out}:
                end(server.process)
        for case in [case for case in self.samples if self.peer(case) == peer]:
            del self.samples[case]
        print(f"{peer} is skipped: {why}", file=sys.stderr, flush=True)

    def measure(self):
        wanted = self.wanted()
        need(*sorted({program for case in wanted for program in self.bench.needs(case)}))
        self.recall(wanted)
        total, began = len(wanted) * self.options.repetitions, time.monotonic()
        for done in range(total):
            repetition, case = done // len(wanted), wanted[done % len(wanted)]
            if self.peer(case) not in self.out:
                progress(done, total, time.monotonic() - began, title(case))
                self.once(case, repetition)
        progress(total, total, time.monotonic() - began, "done\n")
        self.bench.end()

    def wanted(self):
        cases, peers = self.bench.cases(), self.bench.peers()
        named = peers if self.options.peers is None else list(filter(None, self.options.peers.replace("none", "").split(",")))
        unknown = set(named) - set(peers)
        if unknown:
            raise LabError(f"unknown peer {', '.join(sorted(unknown))}; expected some of {', '.join(peers) or 'none'}")
        try:
            fits = re.compile(self.options.only).search
        except re.error as error:
            raise LabError(f"--only {self.options.only!r} is not a regular expression: {error}") from error
        wanted = [case for case in cases if fits(title(case)) and self.peer(case) in (None, *named)]
        if not wanted:
            raise LabError(f"--only {self.options.only!r} fits no case; cases: {'; '.join(map(title, cases))}")
        return wanted

    def once(self, case, repetition):
        """One repetition of a case. A peer that fails is left out; quietus may not fail."""
        try:
            sample = self.bench.sample(*case)
        except FAILURES as error:
            if self.peer(case) is None:
                raise LabError(f"{title(case)}: {error}") from error
            self.failed = True
            self.leave_out(self.peer(case), f"failed in {title(case)}: {error}")
            return
        self.samples.setdefault(case, []).append(sample)
        self.keep(case, repetition, sample)

    def recall(self, wanted):
        """Takes the samples that earlier runs kept in the file --samples."""
        if self.options.samples and os.path.exists(self.options.samples):
            with open(self.options.samples) as file:
                for line in map(json.loads, file):
                    case = tuple(line.pop("case"))
                    if line.pop("benchmark") == self.name and case in wanted and self.peer(case) not in self.out:
                        del line["repetition"]
                        self.samples.setdefault(case, []).append(self.bench.Sample(**line))

    def keep(self, case, repetition, sample):
        """A sample as a line of JSON, where that is wanted."""
        line = json.dumps({"benchmark": self.name, "case": case, "repetition": repetition, **sample._asdict()})
        if self.options.json:
            print(line, flush=True)
        if self.options.samples:
            with open(self.options.samples, "a") as file:
                file.write(line + "\n")

    def publish(self):
        """The tables; no document gets those in which a peer has failed."""
        if not self.samples:
            raise LabError("nothing was measured")
        if self.options.json:
            return
        counts = sorted({len(found) for found in self.samples.values()})
        repetitions = " to ".join(map(str, sorted({counts[0], counts[-1]})))
        left_out = "".join(f"\n\nNot measured: {peer} ({why})." for peer, why in self.out.items())
        store = getattr(self.options, "store", "in-place")
        store = "" if store == "in-place" else f"-{store}"
        tell(self.options, f"bench-{self.name}{store}", self.bench.render(self.samples) + left_out,
             f"Medians of {repetitions} interleaved repetitions.{self.bench.note}", f"bench {self.name}", "" if self.failed else None)

    def status(self):
        """The exit status; says which bars are missed."""
        missed = list(self.bench.missed(self.samples))
        for what in missed:
            print(f"bar missed: {what}", file=sys.stderr)
        return 125 if self.failed else int(bool(missed) and (self.options.require or self.bench.fails_always))


def title(case):
    """A case in words."""
    return ", ".join(filter(None, case))


def progress(done, total, seconds, what):
    """Prints the progress and the time left; one line on a terminal, else one a case."""
    left = f"{seconds / done * (total - done):.0f} s left" if done else "begins"
    begin, end = ("\r\033[K", "") if sys.stderr.isatty() else ("", "\n" if not what.endswith("\n") else "")
    print(f"{begin}{done}/{total}, {left}: {what}", end=end, file=sys.stderr, flush=True)


def medians(samples, *figures):
    """The medians of some figures over the samples of one case."""
    return [median([getattr(it, figure) for it in samples]) for figure in figures]


def ratio(samples, case, base, figure):
    """How a case's median compares with that of another case; None where one was not measured."""
    if not samples.get(case) or not samples.get(base):
        return None
    (ours,), (theirs,) = medians(samples[case], figure), medians(samples[base], figure)
    return ours / theirs if theirs else None


def in_times(found):
    """A ratio in words."""
    return "-" if found is None else f"{found:.2f}"


def arguments(name, words):
    """The benchmark's class, and its options."""
    module = importlib.import_module(f"{__name__}.{name}")
    bench = module.Bench
    parser = command(module.__doc__, f"bench-{name}", prog=f"bench {name}")
    for option in filter(bench.defaults.__contains__, SHARED):
        choices = {"choices": sorted(bench.stores)} if option == "store" else {}
        parser.add_argument(f"--{option}", **choices, **SHARED[option])
    if "fs" in bench.defaults:
        add_file_systems(parser, bench.defaults["fs"], several=True)
    bench.add_arguments(parser)
    parser.add_argument("--peers", metavar="NAMES", help="peers to compare with, or `none` (default: all that are installed)")
    parser.add_argument("--only", metavar="PATTERN", default="", help="cases that the regular expression fits (default: %(default)r)")
    parser.add_argument("--short", action="store_true", help="so small that the run only shows that all works")
    parser.add_argument("--binary", metavar="FILE", help="the quietus to measure (default: $QUIETUS, or the release build)")
    parser.add_argument("--json", action="store_true", help="one JSON object a sample, in place of the tables")
    parser.add_argument("--samples", metavar="FILE", help="add the samples to FILE, and count those of earlier runs there")
    parser.add_argument("--require", action="store_true", help="fail when a bar is missed")
    parser.set_defaults(**bench.defaults)
    options = parser.parse_args(words)
    if options.short:
        parser.set_defaults(**bench.short)
        options = parser.parse_args(words)
    return bench, options


def run(name, words):
    """Measures, and tells; the exit status."""
    bench, options = arguments(name, words)
    if options.binary:
        os.environ["QUIETUS"] = os.path.abspath(options.binary)
    with Workspace(options.dir) as work:
        this = Run(bench(options, work), name, options)
        this.measure()
    this.publish()
    return this.status()


def summaries():
    """Each benchmark's name, and what it measures."""
    return [(name, importlib.import_module(f"{__name__}.{name}").__doc__.splitlines()[0]) for name in NAMES]
