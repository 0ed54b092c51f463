"""sets of live chunks: memory, and processor time to build, to mark and to look up, beside the paper's alternatives

Figures 2 and 3 and tables 1 and 2 of Botelho and others (FAST 2013): the sets that a sanitization of a vault uses (*perfect*, *ordinals*), the
paper's perfect hash vectors (*phvec*: ten bits a bucket; *compressed*), and what its section 4 compares them with. The example `live_sets` of the
crate `vault` builds them of random fingerprints, and marks those of one half, in an order of their own, 16,384 at a time: at least once for
each two fingerprints, up to 33 million, in 16 rounds. Told are the median of the rounds and the least, since other programs disturb what lies in the caches: *memory* is what
a read of 30 MB took at that time. Then 2²⁰ chunks of the other half are looked up. *Full index* has
160 bits of each live chunk, in a table with a sixth of its places free. *Partitioned* is such a table of the containers that fit into the memory of *perfect*; all references are
enumerated once for each unit of containers, so that one mark takes the time of all units (measured is one of them). *Containers* is the bit vector, marked with all references of
eight backups in the order of their files (a deduplication of 7.38); the index and the directories are in memory here, and 64 directories are cached. What a Bloom filter takes for live is counted of 2²⁴ chunks that it was
never given, after all fingerprints were marked.

*grid* are the cases of figure 3, all of λ (fingerprints of a bucket) by c (places of a fingerprint), of `--grid` fingerprints. Where a bucket has no number below 2¹⁰, or
2²⁰ compressed, its part of 16,384 fingerprints is tried again with other hashes; after 40 attempts there is no set.

The bars: perfect 2.45 bits, 500 ns to build, 25 ns to mark up to 10 million, 40 ns at 100 million; ordinals 1 bit.
"""

import json
import os
import subprocess
from collections import namedtuple

from ..measure import table
from . import Benchmark, medians

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../..")
BUILD = ["cargo", "build", "--quiet", "--release", "--locked", "--package", "quietus-vault", "--example", "live_sets"]
SETS = {
    "perfect": "perfect", "ordinals": "ordinals", "phvec": "phvec, λ 7, c 1.43", "compressed": "compressed, λ 7, c 1.43",
    "index": "full index", "bloom": "Bloom filter, 10⁻⁶", "partitioned": "partitioned scans", "containers": "bit vector by container",
}
# What the paper says, bits a fingerprint.
PAPER = {"phvec": "2.87", "compressed": "2.54", "index": "160", "bloom": "28.8", "containers": "1"}
BUCKETS = range(1, 9)
PLACES = ["1.37", "1.39", "1.41", "1.43", "1.54", "1.67"]
KINDS = ["phvec", "compressed"]
# With more, the bit vector takes an hour to mark.
CONTAINERS_MAX = 10_000_000
FIGURE_2 = [10 ** power for power in range(6, 12)]
BITS_MAX, BUILD_NS_MAX, MARK_NS_MAX = 2.45, 500, {10_000_000: 25, 100_000_000: 40}


class Bench(Benchmark):
    """A case is (set, fingerprints) or ("grid", set with its λ and c)."""

    Sample = namedtuple("Sample", "bits bits_with_buffers build_ns mark_ns mark_least_ns look_up_ns false_share memory_ns failed_share directories_read")
    defaults = {"repetitions": 3, "counts": "1000000,10000000,100000000", "grid": 1_000_000}
    short = {"repetitions": 1, "counts": "20000", "grid": 20_000}
    programs = ("cargo",)
    note = " Processor time."

    def __init__(self, options, work):
        super().__init__(options, work)
        subprocess.run(BUILD, check=True, cwd=ROOT)
        self.counts = [int(word) for word in options.counts.split(",")]

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--counts", help="of fingerprints (default %(default)s)")
        parser.add_argument("--grid", type=int, help="fingerprints of the cases of figure 3 (default %(default)s)")

    def cases(self):
        sets = [(name, str(count)) for count in self.counts for name in SETS if name != "containers" or count <= CONTAINERS_MAX]
        return sets + [("grid", f"{kind}:{bucket}:{places}") for kind in KINDS for bucket in BUCKETS for places in PLACES]

    def sample(self, name, what):
        words = [str(self.options.grid), what] if name == "grid" else [what, name]
        program = os.path.join(ROOT, "target/release/examples/live_sets")
        found = json.loads(subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout)
        turns = found.get("turns", 1)
        times = [found[of] * turns if of in found else None for of in ("mark_ns", "mark_least_ns")]
        failed = found["failed_attempts"] / (found["failed_attempts"] + found["parts"] - found["given_up"]) if "parts" in found else None
        bits = found.get("bits")
        return self.Sample(bits, found.get("bits_with_buffers", bits), found.get("build_ns"), *times, found.get("look_up_ns"),
                           found.get("dead_taken_for_live"), found["memory_read_ns"], failed, found.get("directories_read"))

    def render(self, samples):
        sets = {case: found for case, found in samples.items() if case[0] != "grid"}
        parts = [self.sizes(sets), self.costs(sets), self.figure_2(sets)] if sets else []
        return "\n\n".join(parts + [text for kind in KINDS for text in grid(samples, kind)])

    def sizes(self, samples):
        """Table 1: bits a fingerprint."""
        rows = []
        for name, title in SETS.items():
            found = [samples.get((name, str(count))) for count in self.counts]
            if any(found):
                bits = [f"{first(of, 'bits'):,.3f}" if of else "-" for of in found]
                last = next(filter(None, reversed(found)))
                false = first(last, "false_share")
                exact = f"no: takes {false:.2g} of dead chunks for live" if name == "bloom" else "yes"
                assert name in ("bloom", "partitioned") or not false, f"{name} takes dead chunks for live"
                rows.append([title, *bits, PAPER.get(name, "-"), exact])
        return table(["table 1: bits a fingerprint", *(f"{count:,}" for count in self.counts), "the paper", "exact"], rows)

    @staticmethod
    def costs(samples):
        """Table 2: nanoseconds to generate, to update and to look up."""
        rows = []
        for (name, count), found in samples.items():
            read = first(found, "directories_read")
            aside = f"{read:.2f} directories read for each container" if read else ""
            if name == "partitioned":
                aside = "for all units together"
            rows.append([f"{SETS[name]}, {int(count):,}", *(shown(found, of, ",.1f") for of in ("build_ns", "mark_ns", "mark_least_ns")),
                         "-" if name == "partitioned" else shown(found, "look_up_ns", ",.1f"), shown(found, "memory_ns", ".1f"), aside])
        return table(["table 2: ns a fingerprint", "built", "marked", "marked, least", "looked up", "memory", ""], rows)

    @staticmethod
    def figure_2(samples):
        """Figure 2: memory by the number of chunks, with the bits of the largest set that was measured."""
        bits = {name: first(found, "bits") for (name, _), found in samples.items()}
        rows = [[SETS[name], *(size(count * of / 8) for count in FIGURE_2)] for name, of in bits.items()]
        return table(["figure 2: memory by chunks", *(f"{count:,}" for count in FIGURE_2)], rows)

    def missed(self, samples):
        for (name, count), found in samples.items():
            if name == "perfect":
                bits, build, mark = medians(found, "bits", "build_ns", "mark_ns")
                at = int(count)
                most = next((MARK_NS_MAX[of] for of in sorted(MARK_NS_MAX) if at <= of), None)
                if at >= 1_000_000 and bits > BITS_MAX:
                    yield f"perfect, {at:,}: {bits:.3f} bits, not {BITS_MAX}"
                if build > BUILD_NS_MAX:
                    yield f"perfect, {at:,}: {build:.0f} ns to build, not {BUILD_NS_MAX}"
                if most and mark > most:
                    yield f"perfect, {at:,}: {mark:.1f} ns to mark, not {most}"
            if name == "ordinals" and int(count) >= 1_000_000 and first(found, "bits") > 1.001:
                yield f"ordinals, {int(count):,}: {first(found, 'bits'):.3f} bits, not 1"


def first(found, of):
    """The median of one figure."""
    return medians(found, of)[0] if getattr(found[0], of) is not None else None


def shown(found, of, how):
    """The same, in words."""
    value = first(found, of)
    return "-" if value is None else format(value, how)


def size(count):
    """Bytes, in words."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            break
        count /= 1024
    else:
        unit = "TiB"
    return f"{count:,.3g} {unit}" if count < 1000 else f"{count:,.0f} {unit}"


def grid(samples, kind):
    """Figure 3 of one kind: tables of bits and nanoseconds, and of the attempts that failed, by λ and c."""
    cell = lambda bucket, places, show: show(samples[case]) if (case := ("grid", f"{kind}:{bucket}:{places}")) in samples else ""
    shows = {
        "bits; ns to build": lambda found: f"{first(found, 'bits'):.2f}; {first(found, 'build_ns'):,.0f}" if found[0].bits else "none",
        "attempts that failed": lambda found: f"{first(found, 'failed_share'):.0%}",
    }
    if any(case[1].startswith(f"{kind}:") for case in samples if case[0] == "grid"):
        for what, show in shows.items():
            rows = [[f"λ {bucket}", *(cell(bucket, places, show) for places in PLACES)] for bucket in BUCKETS]
            rows = [row for row in rows if any(row[1:])]
            if what.startswith("bits") or any(set(row[1:]) - {"0%", ""} for row in rows):
                yield table([f"figure 3, {kind}: {what}", *(f"c {places}" for places in PLACES)], rows)
