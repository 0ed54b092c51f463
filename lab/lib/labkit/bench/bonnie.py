"""bonnie++ in a guest above each seal, beside none and beside an overlay (figure 5 of the paper of 2005)

The guest's ext4 lies on a disk that keeps versions; an epoch closes each second, as in the paper. bonnie++ writes a file
character by character and then by block, reads and rewrites it, and reads it both ways. The file is larger than the
guest's memory; by characters, where all time goes into the guest's system calls, it is --characters. Throughput is bonnie++'s; the processor time is the server's over the whole run. Every case has a fresh disk.

The bar: at least 95 % of the throughput of `none`, in each of the five.
"""

from collections import namedtuple

from ..guest import Guest
from ..measure import table
from ..servers import OFF, Overlay, Versions, parse_size
from . import Benchmark, medians, ratio

SEALS = ["none", "aes-xts", "aon", "random-key", "r-aon"]
TESTS = {"putc": "write, characters", "put_block": "write, blocks", "rewrite": "rewrite",
         "getc": "read, characters", "get_block": "read, blocks"}
# Where the first figure of each test is in bonnie++'s line; the others follow at every second place.
FIRST_FIELD = 9
SHARE_MIN = 0.95
GUEST_MIB = 256


class Bench(Benchmark):
    """A case is (seal or overlay)."""

    Sample = namedtuple("Sample", [*TESTS, "cpu_ms"])  # KiB a second each; milliseconds
    defaults = {"size": "4G", "repetitions": 3}
    short = {"size": "512M", "file": "64M", "repetitions": 1, "only": "none|random-key"}
    programs = ("bonnie++", "mke2fs")

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--file", default="1G", help="that bonnie++ writes (default %(default)s)")
        parser.add_argument("--characters", default="1M", help="of it that are written and read one by one (default %(default)s)")

    def cases(self):
        return [("overlay",), *((seal,) for seal in SEALS)]

    def sample(self, how):
        server = self.server(Overlay, [], OFF) if how == "overlay" else self.server(Versions, ["--epoch", "1s"], OFF, seal=how)
        guest = Guest(self.work, server.uri, "ext4", memory_mib=GUEST_MIB)
        guest.must(["true"], "--mkfs", "-b 4096 -E lazy_itable_init=0")
        before, said = server.cpu_ms(), []
        mib, characters_mib = parse_size(self.options.file) >> 20, parse_size(self.options.characters) >> 20
        # bonnie++ refuses a file smaller than twice the memory that it believes in, and shows no rate of a test that is too short.
        guest.must(["bonnie++", "-d", ".", "-s", f"{mib}m", "-r", str(mib // 2), f"-f{characters_mib}", "-n", "0", "-u", "root", "-m", "guest", "-q"],
                   hear=said.append)
        cpu_ms = server.cpu_ms() - before
        server.remove()
        return self.Sample(*rates(said), cpu_ms)

    def render(self, samples):
        rows = []
        for (how,), found in samples.items():
            cells = []
            for test in TESTS:
                share = ratio(samples, (how,), ("none",), test)
                cells.append(f"{medians(found, test)[0] / 1024:,.1f} MiB/s" + (f" ({share:.2f})" if share else ""))
            rows.append([how, *cells, f"{medians(found, 'cpu_ms')[0] / 1000:.1f} s"])
        return table(["seal", *TESTS.values(), "server's CPU"], rows)

    def missed(self, samples):
        for (how,) in samples:
            for test, words in TESTS.items():
                share = ratio(samples, (how,), ("none",), test)
                if share and share < SHARE_MIN and how != "overlay":
                    yield f"{how}: {words}: {share:.2f} of none"


def rates(said):
    """The five rates in bonnie++'s line of figures, in KiB a second. A test that was too short for one has none: 0."""
    line = next(line for line in said if line.startswith("1.9"))
    fields = line.split(",")[FIRST_FIELD::2][:len(TESTS)]
    return [int(field) if field.isdigit() else 0 for field in fields]
