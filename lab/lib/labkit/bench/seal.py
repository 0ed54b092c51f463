"""what it costs to seal and to open a block of 4 KiB, on one core

Builds and runs `crates/seal/bench`, a program of its own, which takes AES-256-XTS from aws-lc: what disk
encryption costs. Each repetition runs every case once, in turns. `xts` and `hmac` (HMAC-SHA-256 of a
block, which bounds the all-or-nothing seals) are what the seals are measured against; `openssl` is
the installed OpenSSL's AES-256-XTS, for processors' sake: it does not use AVX-512 everywhere.

The bars, with --require: random-key and r-aon at least as fast as `xts`, aon at 95 % of `hmac`.
"""

import os
import re
import subprocess
from collections import namedtuple

from ..measure import table
from ..servers import ROOT
from ..workspace import LabError
from . import Benchmark, in_times, medians, ratio

MANIFEST = os.path.join(ROOT, "crates/seal/bench/Cargo.toml")
BLOCK_BYTES = 4096
AGAINST = {"random-key": ("xts", 1), "r-aon": ("xts", 1), "aon": ("hmac", 0.95)}
CASES = ["xts", "openssl", "hmac", "aes-xts", "random-key", "r-aon", "aon", "aon-2005"]


class Bench(Benchmark):
    """A case is one of `CASES`."""

    Sample = namedtuple("Sample", "close open")  # nanoseconds a block
    defaults = {"repetitions": 9}
    short = {"repetitions": 1}
    programs = ("cargo",)

    def __init__(self, options, work):
        super().__init__(options, work)
        subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", MANIFEST], check=True)

    def cases(self):
        return [(case,) for case in CASES]

    def needs(self, case):
        return [*self.programs, *(["openssl"] if case == ("openssl",) else [])]

    def sample(self, case):
        if case == "openssl":
            return openssl()
        words = ["cargo", "run", "--quiet", "--release", "--locked", "--manifest-path", MANIFEST, "--", case]
        found = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        return self.Sample(*map(float, found.split()))

    def render(self, samples):
        head = ["", "seal", "open", "seal / xts", "open / xts", "seal / hmac"]
        return table(head, [row(samples, *case) for case in samples])

    def missed(self, samples):
        for case, (other, bar) in AGAINST.items():
            for way in ("close", "open"):
                found = ratio(samples, (other,), (case,), way)
                if found is not None and found < bar:
                    yield f"{case}: {way} at {found:.2f} of {other}'s rate, less than {bar}"


def openssl():
    """What `openssl speed` says of one block."""
    words = ["openssl", "speed", "-seconds", "1", "-bytes", str(BLOCK_BYTES), "-evp", "aes-256-xts"]
    both = [subprocess.run([*words, *way], check=True, capture_output=True, text=True).stdout for way in ([], ["-decrypt"])]
    rates = [re.search(r"^AES-256-XTS\s+([\d.]+)k", found, re.M | re.I) for found in both]
    if None in rates:
        raise LabError(f"openssl speed says no rate: {both}")
    return Bench.Sample(*(BLOCK_BYTES / float(it.group(1)) / 1e3 * 1e9 for it in rates))


def row(samples, case):
    times = medians(samples[case,], "close", "open")
    rates = [ratio(samples, (other,), (case,), way) for other, way in (("xts", "close"), ("xts", "open"), ("hmac", "close"))]
    return [case, *(f"{time:,.0f} ns, {BLOCK_BYTES / time:.1f} GB/s" for time in times),
            *map(in_times, rates)]
