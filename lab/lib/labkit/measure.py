"""Measuring: fio's answers, medians, tables for people, sections of a document."""

import json
import os
import platform
import statistics
import subprocess
import time
from collections import namedtuple
from pathlib import Path

from .workspace import LabError


# One fio job: requests and MiB a second, a latency in microseconds. Where it trims and writes, they are those of its writes.
Sample = namedtuple("Sample", "requests iops mib_s p99_us")


def fio(*arguments, beside=()):
    """Runs one fio job, perhaps with another one `beside` it; the `Sample` of the first."""
    more = ["--name=beside", *beside] if beside else []
    done = subprocess.run(["fio", "--output-format=json", "--name=job", *arguments, *more],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise LabError(f"fio {' '.join(arguments)}: {done.stderr[-500:]}{done.stdout[-500:]}")
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    if job["error"]:
        raise LabError(f"fio {' '.join(arguments)}: error {job['error']}")
    side = next(job[name] for name in ("read", "write", "trim") if job[name]["total_ios"] or name == "trim")
    p99_ns = side["clat_ns"].get("percentile", {}).get("99.000000", 0)
    return Sample(side["total_ios"], side["iops"], side["bw_bytes"] / (1 << 20), p99_ns / 1000)


def fio_nbd(server, *arguments, beside=()):
    """One fio job through the nbd engine, perhaps with another one `beside` it, on a connection of its own."""
    words = ["--ioengine=nbd", f"--uri={server.uri}", "--randrepeat=0", "--norandommap"]
    return fio(*words, *arguments, beside=[*words, *beside] if beside else ())


def lasting(seconds):
    """The options of a fio job that repeats its load for so many seconds. fio takes "0.5" for nothing, and then never stops."""
    return ["--time_based", f"--runtime={seconds * 1000:.0f}ms"]


def fill(server, offset=0, length=None):
    """Writes random content, so that every block of the range holds data."""
    length = length or server.size
    fio("--ioengine=nbd", f"--uri={server.uri}", "--rw=write", f"--bs={min(length, 1 << 20)}", "--iodepth=8", "--refill_buffers",
        f"--offset={offset}", f"--size={length}", "--end_fsync=1")


def elapsed(action):
    """How many seconds an action takes."""
    started = time.monotonic()
    action()
    return time.monotonic() - started


def seconds_of(*argv):
    """How long a command takes, which has to succeed."""
    return elapsed(lambda: subprocess.run(argv, check=True))


def random_file(path, size):
    """Makes a file of random bytes, in whole MiB; its path."""
    with open(path, "wb") as file:
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))
    return path


def allocated_bytes(path):
    """Bytes on the host of a file, or of everything below a directory."""
    if not os.path.isdir(path):
        return _allocated(path)
    return sum(_allocated(os.path.join(root, name)) for root, _, names in os.walk(path) for name in names)


def _allocated(path):
    try:
        return os.lstat(path).st_blocks * 512
    except FileNotFoundError:
        return 0  # it went while we looked


def median(values):
    """The median; 0 of nothing."""
    return statistics.median(values) if values else 0


def machine():
    """The machine in one line."""
    with open("/proc/cpuinfo") as cpuinfo:
        models = {line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name")}
    load = os.getloadavg()[0]
    return (f"{time.strftime('%Y-%m-%d')}, {' '.join(sorted(models)) or platform.machine()}, "
            f"{os.cpu_count()} CPUs, Linux {platform.release()}, load {load:.1f}")


def table(head, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def publish(document, section, text):
    """Prints `text`; with a `document`, it also replaces the named section there.

    A section lies between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
    """
    print(text)
    if not document:
        return
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    before, found, rest = Path(document).read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise LabError(f"{document}: no section between <!-- {section}: begin --> and <!-- {section}: end -->")
    Path(document).write_text(f"{before}{begin}\n{text}\n{end}{after}")
