"""months of epochs below a real ext4, and what it costs to forget some (figure 6 of the paper of 2005)

A guest plays months of a file server's life: at scale 1 the paper's totals, 81,674 files and 4.2 GB. Each second with a
change ends with a sync, whose flushes close an epoch each. After each quarter of the time one epoch from the middle of
those that are kept is forgotten: the time must not grow with the number of versions. In the end a day, one part in 120 of
all epochs, expires from the middle. *Unique* is the share of its changed bytes that only the epoch itself shows: of a
thousand epochs from the middle on. *Metadata* is all files of the disk but the data, less the journal, by what is stored.
Pages are the places of 4 KiB of the stub medium that a pass wrote to; of `none` the blocks themselves.

The bars: a day expires with no more than one page written a pass for 4 dead blocks; 20 times fewer pages than by overwriting.
"""

import os
import time
from collections import namedtuple

from ..guest import Guest
from ..measure import allocated_bytes, table
from ..servers import OFF, ROOT, Versions
from . import Benchmark, medians, ratio
from .forget import BLOCK, changed, pages_of, passed_bytes

MONTHS = os.path.join(ROOT, "lab", "lib", "months")
FILES, BYTES, DAYS, PARTS = 81_674, 4_200_000_000, 120, 4
BLOCKS_A_PAGE_MIN, PAGES_FEWER_MIN = 4, 20
NOT_INDEX = ("data", "journal", "audit.jsonl")


class Bench(Benchmark):
    """A case is (seal)."""

    Sample = namedtuple("Sample", ["epochs", "stored", "metadata", "unique", *(f"epochs{part}" for part in range(1, PARTS + 1)),
                                   *(f"ms{part}" for part in range(1, PARTS + 1)),
                                   "day_blocks", "day_bytes", "day_pages", "day_ms"])
    defaults = {"repetitions": 1}
    short = {"scale": 0.002, "seals": "random-key"}
    programs = ("mke2fs",)

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--scale", type=float, default=0.05, help="of the paper's files and bytes (default %(default)g)")
        parser.add_argument("--seals", default="none,random-key,aon", help="default %(default)s")
        parser.set_defaults(size="64M")  # of no use: the scale says it

    def cases(self):
        return [(seal,) for seal in self.options.seals.split(",")]

    def sample(self, seal):
        files, length = round(FILES * self.options.scale), round(BYTES * self.options.scale)
        size = (2 * length + (256 << 20)) >> 20 << 20
        server = self.server(Versions, ["--epoch", "flush", "--idle-after", "1ms"], OFF, size=size, seal=seal)
        guest = Guest(self.work, server.uri, "ext4", seconds_max=6 * 3600)
        guest.must(["true"], "--mkfs", f"-b 4096 -N {files + files // 4 + 1000} -E lazy_itable_init=0")
        forgets = []
        guest.converse([MONTHS, str(files), str(length), "--parts", str(PARTS)], {"part": lambda: forgets.append(forget_one(server))})
        kept = every(server)
        day = kept[len(kept) // 2:][:max(len(kept) // DAYS, 1)]
        status = server.tool("status")["store"]
        metadata = sum(allocated_bytes(os.path.join(server.disk, name)) for name in os.listdir(server.disk) if name not in NOT_INDEX)
        found = self.Sample(len(kept), status["stored_bytes"], metadata, unique_share(server, kept),
                            *(count for count, _ in forgets), *(ms for _, ms in forgets), *forget_day(server, seal, day))
        server.remove()
        return found

    def render(self, samples):
        rows = []
        for (seal,), found in samples.items():
            epochs, stored, metadata, unique = medians(found, "epochs", "stored", "metadata", "unique")
            flat = "; ".join(f"{count:,.0f}: {ms:.0f} ms" for count, ms in zip(medians(found, *self.Sample._fields[4:8]),
                                                                               medians(found, *self.Sample._fields[8:12])))
            blocks, count, pages, ms = medians(found, "day_blocks", "day_bytes", "day_pages", "day_ms")
            rows.append([seal, f"{epochs:,.0f}", f"{stored / (1 << 20):,.0f} MiB", f"{metadata / stored:.2%}", f"{unique:.1%}", flat,
                         f"{blocks:,.0f}", f"{count:,.0f}", f"{pages:,.0f}", f"{ms:,.0f} ms"])
        return table(["seal", "epochs", "stored", "metadata", "unique", "epochs kept: one forgotten in", "a day: dead blocks",
                      "bytes destroyed", "pages", "time"], rows)

    def missed(self, samples):
        for (seal,), found in samples.items():
            blocks, pages = medians(found, "day_blocks", "day_pages")
            if seal != "none" and pages * BLOCKS_A_PAGE_MIN > blocks:
                yield f"{seal}: a day of {blocks:,.0f} dead blocks expires with {pages:,.0f} pages"
            fewer = ratio(samples, ("none",), (seal,), "day_pages")
            if seal != "none" and fewer and fewer < PAGES_FEWER_MIN:
                yield f"{seal}: {fewer:.1f} times fewer pages than by overwriting"


def every(server):
    """The numbers of all kept epochs."""
    return [it["epoch"] for it in server.kept()]


def forget_one(server):
    """Forgets the epoch in the middle; how many were kept, and milliseconds."""
    kept = every(server)
    started = time.monotonic()
    server.forget(kept[len(kept) // 2])
    return len(kept), (time.monotonic() - started) * 1000


def forget_day(server, seal, day):
    """Forgets these epochs: blocks that died, bytes that passes wrote, pages of the medium that they changed, milliseconds."""
    server.tool("shred", "--now")
    blocks = server.weigh(f"{day[0]}..{day[-1]}")["dies_blocks"]
    before, passed = pages_of(server.stubs), passed_bytes(server)
    started = time.monotonic()
    server.forget(f"{day[0]}..{day[-1]}")
    ms, passed = (time.monotonic() - started) * 1000, passed_bytes(server) - passed
    return blocks, passed, blocks if seal == "none" else changed(before, server.stubs), ms


def unique_share(server, kept):
    """Of what epochs from the middle on changed, the share that only they show."""
    found = server.tool("versions", "--unique", "--from", str(kept[len(kept) // 2]))["versions"]
    changed_bytes = sum(it["changed_bytes"] for it in found)
    return sum(it["unique_bytes"] for it in found) / changed_bytes if changed_bytes else 0
