"""what it costs to know of deaths, and to destroy: time below a guest, beside the paper's

After "Life or Death at Block-Level", section 7.7, tables 10 and 11. Workloads in a guest:

- PostMark: --files files in one directory and as many transactions, its other settings as they come
  (0.5 to 9.77 KiB a file, half reads and appends, half creates and deletes), then all files deleted,
  then sync;
- a busy hour, made up: --operations operations of the lab's workload, one after the other: 50 % mail
  (42 % deliveries of 0.5 to 32 KiB, 13 % appends, 4 % each of renames and links, 3 % truncations, the
  rest deletions, in 16 folders), 20 % lines of logs with rotation, 20 % a database (58 % overwrites of
  4 to 16 KiB in place, appends, truncations, temporary files), 10 % steps of a build; a sync every 400
  operations;
- small files, the worst that metadata can do: --small-files files of 512 bytes are made in 100
  directories, synced, and deleted.

Each on a fresh disk, without detection, and with 1, 2, 4 and 6 passes. *Implicit*: the server infers.
*Explicit*: the guest has mounted with discard, and the server is told; the ext2 driver cannot, so the
ext4 driver mounts the same image. Nothing is destroyed before the guest has unmounted; then `shred
--now` is timed, and "with overwrites" is both together.

The bar: 2 % of PostMark's time, 5 % of that of small files.
"""

import os
from collections import namedtuple
from itertools import product

from .. import workloads
from ..guest import Guest
from ..measure import elapsed, table
from ..options import add_more_options
from ..servers import NEVER, OFF, STORES
from . import Benchmark, medians, ratio

# The paper's tables 10 and 11, in seconds, by workload and system.
PAPER = {("PostMark", "implicit"): {"none": (166.8, 166.8), "2": (177.7, 466.6), "4": (178.4, 626.4), "6": (179.0, 789.3)},
         ("busy hour", "implicit"): {"none": (200.0, 200.0), "2": (209.6, 302.8), "4": (209.0, 345.6), "6": (209.3, 394.3)},
         ("busy hour", "explicit"): {"none": (195.0, 195.0), "2": (195.5, 280.0), "4": (196.8, 316.2), "6": (196.4, 346.1)}}
COST_MAX = {"PostMark": 0.02, "small files": 0.05}


class Bench(Benchmark):
    """A case is (file system, workload, way, passes or none)."""

    # Seconds, seconds of `shred --now`, the server's processor time.
    Sample = namedtuple("Sample", "took shred cpu_ms")
    defaults = {"store": "in-place", "size": "1G", "fs": "ext2", "block": 4096, "repetitions": 3}
    short = {"size": "128M", "files": 300, "operations": 300, "small_files": 1000, "repetitions": 1, "only": "none|1$"}

    def __init__(self, options, work):
        super().__init__(options, work)
        self.workloads = workloads.Workloads(options, work)

    @staticmethod
    def add_arguments(parser):
        workloads.add_arguments(parser)
        add_more_options(parser, "serve")

    def cases(self):
        return list(product(self.known, workloads.NAMES, ["implicit", "explicit"], ["none", *workloads.POLICIES]))

    def needs(self, case):
        return workloads.PROGRAMS.get(case[1], ())

    def sample(self, title, workload, way, passes):
        infers = way == "implicit" and passes != "none"
        server = self.server(STORES[self.options.store], ["--policy", workloads.POLICIES.get(passes, "clear"), *NEVER],
                             self.options.serve if infers else OFF)
        fs = self.known[title]
        self.workloads.make(fs, server.uri)
        told = ["discard"] if way == "explicit" and passes != "none" else []
        driver = "ext4" if way == "explicit" and fs.name == "ext2" else fs.driver
        guest = Guest(self.work, server.uri, driver, fs.mount(*told))
        os.sync()
        before = server.cpu_ms()
        took = self.workloads.run(guest, workload)
        cpu_ms = server.cpu_ms() - before
        shred = elapsed(lambda: server.tool("shred", "--now")) if passes != "none" else 0
        server.remove()
        return self.Sample(took, shred, cpu_ms)

    def render(self, samples):
        return running_times(samples)

    def missed(self, samples):
        for fs, workload, way, passes in samples:
            took = ratio(samples, (fs, workload, way, passes), (fs, workload, way, "none"), "took")
            if way == "implicit" and took and took - 1 > COST_MAX.get(workload, took):
                yield f"{fs}, {workload}, {passes} passes: detection costs {took - 1:.1%} of the time"


def system(fs, way, passes):
    """How deaths are known, in words."""
    driver = " (ext4's driver)" if (fs, way) == ("ext2", "explicit") else ""
    return f"none{driver}" if passes == "none" else f"{way}, {passes} passes"


def running_times(samples):
    """Tables 10 and 11."""
    rows = []
    for (fs, workload, way, passes), found in samples.items():
        took, shred, cpu_ms = medians(found, "took", "shred", "cpu_ms")
        more = ratio(samples, (fs, workload, way, passes), (fs, workload, way, "none"), "took")
        paper = PAPER.get((workload, way), {}).get(passes) if fs == "ext2" else None
        rows.append([fs, workload, system(fs, way, passes), f"{took:.1f} s" + (f" ({more - 1:+.1%})" if more else ""),
                     f"{took + shred:.1f} s", f"{cpu_ms / 1000:.2f} s", f"{paper[0]} s, {paper[1]} s" if paper else ""])
    return table(["file system", "workload", "detection", "foreground", "with overwrites", "server's CPU",
                  "the paper's (foreground, with overwrites)"], rows)
