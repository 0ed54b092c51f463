"""`vault forget --path` across many snapshots, beside one enumeration of them

A tree of small files, a hundred to a folder, is put again and again; before each put a few files change, in folders that are drawn. Then one path is
forgotten in all snapshots, and the vault is sanitized. *Enumeration* is what the sanitization takes to mark what is live: it reads the metadata of all
snapshots, each chunk once. The time of the forget is that of the whole command.

The bar: a forget takes no more than two enumerations.
"""

import json
import os
import random
import shutil
from collections import namedtuple
from pathlib import Path

from ..backups import MIB, Vault
from ..measure import allocated_bytes, table
from ..workspace import LabError
from . import Benchmark, medians

A_FOLDER, FOLDERS_A_FOLDER, CHANGED = 100, 100, 20
PATHS = {"one file": "**/000742", "a folder": "**/000011", "every tenth file": "**/*3"}
ENUMERATIONS_MAX = 2


class Bench(Benchmark):
    """A case is (what is forgotten)."""

    Sample = namedtuple("Sample", "forget_seconds forget_cpu forget_mib forgotten enumeration_seconds put_seconds stored_mib")
    defaults = {"repetitions": 1, "files": 100_000, "snapshots": 300}
    short = {"files": 1500, "snapshots": 4}
    programs = ("cp",)

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--files", type=int, help="of the tree (default %(default)s)")
        parser.add_argument("--snapshots", type=int, help="of the tree (default %(default)s)")

    def __init__(self, options, work):
        super().__init__(options, work)
        self.made, self.put_seconds = None, 0

    def cases(self):
        return [(what,) for what in PATHS]

    def sample(self, what):
        first = self.made = self.made or self.make()
        vault = first.copied(self.work.file(self.next_name()))
        said, cost = vault.run("forget", "--path", PATHS[what])
        forgotten = json.loads(said)
        if len(forgotten["snapshots"]) != self.options.snapshots:
            raise LabError(f"{PATHS[what]} is in {len(forgotten['snapshots'])} snapshots")
        path = self.work.file(f"{self.next_name()}-receipt")
        vault.run("sanitize", "--output", path)
        phases = json.loads(Path(path).read_text())["statement"]["phases"]
        enumeration = next(it["us"] for it in phases if it["phase"] == "marking what is live") / 1e6
        shutil.rmtree(vault.path)
        return self.Sample(cost.seconds, cost.cpu, cost.peak_mib, forgotten["files"], enumeration, self.put_seconds, allocated_bytes(first.path) / MIB)

    def make(self):
        tree, rng = self.work.directory("tree"), random.Random(1)
        vault = Vault(self.work.file("vault"), self.work.file("home"))
        for number in range(self.options.files):
            write(tree, number, 0)
        for generation in range(self.options.snapshots):
            if generation:
                for number in rng.sample(range(self.options.files), CHANGED):
                    write(tree, number, generation)
            self.put_seconds += vault.put(tree).seconds / self.options.snapshots
        return vault

    def render(self, samples):
        rows = []
        for (what,), found in samples.items():
            forget, cpu, peak, files, enumeration, put, size = medians(found, *self.Sample._fields)
            rows.append([what, f"{files:,.0f}", f"{forget:.2f} s", f"{cpu:.2f} s", f"{peak:,.0f} MiB", f"{enumeration:.2f} s",
                         f"{forget / enumeration:.2f}", f"{put:.2f} s", f"{size:,.0f} MiB"])
        return table(["forgotten", "entries, in all snapshots", "forget", "CPU", "memory", "enumeration", "forget / enumeration", "a put", "vault"], rows)

    def missed(self, samples):
        for (what,), found in samples.items():
            forget, enumeration = medians(found, "forget_seconds", "enumeration_seconds")
            if forget > ENUMERATIONS_MAX * enumeration:
                yield f"{what}: the forget takes {forget / enumeration:.2f} enumerations, not {ENUMERATIONS_MAX}"


def write(tree, number, generation):
    """A file of some bytes that are nowhere else."""
    folder = os.path.join(tree, f"{number // A_FOLDER // FOLDERS_A_FOLDER:02}", f"{number // A_FOLDER:06}")
    os.makedirs(folder, exist_ok=True)
    Path(folder, f"{number:06}").write_text(f"file {number} of generation {generation}\n" * 4)
