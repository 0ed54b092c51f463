"""The same requests again: to a server whose instructions are counted."""

import os
import re
import subprocess

from . import wire
from .servers import Quietus
from .workspace import LabError, end, need

_WATCHER = re.compile(r"^\s*([\d,]+) .*<quietus_detect::disk::Disk as quietus_core::watch::(?:Observer|Watcher)>::(\w+)", re.MULTILINE)


class CountedQuietus(Quietus):
    """Our server in valgrind, which counts every instruction that it executes; some 50 times slower."""

    start_seconds_max = 300

    def argv(self):
        need("valgrind", "callgrind_control", "callgrind_annotate")
        return ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={self.profile}", *super().argv()]

    @property
    def profile(self):
        """Where the counts go; each `count` adds a number."""
        return os.path.join(self.directory, "callgrind.out")

    def zero(self):
        """Counts from here on."""
        self._control("--zero")

    def count(self):
        """Instructions since `zero`: all, and those of the watcher and what it calls."""
        self._control("--dump")
        done = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", self.dumped],
                              capture_output=True, text=True)
        return counts(done.stdout)

    @property
    def dumped(self):
        """The profile of the last `count`."""
        return f"{self.profile}.1"

    def _control(self, what):
        done = subprocess.run(["callgrind_control", what, str(self.process.pid)], capture_output=True, text=True)
        if done.returncode != 0 or "OK" not in done.stdout:
            raise LabError(f"callgrind_control {what}: {done.stdout}{done.stderr}")

    def stop(self):
        """Ends the server, and drops the rest of its output."""
        end(self.process, 0.1)


def counts(annotated):
    """All instructions, and those below our watcher, as callgrind_annotate tells them."""
    found = re.search(r"^\s*([\d,]+).*PROGRAM TOTALS", annotated, re.MULTILINE)
    if not found:
        raise LabError(f"a profile of callgrind's without a total: {annotated[:200]}")
    # A function is told once for each file that a part of it comes from; where it is entered counts all.
    watcher = {}
    for count, method in _WATCHER.findall(annotated):
        watcher[method] = max(watcher.get(method, 0), _number(count))
    return _number(found[1]), sum(watcher.values())


def _number(text):
    return int(text.replace(",", ""))


def processor_seconds(pid):
    """Processor time that a process's threads have used, to the nanosecond."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as stat:
            total += int(stat.read().split()[0])
    return total / 1e9


def replay(path, requests):
    """Sends requests that a relay kept (`relay.Kept`), one after the other."""
    client = wire.Client(path, timeout=600)
    for it in requests:
        if it.command != wire.DISCONNECT:
            client.call(it.command, it.offset, it.length, it.payload, it.flags & wire.FUA)
    client.close()
