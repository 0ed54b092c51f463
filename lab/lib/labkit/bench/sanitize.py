"""sanitization of a vault: its time by the amount forgotten, beside the medium's speed, and beside puts

Figures 5 to 7 of Botelho and others (FAST 2013), much smaller, with containers of 256 KiB. A tree of files of 64 KiB, which compression halves,
is put once (*unique*), or eight times with 1.2 % of the files replaced each time (*deduplicated*, by a factor of 7.38). Of a copy of that vault, none
to all quarters of the files are forgotten in all snapshots, and it is sanitized with one pass. The files of a quarter lie side by side; those of
*scattered*, half of all, lie among the others, so that nearly every container is copied out of. *Copied* and *destroyed* are bytes of chunks that were live beside dead ones, and of containers that were overwritten. The phases are those of the receipt, without pauses.

*Medium* is what the medium needs for the same bytes, measured in the same repetition: a file copied through the host's cache with a final
fdatasync, and overwritten around the cache, in pieces of 1 MiB. *Space* is how long the file system takes to give back the space of what was overwritten, as
a vault in a file does too: on some hosts each hole is a discard for which it waits. The bar does not count that.

*beside puts*: all quarters are forgotten, and trees of an eighth of the size are put one after another until a sanitization with `--share 50%` ends: of new files,
or of a tree of which 1.2 % are replaced before each put. *put alone* is the same without a sanitization.

The bars: the sanitization takes no more than the medium / 0.8, where anything is forgotten; it forgets 0.95 x 7.38 times as many bytes a second as
without deduplication; beside puts, it and they are at least 0.7 times as fast as alone.
"""

import json
import os
import random
import shutil
import subprocess
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..backups import MIB, Vault
from ..epochs import seconds as instant
from ..measure import seconds_of, table
from ..servers import parse_size
from . import Benchmark, medians

QUARTERS, GENERATIONS = 4, {"unique": 1, "deduplicated": 8}
FACTOR = 7.38
EDITS = (GENERATIONS["deduplicated"] / FACTOR - 1) / (GENERATIONS["deduplicated"] - 1)
CONTAINER = 256 << 10
# Bytes of a file, and the random ones in each KiB.
FILE, RANDOM = 64 << 10, 480
SHARE_MIN, FACTOR_MIN, BESIDE_MIN = 0.8, 0.95, 0.7
ALONE, BESIDE, SCATTERED = "put alone", "beside puts", "scattered"
# The files that *scattered* forgets: those of numbers with an even tens digit.
SCATTERED_GLOB = "**/*[02468][0-9]"
# Trees that are put alone, and those that are made of new files before anything is measured.
PUTS_MIN, TREES = 4, 12
PHASES = ["merging the index", "analysing", "marking what is live", "judging containers", "copying what is live", "merging the index again", "overwriting"]


class Small(Vault):
    def init(self):
        return [*super().init(), "--container", str(CONTAINER)]


class Bench(Benchmark):
    """A case is (kind, quarters forgotten, or `SCATTERED`, `ALONE` or `BESIDE`)."""

    Sample = namedtuple("Sample", "seconds logical_mib copied_mib destroyed_mib medium_seconds space_seconds put_mib_s phases_ms")
    defaults = {"size": "512M", "repetitions": 3}
    short = {"size": "32M", "repetitions": 1}
    programs = ("cp", "dd", "fallocate")

    def __init__(self, options, work):
        super().__init__(options, work)
        self.made, self.rng, self.size = {}, random.Random(1), parse_size(options.size)

    def cases(self):
        return [(kind, what) for kind in GENERATIONS for what in [*map(str, range(QUARTERS + 1)), SCATTERED, ALONE, BESIDE]]

    def sample(self, kind, what):
        first = self.made.get(kind) or self.made.setdefault(kind, self.make(kind))
        vault = first.copied(self.work.file(self.next_name()))
        trees = Trees(self, kind) if what in (ALONE, BESIDE) else None
        try:
            return self.put_alone(vault, trees) if what == ALONE else self.sanitized(kind, what, vault, trees)
        finally:
            for path in filter(os.path.exists, [vault.path, *([trees.path] if trees else [])]):
                shutil.rmtree(path)

    def put_alone(self, vault, trees):
        os.sync()
        return self.Sample(0, 0, 0, 0, 0, 0, trees.put(vault, lambda: trees.done < PUTS_MIN), [0] * len(PHASES))

    def sanitized(self, kind, what, vault, trees):
        count = {SCATTERED: QUARTERS // 2, BESIDE: QUARTERS}.get(what) or int(what)
        for glob in [SCATTERED_GLOB] if what == SCATTERED else [f"**/{quarter}-*" for quarter in range(count)]:
            vault.run("forget", "--path", glob)
        os.sync()
        # It stays after its end for those that use the vault through it: what tells of the end is the receipt.
        path = self.work.file(f"{self.next_name()}-receipt")
        share = ["--share", "50%"] if trees else []
        with ThreadPoolExecutor() as pool:
            run = pool.submit(vault.run, "sanitize", "--output", path, *share)
            while trees and not run.done() and not os.path.exists(os.path.join(vault.path, "vault.sock")):
                time.sleep(0.001)
            put = trees.put(vault, lambda: not run.done() and not os.path.exists(path)) if trees else 0
            run.result()
        receipt = json.loads(Path(path).read_text())["statement"]
        seconds = instant(receipt["to"]) - instant(receipt["from"])
        copied, destroyed = receipt["copied_bytes"], receipt["destroyed_containers"] * CONTAINER
        logical = count * GENERATIONS[kind] * self.size / QUARTERS
        took = {it["phase"]: it["us"] / 1000 for it in receipt["phases"]}
        medium, space = (0, 0) if trees else self.medium_seconds(copied, destroyed)
        return self.Sample(seconds, logical / MIB, copied / MIB, destroyed / MIB, medium, space, put, [took.get(phase, 0) for phase in PHASES])

    def make(self, kind):
        vault = Small(self.work.file(f"{kind}-vault"), self.work.file("home"))
        tree = self.work.directory(f"{kind}-tree")
        files = self.size // FILE
        for generation in range(GENERATIONS[kind]):
            write(tree, range(files) if generation == 0 else self.rng.sample(range(files), round(files * EDITS)))
            vault.put(tree)
        shutil.rmtree(tree)
        return vault

    def medium_seconds(self, copied, destroyed):
        """How long the medium takes to copy and to overwrite as many bytes, and the file system to give back the space of the latter."""
        source, target = self.work.file("medium"), self.work.file("copy")
        seconds = space = 0
        length = max(copied, destroyed) // MIB
        if length:
            subprocess.run(["dd", "if=/dev/urandom", f"of={source}", "bs=1M", f"count={length}", "conv=fsync", "status=none"], check=True)
            if copied >= MIB:
                seconds += dd(f"if={source}", f"of={target}", f"count={copied // MIB}", "conv=fdatasync")
            if destroyed >= MIB:
                seconds += dd("if=/dev/zero", f"of={source}", f"count={destroyed // MIB}", "oflag=direct", "conv=notrunc,fdatasync")
                space = seconds_of("fallocate", "--punch-hole", "--length", f"{destroyed // MIB}MiB", source)
            for path in filter(os.path.exists, (source, target)):
                os.unlink(path)
        return seconds, space

    def render(self, samples):
        boost = self.boost(samples)
        said = f"Boost by deduplication, all forgotten: {boost:.2f} of a factor of {FACTOR}." if boost else ""
        return "\n\n".join(filter(None, [self.alone(samples), said, self.by_phase(samples), self.beside(samples)]))

    def alone(self, samples):
        """The table of sanitizations without puts."""
        rows = []
        for (kind, what), found in samples.items():
            if what not in (ALONE, BESIDE):
                seconds, logical, copied, destroyed, medium, space = medians(found, *self.Sample._fields[:6])
                rows.append([kind, self.forgotten(what), f"{logical:,.0f} MiB", f"{seconds:.2f} s", f"{copied:,.0f} MiB", f"{destroyed:,.0f} MiB",
                             f"{medium:.2f} s", f"{space:.2f} s", f"{medium / seconds:.0%}" if medium else "-",
                             f"{(medium + space) / seconds:.0%}" if medium else "-", f"{logical / seconds:,.0f} MiB/s"])
        return table(["content", "quarters forgotten", "logical", "sanitized in", "copied", "destroyed", "medium", "space", "medium / sanitized",
                      "with space", "forgotten a second"], rows) if rows else ""

    def by_phase(self, samples):
        """The table of phases, in milliseconds."""
        rows = []
        for (kind, what), found in samples.items():
            if what != ALONE:
                middle = sorted(found, key=lambda it: it.seconds)[len(found) // 2]
                rows.append([kind, self.forgotten(what), *(f"{ms:,.1f}" for ms in middle.phases_ms)])
        return table(["phases, ms", "forgotten", *PHASES], rows) if rows else ""

    @staticmethod
    def forgotten(what):
        """How much a case forgets, in words."""
        return f"{what} of {QUARTERS}" if what.isdigit() else what

    def beside(self, samples):
        """The table of sanitizations beside puts."""
        rows = []
        for kind in GENERATIONS:
            if shares := self.shares(samples, kind):
                (seconds, put), (alone,) = medians(samples[kind, BESIDE], "seconds", "put_mib_s"), medians(samples[kind, ALONE], "put_mib_s")
                rows.append([kind, f"{seconds:.2f} s", f"{shares[0]:.0%}", f"{alone:,.0f} MiB/s", f"{put:,.0f} MiB/s", f"{shares[1]:.0%}"])
        return table([f"`--share 50%` {BESIDE}", "sanitized in", "speed of the sanitization alone", ALONE, BESIDE, "speed of puts alone"], rows) if rows else ""

    @staticmethod
    def shares(samples, kind):
        """Which share of their own speed a sanitization and puts have beside each other; None if not all was measured."""
        all_of = [samples.get((kind, what)) for what in (str(QUARTERS), ALONE, BESIDE)]
        if not all(all_of):
            return None
        (alone,), (put,), (seconds, beside) = medians(all_of[0], "seconds"), medians(all_of[1], "put_mib_s"), medians(all_of[2], "seconds", "put_mib_s")
        return alone / seconds, beside / put

    @staticmethod
    def boost(samples):
        """How many times as many logical bytes a second are forgotten with deduplication; None if that was not measured."""
        rates = []
        for kind in ("deduplicated", "unique"):
            found = samples.get((kind, str(QUARTERS)))
            if not found:
                return None
            seconds, logical = medians(found, "seconds", "logical_mib")
            rates.append(logical / seconds)
        return rates[0] / rates[1]

    def missed(self, samples):
        for (kind, what), found in samples.items():
            seconds, medium = medians(found, "seconds", "medium_seconds")
            if medium and medium < SHARE_MIN * seconds:
                yield f"{kind}, {self.forgotten(what)}: {medium / seconds:.0%} of the medium's bandwidth"
        boost = self.boost(samples)
        if boost and boost < FACTOR_MIN * FACTOR:
            yield f"deduplication makes it {boost:.2f} times as fast, not {FACTOR_MIN * FACTOR:.2f}"
        for kind in GENERATIONS:
            for side, share in zip(("the sanitization", "puts"), self.shares(samples, kind) or ()):
                if share < BESIDE_MIN:
                    yield f"{kind}: {side} at {share:.0%} of the speed alone"


class Trees:
    """Trees to put: each of new files, or one that changes."""

    def __init__(self, bench, kind):
        self.path, self.kind, self.rng = bench.work.directory(f"{bench.next_name()}-trees"), kind, random.Random(2)
        self.files = max(bench.size // 8 // FILE, 1)
        for number in range(TREES if kind == "unique" else 1):
            write(self.folder(number), range(self.files))
        self.done = 0

    def folder(self, number):
        return os.path.join(self.path, str(number))

    def next(self):
        number = self.done
        self.done += 1
        if self.kind == "unique":
            if number >= TREES:
                write(self.folder(number), range(self.files))
            return self.folder(number)
        if number:
            write(self.folder(0), self.rng.sample(range(self.files), max(round(self.files * EDITS), 1)))
        return self.folder(0)

    def put(self, vault, goes_on):
        """Puts trees as long as it goes on, one at least: MiB a second."""
        seconds = vault.put(self.next()).seconds
        while goes_on():
            seconds += vault.put(self.next()).seconds
        return self.done * self.files * FILE / MIB / seconds


def write(folder, numbers):
    """Writes these files anew; quarter by quarter in turns."""
    os.makedirs(folder, exist_ok=True)
    for number in numbers:
        Path(folder, f"{number % QUARTERS}-{number}").write_bytes(content(FILE))


def content(length):
    """Bytes that are nowhere else, of which about half can be compressed away."""
    return b"".join(os.urandom(RANDOM) + bytes(1024 - RANDOM) for _ in range(length // 1024))


def dd(*words):
    """Seconds of one dd in pieces of 1 MiB."""
    return seconds_of("dd", "bs=1M", "status=none", *words)
