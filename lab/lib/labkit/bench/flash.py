"""what deletion costs on raw flash, in the time that a real chip would take: the paper's tables 3 and 4

After "TrueErase", section 7. PostMark's load in a guest (`lab/lib/postmark-guest`): --files files of 500 to 9,770 bytes and as many
transactions, with a sync after each --sync-every operations; none, 5 %, 10 % or all of the files get the mark of `chattr +s` as soon as they are
made, at random or in whole folders (*local*). What the guest asks of its disk is recorded: mkfs and a first round without marks, and then a
second round for each way of marking. With `--workload build`: --cycles times `make` and `make clean` of Lua, with a sync after each, in a folder of objects
that is marked or not.

The very same requests are then sent, one after the other, to disks on a file that stands for a chip and counts its operations, and the time that a
real chip would take (slc-2k: 25 us a read, 300 us a program, 2 ms an erase). The chip has 1.3 times as many bytes in pages as all media of the disk
together. Every byte of the disk is written once, then come mkfs and the first round, with a new start of the server behind each. Then the second round is
counted, a last `shred --now` and a flush with it. Once without detection, which is what all times are compared with; and with `--sensitive marked` and `shred
--now` after each commit of the guest's journal (*at once*), or after each eighth. Nothing is destroyed in between.

The bars stand in the table.
"""

import contextlib
import os
import shutil
import struct
import subprocess
import time
import tomllib
from collections import namedtuple
from functools import lru_cache
from itertools import product

from .. import wire
from ..bases import COMPILER, upstream_tree
from ..measure import table
from ..relay import Kept, Relay
from ..servers import MARKED, NEVER, OFF, ROOT, Nbdkit, Quietus, Sealed
from ..workspace import LabError
from . import Benchmark, in_times, medians, ratio

BUILD_GUEST, BUILD_FOLDER = os.path.join(ROOT, "lab", "lib", "build-guest"), "obj"
POSTMARK_GUEST = os.path.join(ROOT, "lab", "lib", "postmark-guest")
# Share of the files, and how they are chosen; `random` of all or nothing is both.
MARKS = {"nothing": (0, "random"), "5 % random": (5, "random"), "10 % random": (10, "random"), "all": (100, "random"),
         "5 % local": (5, "local"), "10 % local": (10, "local")}
BUILDS = {"nothing": [], "objects": ["LAB_MARK_OBJECTS=1"]}
STORES = {"in place": (Quietus, "copy and erase"), "sealed": (Sealed, "sealed")}
# Commits between two purges; None: nothing is deleted.
WAYS = {"off": None, "at once": 1, "every 8": 8}
SIDES = {"off": OFF, "marked": MARKED}
CHIP_BYTES = {"slc-2k": 2048 * 64, "mlc-16k": 16_384 * 512, "tlc-16k": 16_384 * 768}
PAGES_SHARE = 1.3
# Of which the bars are.
BAR_CHIP = "slc-2k"
COLUMNS = {"nothing": ("nothing",), "5 %": ("5 % random", "5 % local"), "10 %": ("10 % random", "10 % local"), "all": ("all",)}
BUILD_COLUMNS = {"nothing": ("nothing",), "objects": ("objects",)}
BARS = {
    ("in place", "at once"): (1.01, 1.6, 2.0, None), ("in place", "every 8"): (1.01, 1.35, 1.6, None),
    ("sealed", "at once"): (1.01, 1.08, 1.10, 1.28), ("sealed", "every 8"): (1.01, 1.04, 1.05, 1.17),
}
PAPER = {("in place", "at once"): ("1.03", "5.05-7.39", "7.27-10.7", ""), ("in place", "every 8"): ("", "3.42-5.54", "4.45-6.80", "")}
BUILD_BARS = {(store, way): (1.01, bar) for store, bar in (("in place", None), ("sealed", 1.1)) for way in ("at once", "every 8")}
BUILD_PAPER = {("in place", "at once"): ("", "2.70"), ("in place", "every 8"): ("", "1.59")}
# Of the request in a recording: command, flags, offset, length; the payload of a write follows.
HEAD = struct.Struct("<BBQI")
# A block of the guest's journal that ends a transaction: magic and type, as jbd2 has them.
COMMIT = struct.pack(">II", 0xC03B3998, 2)
# The counts of a chip file: reads, programs, erases, micros (`host::media::flash::file::head`).
COUNTS, COUNTS_AT = struct.Struct("<QQQQ"), 512
# Its head, its table of blocks, and the record of a run in a page (docs/formats/flash.md).
HEADER, TABLE_AT, ENTRY_BYTES = struct.Struct("<8x5I"), 4096, 16
RECORD, RECORD_MAGIC, RECORD_LISTS_AT = struct.Struct("<8s26xHH"), b"QFLASHR1", 40
FILL_BYTES = 1 << 20
# A server finds the file system meanwhile.
ATTACH_SECONDS = 3

Counts = namedtuple("Counts", "reads programs erases micros")


class Recorder(Relay):
    """A relay that keeps every request but reads in a file, in order."""

    def __init__(self, path, upstream, recording):
        super().__init__(path, upstream, 4096)
        self.recording = open(recording, "wb")

    def _note(self, request):
        if request.command not in (wire.READ, wire.DISCONNECT):
            self.recording.write(HEAD.pack(request.command, request.flags, request.offset, request.length) + request.payload)

    def close(self):
        self.check()
        self.recording.close()


def requests(recording):
    """The requests in a recording."""
    with open(recording, "rb") as file:
        while head := file.read(HEAD.size):
            command, flags, offset, length = HEAD.unpack(head)
            yield Kept(0, command, offset, length, file.read(length) if command == wire.WRITE else b"", flags)


class Commits:
    """Finds the requests with which a commit of the guest's journal is durable."""

    def __init__(self):
        self.is_written = False

    def ends_with(self, request):
        """Whether one is with that request."""
        if request.command == wire.WRITE:
            starts = range(0, len(request.payload), 4096)
            self.is_written |= any(request.payload.startswith(COMMIT, at) for at in starts)
        is_durable = request.command == wire.FLUSH or request.flags & wire.FUA
        ended = self.is_written and bool(is_durable)
        self.is_written &= not is_durable
        return ended


class Recordings:
    """What a guest asks of its disk: files, each made once."""

    def __init__(self, bench, fs):
        self.bench, self.fs, self.image, self.operations = bench, fs, bench.work.file("image"), 0
        self.made = self._record("made", self._make, is_kept=True)
        self.first = self._record("first", lambda uri: self._round(uri, "nothing"), is_kept=True)
        self.second = lru_cache(None)(lambda marks: self._record(f"second {marks}", lambda uri: self._round(uri, marks)))

    def _record(self, name, guest, is_kept=False):
        """The recording of what `guest` does to the disk in the image, which then `is_kept` as it is."""
        server = self.bench.server(Nbdkit)
        if os.path.exists(self.image):
            shutil.copyfile(self.image, server.medium)
        recorder = Recorder(os.path.join(server.directory, "relay.sock"), server.socket, self.bench.work.file(name))
        guest(recorder.uri)
        recorder.close()
        server.stop()
        if is_kept:
            os.rename(server.medium, self.image)
        server.remove()
        return self.bench.work.file(name)

    def _make(self, uri):
        eager = "-E nodiscard,lazy_itable_init=0,lazy_journal_init=0"
        tree = f"-d {upstream_tree('lua5.4')}" if self.bench.is_build else ""
        self.fs.make(self.bench.work, uri, more=f"-N {self.bench.options.files * 6 // 5} {eager} {tree}".strip())

    def _round(self, uri, marks):
        said = []
        self.fs.guest(self.bench.work, uri).must(self._command(marks), hear=said.append)
        found = [int(line.split()[1]) for line in said if line.startswith("operations ")]
        if not found and not self.bench.is_build:
            raise LabError(f"PostMark did not end: {said[-5:]}")
        self.operations = sum(found)

    def _command(self, marks):
        options = self.bench.options
        if self.bench.is_build:
            script = f'set -e; "$0" "$@"; rm -r {BUILD_FOLDER}; sync'
            return ["env", *BUILDS[marks], "sh", "-c", script, BUILD_GUEST, str(options.cycles), COMPILER]
        share, how = MARKS[marks]
        return [POSTMARK_GUEST, str(options.files), str(options.files), str(options.sync_every), str(share), how]


def on_chip(kind, chip, root_apart):
    """A kind of server whose disk fills a chip file of that kind. The root of a sealed disk lies on the chip, or apart in a file, whose
    writes are not counted."""
    class OnChip(kind):
        """The same on a chip."""

        def create(self, *words):
            self.chip = os.path.join(self.directory, "chip")
            if root_apart and kind is Sealed:
                words = (*words, "--root", os.path.join(self.directory, "root"))
            super().create(*words, "--medium", f"nand:{self.chip},chip={chip},blocks={self._blocks(*words)}")

        def _blocks(self, *words):
            """How many the chip needs: as a disk on one that is large enough says."""
            many = 4 * self.size // CHIP_BYTES[chip] + 64
            super().create(*words, "--medium", f"nand:{self.chip},chip={chip},blocks={many}")
            with open(os.path.join(self.disk, "disk.toml"), "rb") as file:
                logical = sum(tomllib.load(file)["flash"].values())
            shutil.rmtree(self.disk)
            os.unlink(self.chip)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.directory, "root"))
            return round(PAGES_SHARE * logical / CHIP_BYTES[chip])

        def counts(self):
            """What the chip has counted until its last sync."""
            with open(self.chip, "rb") as file:
                file.seek(COUNTS_AT)
                return Counts(*COUNTS.unpack(file.read(COUNTS.size)))

        def newest_run(self):
            """The highest sequence of a run on the chip: each run that is programmed ends with a record, and has the next one."""
            newest = 0
            with open(self.chip, "rb") as file:
                _, page, spare, block_pages, blocks = HEADER.unpack(file.read(HEADER.size))
                first = -(-(TABLE_AT + ENTRY_BYTES * blocks) // 4096) * 4096
                for at in range(first, first + blocks * block_pages * (page + spare), page + spare):
                    file.seek(at)
                    magic, listed, gaps = RECORD.unpack(file.read(RECORD.size))
                    if magic == RECORD_MAGIC:
                        file.seek(at + RECORD_LISTS_AT + 4 * listed + 16 * gaps)
                        newest = max(newest, int.from_bytes(file.read(8), "little"))
            return newest
    return OnChip


class Steady:
    """A disk on a chip that was filled and has had the first round: a directory, from which copies are served."""

    def __init__(self, bench, recordings, chip, store, side):
        kind = on_chip(STORES[store][0], chip, bench.options.root == "apart")
        grade = ["--grade", bench.options.grade] if side == "marked" else []
        self.server = bench.server(kind, NEVER, [*SIDES[side], *grade])
        self.kept = f"{self.server.directory}.kept"
        self._fill()
        self._replay(recordings.made)
        # The server has to find the new file system unmounted before it follows marks.
        self._started()
        self._replay(recordings.first)
        os.rename(self.server.directory, self.kept)

    def _fill(self):
        client, size = wire.Client(self.server.socket, timeout=600), self.server.size
        lengths = ((at, min(FILL_BYTES, size - at)) for at in range(0, size, FILL_BYTES))
        client.many((wire.WRITE, at, length, os.urandom(length)) for at, length in lengths)
        client.close()

    def _replay(self, recording):
        """Sends the recording, and stops the server."""
        client = wire.Client(self.server.socket, timeout=600)
        Replay(self.server, client, None).run(recording)
        client.close()
        self.server.stop()

    def _started(self):
        self.server.start()
        time.sleep(ATTACH_SECONDS)
        return self.server

    def served(self):
        """A server of a copy, once it has found the file system."""
        shutil.rmtree(self.server.directory, ignore_errors=True)
        subprocess.run(["cp", "-a", "--sparse=always", self.kept, self.server.directory], check=True)
        return self._started()


class Bench(Benchmark):
    """A case is (kind of chip, store, what is marked, way)."""

    # Counted in the round; bytes that the guest wrote, and that were destroyed.
    Sample = namedtuple("Sample", "reads programs erases micros records purges commits flushes written destroyed operations")
    defaults = {"size": "128M", "fs": "ext4", "block": 4096, "repetitions": 1, "files": 10000}
    short = {"size": "34M", "files": 500, "sync_every": 100}
    programs = ("nbdkit",)

    def __init__(self, options, work):
        super().__init__(options, work)
        self.is_build = options.workload == "build"
        self.columns, self.bars, self.paper = (BUILD_COLUMNS, BUILD_BARS, BUILD_PAPER) if self.is_build else (COLUMNS, BARS, PAPER)
        self.recordings = lru_cache(None)(lambda: Recordings(self, next(iter(self.known.values()))))
        self.steady = lru_cache(None)(lambda *case: Steady(self, self.recordings(), *case))

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--files", type=int, help="PostMark's files and transactions (default %(default)s)")
        parser.add_argument("--sync-every", type=int, default=300, help="operations from one sync to the next (default %(default)s)")
        parser.add_argument("--workload", choices=["PostMark", "build"], default="PostMark", help="default %(default)s")
        parser.add_argument("--cycles", type=int, default=5, help="of the build (default %(default)s)")
        parser.add_argument("--root", choices=["chip", "apart"], default="chip",
                            help="where the root of sealed disks lies; apart: in a file, whose writes are not counted (default %(default)s)")
        parser.add_argument("--grade", choices=["block", "content"], default="block",
                            help="content: metadata that names a marked file dies with each overwrite, too (default %(default)s)")
        parser.add_argument("--chips", default="slc-2k", help=f"some of {','.join(CHIP_BYTES)} (default %(default)s)")

    def cases(self):
        marks = BUILDS if self.is_build else MARKS
        return [(chip, store, of, way) for chip, of, store, way in product(self.options.chips.split(","), marks, STORES, WAYS)]

    def needs(self, case):
        return [*self.programs, *(["make", COMPILER] if self.is_build else [])]

    def sample(self, chip, store, marks, way):
        recording, side = self.recordings().second(marks), "off" if way == "off" else "marked"
        server = self.steady(chip, store, side).served()
        client = wire.Client(server.socket, timeout=600)
        client.call(wire.FLUSH, 0, 0)
        destroyed = destroyed_bytes(server)
        found = Replay(server, client, WAYS[way]).run(recording)
        destroyed = destroyed_bytes(server) - destroyed
        client.close()
        server.stop()
        return self.Sample(**found, destroyed=destroyed, operations=self.recordings().operations)

    def render(self, samples):
        ways = product(self.options.chips.split(","), STORES, list(WAYS)[1:])
        rows = [[chip, f"{STORES[store][1]}, {way}", *self.overheads(samples, chip, store, way)] for chip, store, way in ways]
        return "\n\n".join([table(["chip", "deletion", *self.columns], rows), operations(samples)])

    def overheads(self, samples, chip, store, way):
        """How many times as long as without deletion, for each share of marks."""
        cells = []
        papers = self.paper.get((store, way), ("",) * len(self.columns))
        for names, bar, paper in zip(self.columns.values(), self.bars[store, way], papers):
            figures = ", ".join(" ".join([in_times(cost(samples, chip, store, name, way)), name.partition(" % ")[2]]).strip() for name in names)
            beside = "; ".join(filter(None, [f"bar {bar:.2f}" if bar and chip == BAR_CHIP else "", f"paper {paper}" if paper else ""]))
            cells.append(f"{figures} ({beside})" if beside else figures)
        return cells

    def missed(self, samples):
        for chip, store, marks, way in samples:
            bars = zip(self.columns.values(), self.bars.get((store, way), ()))
            bar = next((bar for names, bar in bars if marks in names), None)
            found = cost(samples, chip, store, marks, way)
            if chip == BAR_CHIP and bar and found and found > bar:
                yield f"{STORES[store][1]}, {way}, {marks}: {found:.3f} times the time without deletion (bar {bar})"


class Replay:
    """A recording that is sent to a server, with purges."""

    def __init__(self, server, client, commits_a_purge):
        self.server, self.client, self.commits_a_purge = server, client, commits_a_purge
        self.purges = 0

    def run(self, recording):
        """The figures of a sample."""
        before, newest = self.server.counts(), self.server.newest_run()
        commits, flushes, written, is_commit = 0, 0, 0, Commits()
        for it in requests(recording):
            self.client.call(it.command, it.offset, it.length, it.payload, it.flags & wire.FUA)
            flushes += it.command == wire.FLUSH
            written += len(it.payload)
            if is_commit.ends_with(it):
                commits += 1
                if self.commits_a_purge and commits % self.commits_a_purge == 0:
                    self.purge()
        if self.commits_a_purge:
            self.purge()
        self.client.call(wire.FLUSH, 0, 0)
        all_of_it = minus(self.server.counts(), before)
        return {**all_of_it._asdict(), "records": self.server.newest_run() - newest, "purges": self.purges, "commits": commits,
                "flushes": flushes, "written": written}

    def purge(self):
        """Destroys what is known to be dead; the flush makes the server's own record of that durable."""
        self.server.tool("shred", "--now")
        self.client.call(wire.FLUSH, 0, 0)
        self.purges += 1


def destroyed_bytes(server):
    """What the server has destroyed since the disk was made."""
    counters = server.tool("status")["counters"]
    return counters["destroyed_bytes"] + counters["rewritten_bytes"]


def minus(later, earlier):
    """What was counted between."""
    return Counts(*(one - other for one, other in zip(later, earlier)))


def cost(samples, chip, store, marks, way):
    """Counted time, by that without deletion; None where one is not there."""
    return ratio(samples, (chip, store, marks, way), (chip, store, marks, "off"), "micros")


def operations(samples):
    """The table of what the chip did."""
    rows = []
    for (chip, store, marks, way), found in samples.items():
        reads, programs, records, erases, micros = medians(found, "reads", "programs", "records", "erases", "micros")
        purges, commits, flushes, written, destroyed = medians(found, "purges", "commits", "flushes", "written", "destroyed")
        # A block gets a head with each erase.
        counts = [reads, programs, records + erases, erases]
        rows.append([chip, STORES[store][1], marks, way, *(f"{count:,.0f}" for count in counts), f"{micros / 1e6:.2f} s",
                     f"{commits:.0f}, {flushes:.0f}, {purges:.0f}", f"{written / 1e6:.1f} MB", f"{destroyed / 1e6:.1f} MB"])
    return table(["chip", "deletion", "marked", "way", "page reads", "page programs", "of these, records and heads of blocks", "block erases",
                  "counted time", "commits, flushes, purges", "the guest wrote", "destroyed"], rows)
