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
_BEGUN = re.compile(r"(\d+) +(\w+)\(\d+<([^>]*)>(.*)")
_RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)")
_ENDED = re.compile(r"\) += (-?\d+)")


def options(path):
    """The options of strace for a log of these calls in the file `path`."""
    return ["-f", "-y", "-s", "0", "-o", path, "-e", f"trace={','.join(_CALLS)}"]


class Calls:
    """Number of calls and bytes, by the name of the file and what was done: "read", "write", "sync"."""

    def __init__(self, lines):
        self.calls, self.bytes, open_calls = Counter(), Counter(), {}
        for line in lines:
            if match := _BEGUN.match(line):
                thread, call, path, rest = match.groups()
                open_calls[thread] = call, os.path.basename(path), line
            elif match := _RESUMED.match(line):
                thread, _, rest = match.groups()
            else:
                continue
            ended = _ENDED.search(rest)
            if ended and thread in open_calls:
                call, name, begun = open_calls.pop(thread)
                kind = "read" if call in READS else "write" if call in WRITES else "sync" if call in SYNCS else call
                self.calls[name, kind] += 1
                self.bytes[name, kind] += max(0, int(ended[1])) if kind in ("read", "write") else 0
                # strace may have cut the line of a call that takes long: its flags are in one of the two.
                if "RWF_DSYNC" in begun or "RWF_DSYNC" in rest:
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
        with open(self.log) as lines:
            self.calls = Calls(lines)
        os.unlink(self.log)


def _is_traced(pid, thread):
    try:
        with open(f"/proc/{pid}/task/{thread}/status") as status:
            return not re.search(r"TracerPid:\s+0\n", status.read())
    except FileNotFoundError:
        return True  # it ended meanwhile
