"""What a server reads, writes and syncs, by file: its system calls, as strace tells them."""

import os
import re
import signal
import subprocess
import time
from collections import Counter

from .workspace import LabError

READS = ("pread64", "preadv", "preadv2")
WRITES = ("pwrite64", "pwritev", "pwritev2")
SYNCS = ("fsync", "fdatasync")
_CALLS = (*READS, *WRITES, *SYNCS, "fallocate")
_CALL = re.compile(rb"\d+ +(\w+)\(\d+<([^>]*)>.*\) += (-?\d+)", re.S)
_RESUMED = re.compile(rb"\d+ +<\.\.\. \w+ resumed>(.*)", re.S)
_UNFINISHED = b" <unfinished ...>"


def options(path):
    """The options of strace for a log of these calls in the file `path`."""
    return ["-f", "-y", "-s", "0", "-o", path, "-e", f"trace={','.join(_CALLS)}"]


def whole(lines, unfinished):
    """The calls in the lines of a log, each in one line, in the order in which they ended: strace cuts the line of a call that another
    thread's call comes between. `unfinished` has those that did not end, by thread."""
    for line in lines:
        line, thread = line.rstrip(b"\n"), line.split(b" ", 1)[0]
        if (resumed := _RESUMED.match(line)) and thread in unfinished:
            line = unfinished.pop(thread) + resumed[1]
        if line.endswith(_UNFINISHED):
            unfinished[thread] = line.removesuffix(_UNFINISHED)
        else:
            yield line


class Calls:
    """Number of calls and bytes, by the name of the file and what was done: "read", "write", "sync"."""

    def __init__(self, lines):
        self.calls, self.bytes = Counter(), Counter()
        for line in whole(lines, {}):
            if match := _CALL.match(line):
                call, name, result = match[1].decode(), os.path.basename(match[2].decode()), int(match[3])
                kind = "read" if call in READS else "write" if call in WRITES else "sync" if call in SYNCS else call
                self.calls[name, kind] += 1
                self.bytes[name, kind] += max(0, result) if kind in ("read", "write") else 0
                if b"RWF_DSYNC" in line:
                    self.calls[name, "sync"] += 1


class Traced:
    """Traces the process `pid` within a `with`; `calls` afterwards."""

    def __init__(self, work, pid):
        self.pid, self.log, self.calls = pid, work.file(f"strace.{pid}"), None
        self.work = work

    def __enter__(self):
        self.tracer = self.work.spawn(["strace", *options(self.log), "-p", str(self.pid)], stderr=subprocess.DEVNULL)
        limit = time.monotonic() + 10
        while not all(_is_traced(self.pid, thread) for thread in os.listdir(f"/proc/{self.pid}/task")):
            if time.monotonic() > limit or self.tracer.poll() is not None:
                raise LabError("strace did not attach to the server")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.tracer.send_signal(signal.SIGINT)
        self.tracer.wait(30)
        with open(self.log, "rb") as lines:
            self.calls = Calls(lines)
        os.unlink(self.log)


def _is_traced(pid, thread):
    try:
        with open(f"/proc/{pid}/task/{thread}/status") as status:
            return not re.search(r"TracerPid:\s+0\n", status.read())
    except FileNotFoundError:
        return True  # it ended meanwhile
