"""quietus beside nbdkit's file plugin and qemu-nbd: requests a second, latencies, processor time

Each server serves a file of the same size on the same file system over a unix socket. With --store
overlay: quietus beside qemu-nbd on qcow2, each above the same base of random bytes, and all of the
disk has been written; besides, on an overlay that is fresh each time, first writes, of as much as
--first says, and reads of the base through it. The clients are fio's nbd engine and nbdcopy. The
servers' processor time is that of the whole process over the job, divided by its requests.
Where a job trims and writes, requests and latencies are those of the writes. Plain writes at the same depth are no
fair measure for those, since half of the requests are others; so each of the two jobs also runs beside the other one,
at the same time, each at depth 16 on its own half of the disk: what makes the one wait and not the other is the TRIM.

With --store sealed: a sealed disk beside one in place of the same binary, and beside qemu-nbd on an image of LUKS. `--serve '--grade content'`
measures the sealed one so, and the one in place without.

With --store versions: the seals of a store that keeps versions beside each other and beside an overlay above zeros,
all of one binary; the overlay takes the place of a peer.

The bar: as fast as the better peer; of a sealed disk those of `SEALED_BARS`; of versions, `none` as fast as the overlay in first writes, reads and flushes,
and random-key and r-aon 85 % of `none`.
"""

import os
from collections import namedtuple
from functools import partial

from ..bases import Base
from ..measure import fill, fio_nbd, lasting, random_file, seconds_of, table
from ..options import add_more_options
from ..servers import OFF, PEERS, STORES, Overlay, QemuLuks, Quietus, Versions, parse_size
from ..workspace import LabError
from . import Benchmark, in_times, medians, ratio

# One half of the disk each; both run at once.
PAIRS = ["--rw=randtrimwrite", "--bs=4k", "--iodepth=16", "--size=50%"]
PLAIN = ["--rw=randwrite", "--bs=4k", "--iodepth=16", "--offset=50%", "--size=50%"]
PROFILES = {
    "random read 4 KiB, depth 1": ("iops", ["--rw=randread", "--bs=4k", "--iodepth=1"]),
    "random read 4 KiB, depth 32": ("iops", ["--rw=randread", "--bs=4k", "--iodepth=32"]),
    "random write 4 KiB, depth 1": ("iops", ["--rw=randwrite", "--bs=4k", "--iodepth=1"]),
    "random write 4 KiB, depth 32": ("iops", ["--rw=randwrite", "--bs=4k", "--iodepth=32"]),
    "read 1 MiB, depth 8": ("mib_s", ["--rw=read", "--bs=1M", "--iodepth=8"]),
    "write 1 MiB, depth 8": ("mib_s", ["--rw=write", "--bs=1M", "--iodepth=8"]),
    "TRIM, then write 4 KiB, depth 32": ("iops", ["--rw=randtrimwrite", "--bs=4k", "--iodepth=32"]),
    "TRIM, then write 4 KiB, beside plain writes": ("iops", PAIRS),
    "random write 4 KiB, beside TRIM and writes": ("iops", PLAIN),
    "write 4 KiB and flush, depth 1": ("iops", ["--rw=randwrite", "--bs=4k", "--iodepth=1", "--fsync=1"]),
}
# The job that runs beside that of a profile.
BESIDE = {
    "TRIM, then write 4 KiB, beside plain writes": PLAIN,
    "random write 4 KiB, beside TRIM and writes": PAIRS,
}
# Of an overlay that nothing was written to; what is written is written once.
FRESH = {
    "first write 1 MiB, depth 8": ("mib_s", ["--rw=write", "--bs=1M", "--iodepth=8", "--end_fsync=1"]),
    "first write 4 KiB anywhere, depth 32": ("iops", ["--rw=randwrite", "--bs=4k", "--iodepth=32", "--end_fsync=1"]),
    "read of the base 1 MiB, depth 8": ("mib_s", ["--rw=read", "--bs=1M", "--iodepth=8"]),
    "read of the base 4 KiB, depth 1": ("iops", ["--rw=randread", "--bs=4k", "--iodepth=1"]),
    "read of the base 4 KiB, depth 32": ("iops", ["--rw=randread", "--bs=4k", "--iodepth=32"]),
}
# Requests a second of a sealed disk, at least, in times of those in place, and of LUKS.
SEALED_BARS = {"random": (0.8, 2), "read 1 MiB": (0.5, 0), "write 1 MiB": (0.5, 0), "write 4 KiB and flush": (0.95, 1.2)}
IN_PLACE = "in place"
COPIES = {"nbdcopy out": ("mib_s", None), "nbdcopy in": ("mib_s", None)}
SEALS = ["none", "random-key", "r-aon", "aon"]
SEALED_BAR = {"random-key": 0.85, "r-aon": 0.85}
ALL = {**PROFILES, **FRESH, **COPIES}


class Bench(Benchmark):
    """A case is (profile, server)."""

    # Requests or MiB a second; the 99th percentile; processor time a request.
    Sample = namedtuple("Sample", "value p99_us cpu_us", defaults=(0.0, 0.0))
    stores = sorted(STORES)
    defaults = {"store": "in-place", "size": "4G", "seconds": 3.0, "repetitions": 5}
    short = {"size": "64M", "seconds": 0.5, "repetitions": 1, "first": "16M"}
    programs = ("fio", "nbdcopy")
    note = " CPU is the server's, a request."

    def __init__(self, options, work):
        super().__init__(options, work)
        size = parse_size(options.size)
        self.is_overlay, self.has_seals, self.is_sealed = (options.store == it for it in ("overlay", "versions", "sealed"))
        self.kinds = {"overlay": Overlay, **{seal: partial(Versions, seal=seal) for seal in SEALS}} if self.has_seals \
            else {cls.kind: cls for cls in (STORES[options.store], *PEERS[options.store])}
        if self.is_sealed:
            self.kinds[IN_PLACE] = Quietus
        self.more = {"base": Base(random_file(work.file("base"), size)).path} if self.is_overlay else {}
        self.source = random_file(work.file("source"), min(size, 1 << 30))
        self.full = {}

    @staticmethod
    def add_arguments(parser):
        add_more_options(parser, "create", "serve")
        parser.add_argument("--first", default="256M", help="of a fresh overlay, how much is written (default %(default)s)")

    def peers(self):
        return {} if self.has_seals else {kind: cls.programs for kind, cls in self.kinds.items() if kind != Quietus.kind}

    def cases(self):
        fresh = [profile for profile in FRESH if self.is_overlay or self.has_seals and "first write" in profile]
        profiles = [*PROFILES, *fresh, *COPIES]
        return [(profile, kind) for profile in profiles for kind in self.kinds]

    def start(self, kind):
        # The peers infer nothing; and with one connection at a time nbdcopy would compare that.
        words = []
        if self.has_seals or kind == Quietus.kind:
            words = [self.options.create, [*OFF, *self.options.serve]]
        elif kind == IN_PLACE:
            words = [self.options.create, OFF]
        return self.server(self.kinds[kind], *words, **self.more)

    def sample(self, profile, kind):
        if profile in FRESH:
            server = self.start(kind)
            limit = [f"--io_size={self.options.first}"] if "write" in profile else lasting(self.options.seconds)
            found = self.run_fio(server, profile, limit)
            server.remove()
            return found
        if kind not in self.full:
            self.full[kind] = self.start(kind)
            fill(self.full[kind])
        if profile in COPIES:
            return self.run_copy(self.full[kind], profile)
        return self.run_fio(self.full[kind], profile, lasting(self.options.seconds))

    def run_fio(self, server, profile, limit):
        """One job of fio, and the one beside it, if there is one."""
        what, job = ALL[profile]
        beside = [*BESIDE[profile], *limit] if profile in BESIDE else ()
        before = server.cpu_ms()
        found = fio_nbd(server, *job, *limit, beside=beside)
        spent = server.cpu_ms() - before
        return self.Sample(getattr(found, what), found.p99_us, spent * 1000 / max(1, found.requests))

    def run_copy(self, server, direction):
        """One nbdcopy of the whole disk out, or of the source in."""
        is_out = direction == "nbdcopy out"
        size = server.size if is_out else os.path.getsize(self.source)
        seconds = seconds_of("nbdcopy", *([server.uri, "null:"] if is_out else [self.source, server.uri]))
        return self.Sample(size / (1 << 20) / seconds)

    def render(self, samples):
        kinds = [kind for kind in self.kinds if any(case[1] == kind for case in samples)]
        if self.has_seals:
            return seals_table(samples, kinds)
        compare = [kind for kind in kinds if kind != Quietus.kind] if self.is_sealed else []
        rows = [[profile, *(in_words(profile, samples.get((profile, kind))) for kind in kinds),
                 *([in_times(over(samples, profile, kind)) for kind in compare] or [in_times(compared(samples, profile))])]
                for profile in dict.fromkeys(case[0] for case in samples)]
        return table(["profile", *kinds, *([f"sealed / {kind}" for kind in compare] or ["ours / better peer"])], rows)

    def missed(self, samples):
        if self.has_seals:
            yield from seals_missed(samples)
            return
        if self.is_sealed:
            yield from sealed_missed(samples)
            return
        for profile in dict.fromkeys(case[0] for case in samples):
            found = compared(samples, profile)
            if found is None and self.options.require:
                raise LabError(f"--require: no peer was measured beside quietus: {profile}")
            if found is not None and found < 1:
                yield f"{profile}: {found:.2f} of the better peer"


def in_words(profile, found):
    if not found:
        return "-"
    value, p99_us, cpu_us = medians(found, "value", "p99_us", "cpu_us")
    if ALL[profile][0] == "mib_s":
        return f"{value:,.0f} MiB/s"
    return f"{value / 1000:.1f} k/s, p99 {p99_us:.0f} us, CPU {cpu_us:.1f} us"


def over(samples, profile, kind):
    """Our median over that of `kind`; None where one was not measured."""
    return ratio(samples, (profile, Quietus.kind), (profile, kind), "value")


def compared(samples, profile):
    """Our median over that of the better peer; None without a peer."""
    found = [over(samples, profile, kind) for at, kind in samples if at == profile and kind != Quietus.kind]
    return min((it for it in found if it is not None), default=None)


def sealed_missed(samples):
    """The bars of a sealed disk that are missed."""
    for profile in dict.fromkeys(case[0] for case in samples):
        bars = next((bars for begin, bars in SEALED_BARS.items() if profile.startswith(begin)), (0, 0))
        for kind, bar in zip((IN_PLACE, QemuLuks.kind), bars):
            found = over(samples, profile, kind)
            if found is not None and found < bar:
                yield f"{profile}: {found:.2f} of {kind}, the bar is {bar:g}"


def seals_table(samples, kinds):
    """A profile a row: every seal, then `none` over the overlay, and the other seals over `none`."""
    pairs = [(kind, "overlay" if kind == "none" else "none") for kind in kinds if kind != "overlay"]
    rows = [[profile, *(in_words(profile, samples.get((profile, kind))) for kind in kinds),
             *(in_times(ratio(samples, (profile, kind), (profile, base), "value")) for kind, base in pairs)]
            for profile in dict.fromkeys(case[0] for case in samples)]
    return table(["profile", *kinds, *(f"{kind} / {base}" for kind, base in pairs)], rows)


def seals_missed(samples):
    """The bars of a store that keeps versions that are missed."""
    for profile in dict.fromkeys(case[0] for case in samples):
        for kind, base, bar in (("none", "overlay", 1), *((seal, "none", bar) for seal, bar in SEALED_BAR.items())):
            found = ratio(samples, (profile, kind), (profile, base), "value")
            is_bar = base == "none" or not profile.startswith(("random write", "write 1 MiB", "TRIM"))
            if found is not None and is_bar and found < bar:
                yield f"{profile}: {kind} has {found:.2f} of {base}, the bar is {bar:g}"
