"""the keys of a large sealed disk: what deaths write, what reads and starts read, memory

A sparse disk of --size. *Deaths*: what died is content that was written before; `shred --now` is timed, and done once more with other
content below strace, which counts pages of the key tree and the bytes written to its file and to the root. One piece of 64 MiB dies on a disk
of 100 GiB. *Stored leaves*: one block in each leaf of --spread dies, so that all leaves and the pages above are on the medium; then reads of 4 KiB,
one block in a leaf, at random, beside a disk in place with the same content. *Starts*: bytes that a start reads of the key tree and of the root,
after a clean stop, and after a kill with --early blocks that died and were written again.

Memory is the server's: resident (VmRSS), at most (VmHWM) since the step began, and locked (VmLck), in MiB; *idle* is a server of a disk in place
that was never asked for anything.

The bars: 6 pages for a block, 40 KiB for 64 MiB, one purge for all that died, 64 MiB of memory above idle, 3 MB at a start.
"""

import math
import os
import random
from collections import namedtuple

from .. import wire
from ..measure import elapsed, fio_nbd, lasting, median, table
from ..servers import NEVER, OFF, Quietus, Sealed, parse_size
from ..tracing import Calls, Traced, options as trace_options
from ..workspace import LabError
from . import Benchmark, in_times

MIB, BLOCK = 1 << 20, 4096
LEAF_BYTES = 112 * BLOCK
# The piece that dies, and its disk.
PIECE, PIECE_DISK = 64 * MIB, "100G"
PAGES_MAX, PIECE_BYTES_MAX, MEMORY_MAX, START_BYTES_MAX = 6, 40 << 10, 64, 3_000_000
CONTENT = os.urandom(BLOCK)
ONE, IN_ONE_PIECE, STORED, STARTS = "1 block", "64 MiB in one piece", "stored leaves", "starts"


class TracedStart(Sealed):
    """The same, below strace from its first instruction on. `-D` leaves the server its own process."""

    trace = None

    def argv(self):
        argv = super().argv()
        return ["strace", "-D", *trace_options(self.trace), *argv] if self.trace else argv


class Bench(Benchmark):
    """A case is what dies, or one of the others."""

    # What was found, in words, by its name; and figures that have bars.
    Sample = namedtuple("Sample", "figures")
    defaults = {"size": "1T", "repetitions": 1, "seconds": 5.0}
    short = {"size": "64G", "spread": "256M", "deaths": "100", "seconds": 0.3, "early": 1000}
    programs = ("fio", "strace")

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--deaths", default="10000,1000000", help="numbers of blocks at random that die (default %(default)s)")
        parser.add_argument("--spread", default="100G", help="bytes of which all leaves are stored (default %(default)s)")
        parser.add_argument("--early", type=int, default=40000, help="blocks written again before the kill (default %(default)s)")
        parser.add_argument("--seed", type=int, default=1)

    def cases(self):
        blocks = [f"{int(count):,} blocks at random" for count in self.options.deaths.split(",")]
        return [(what,) for what in (ONE, IN_ONE_PIECE, *blocks, STORED, STARTS)]

    def sample(self, what):
        if what == STORED:
            return self.Sample(self.stored())
        if what == STARTS:
            return self.Sample(self.starts())
        return self.Sample(self.deaths(what))

    # Deaths

    def deaths(self, what):
        size = parse_size(PIECE_DISK if what == IN_ONE_PIECE else self.options.size)
        server, idle, rng = self.sealed(size), self.idle(size), random.Random(self.options.seed)
        found = {"idle in place": words(idle)}
        runs = self.runs(what, size, rng)
        found["write"] = in_seconds(lambda: write(server, runs))
        before = purges(server)
        reset_peak(server)
        found["TRIM"] = in_seconds(lambda: trim(server, runs))
        found["waiting then"] = f"{server.tool('status')['owed']['entries']:,} entries, {purges(server) - before} purges"
        found["purge"] = in_seconds(lambda: server.tool("shred", "--now"))
        memory = memory_of(server)
        found["purges"] = purges(server) - before
        found["memory"], found["above idle, MiB"] = words(memory), memory[1] - idle[1]
        runs = self.runs(what, size, rng)
        write(server, runs)
        trim(server, runs)
        with Traced(self.work, server.process.pid) as traced:
            server.tool("shred", "--now")
        found.update(written(traced.calls))
        if (latched := server.tool("status")["latched"]) is not None:
            raise LabError(f"the disk is latched: {latched}")
        server.remove()
        return found

    def runs(self, what, size, rng):
        """What dies: offset and length, in no order."""
        if what == IN_ONE_PIECE:
            return [(rng.randrange(size // PIECE) * PIECE, PIECE)]
        count = int(what.split()[0].replace(",", ""))
        return [(block * BLOCK, BLOCK) for block in rng.sample(range(size // BLOCK), count)]

    # Leaves

    def stored(self):
        spread, found, iops, times = parse_size(self.options.spread), {}, [], []
        leaves = [(at, 2 * BLOCK) for at in range(0, spread, LEAF_BYTES)]
        random.Random(self.options.seed).shuffle(leaves)
        both = [self.sealed(), self.server(Quietus, NEVER, OFF)]
        idle = memory_of(both[1])
        for server in both:
            write(server, leaves)
            trim(server, [(at + BLOCK, BLOCK) for at, _ in leaves])
            found[f"purge, {name(server)}"] = in_seconds(lambda: server.tool("shred", "--now"))
        reset_peak(both[0])
        for depth in (1, 32):
            job = ["--rw=randread", "--bs=4k", f"--blockalign={LEAF_BYTES}", f"--size={spread}", f"--iodepth={depth}",
                   *lasting(self.options.seconds)]
            rounds = [[self.timed(server, job) for server in both] for _ in range(5)]
            rates, spent = ([median(it) for it in zip(*([sample[n] for sample in both] for both in rounds))] for n in (0, 1))
            for server, rate, cpu_us in zip(both, rates, spent):
                found[f"reads at depth {depth}, {name(server)}"] = f"{rate / 1000:.1f} k/s, CPU {cpu_us:.1f} us"
            found[f"reads at depth {depth}, sealed / in place"] = in_times(rates[0] / rates[1])
        memory = memory_of(both[0])
        found["memory, sealed"], found["idle in place"] = words(memory), words(idle)
        found["above idle, MiB"] = memory[1] - idle[1]
        for server in both:
            server.remove()
        return found

    def timed(self, server, job):
        """Requests a second, and microseconds of the server's processor time a request."""
        before = server.cpu_ms()
        found = fio_nbd(server, *job)
        return found.iops, (server.cpu_ms() - before) * 1000 / max(1, found.requests)

    # Starts

    def starts(self):
        server, found = self.sealed(kind=TracedStart), {}
        rng, blocks = random.Random(self.options.seed), parse_size(self.options.size) // BLOCK
        runs = [(block * BLOCK, BLOCK) for block in rng.sample(range(blocks), self.options.early)]
        write(server, runs)
        server.stop()
        found.update(self.start(server, "a clean stop"))
        trim(server, runs)
        write(server, runs)
        found["early cells at the kill"] = server.tool("status")["store"]["early_entries"]
        server.kill()
        found.update(self.start(server, "a kill"))
        server.remove()
        return found

    def start(self, server, after):
        """Starts the server below strace."""
        server.trace = self.work.file("strace")
        client = server.connected()
        client.close()
        with open(server.trace, "rb") as lines:
            calls = Calls(lines)
        found = {f"start after {after}, read of {of}": calls.bytes[of, "read"] for of in ("keytree", "root")}
        server.trace = None
        server.kill()
        server.start()
        return found

    # Servers

    def sealed(self, size=None, kind=Sealed):
        return self.server(kind, NEVER, OFF, size=size)

    def idle(self, size):
        """The memory of a server in place that nothing was asked of."""
        server = self.server(Quietus, NEVER, OFF, size=size)
        found = memory_of(server)
        server.remove()
        return found

    def render(self, samples):
        rows = [[case[0], figure, in_words(figure, median_of([it.figures[figure] for it in found]))]
                for case, found in samples.items() for figure in found[0].figures]
        return table(["what", "figure", "found"], rows)

    def missed(self, samples):
        for (what,), found in samples.items():
            most = {"above idle, MiB": MEMORY_MAX, "purges": 1}
            most |= {"pages of the key tree": PAGES_MAX} if what == ONE else {}
            most |= {"bytes to key tree and root": PIECE_BYTES_MAX} if what == IN_ONE_PIECE else {}
            most |= {figure: START_BYTES_MAX for figure in found[0].figures if figure.startswith("start after")}
            for figure, bar in most.items():
                got = max(it.figures.get(figure, 0) for it in found)
                if got > bar:
                    yield f"{what}: {figure} {got:,.0f}, the bar is {bar:,}"


def write(server, runs):
    """Writes all of the runs, in pieces of at most 1 MiB."""
    send(server, ((wire.WRITE, at, length, CONTENT * (length // BLOCK)) for at, length in pieces(runs)))


def trim(server, runs):
    send(server, ((wire.TRIM, at, length, b"") for at, length in runs))


def send(server, requests):
    client = wire.Client(server.socket, timeout=600)
    client.many(requests)
    client.close()


def pieces(runs):
    return ((at + n, min(MIB, length - n)) for at, length in runs for n in range(0, length, MIB))


def purges(server):
    return server.tool("status")["store"]["purge"]


def written(calls):
    """What was written, by where."""
    to = {name: calls.bytes[name, "write"] for name in ("keytree", "root", "journal", "data")}
    return {"pages of the key tree": math.ceil(to["keytree"] / BLOCK), "bytes to key tree and root": to["keytree"] + to["root"],
            "bytes to the journal": to["journal"], "bytes to data": to["data"],
            "syncs": sum(count for (_, kind), count in calls.calls.items() if kind == "sync")}


def reset_peak(server):
    """The memory at most counts from now on."""
    with open(f"/proc/{server.process.pid}/clear_refs", "w") as file:
        file.write("5")


def memory_of(server):
    """Resident, at most and locked, in MiB."""
    return [server.peak_kib(which) / 1024 for which in ("VmRSS", "VmHWM", "VmLck")]


def words(memory):
    return f"resident {memory[0]:.1f}, at most {memory[1]:.1f}, locked {memory[2]:.1f} MiB"


def in_seconds(action):
    return f"{elapsed(action):.2f} s"


def median_of(values):
    """The median of numbers; of words the first."""
    return median(values) if isinstance(values[0], (int, float)) else values[0]


def in_words(figure, value):
    if isinstance(value, str):
        return value
    return f"{value:.1f}" if figure.endswith("MiB") else f"{value:,.0f}"


def name(server):
    return "sealed" if isinstance(server, Sealed) else "in place"
