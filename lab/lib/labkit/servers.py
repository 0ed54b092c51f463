"""NBD servers behind one face: ours, and the peers it is compared with."""

import json
import os
import re
import socket
import subprocess

from .workspace import LabError, end, need, wait_until

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
# Options of create: nothing is destroyed unasked.
NEVER = ["--idle-after", "1h", "--deadline", "2h"]
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text):
    """Bytes in "512", "64M", "16T" (powers of 1024)."""
    match = re.fullmatch(r"(\d+)([KMGT]?)", text)
    if not match:
        raise LabError(f"{text!r} is no size: use 512, 64M, 4G")
    return int(match[1]) * _UNITS[match[2]]


def quietus_binary():
    """Where the release build of our server is: $QUIETUS, or in cargo's target."""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    path = os.environ.get("QUIETUS", os.path.join(target, "release", "quietus"))
    if not os.access(path, os.X_OK):
        raise LabError(f"no {path}: run 'make build' first, or set QUIETUS")
    return os.path.abspath(path)


def accepts(path):
    """Whether something accepts connections on the unix socket `path`."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
        return True
    except OSError:
        return False


class Server:
    """A server of one disk on a unix socket.

    `medium` is the raw file that holds the disk's content; `process` is the
    running server, or None.
    """

    kind = ""
    start_seconds_max = 20

    def __init__(self, work, name, size):
        self.work, self.name, self.size = work, name, size
        self.directory = work.directory(name)
        self.socket = os.path.join(self.directory, "nbd.sock")
        self.log = os.path.join(self.directory, "server.log")
        self.medium = os.path.join(self.directory, "image")
        self.process = None
        self.create()

    @property
    def uri(self):
        """The URI of the default export."""
        return f"nbd+unix:///?socket={self.socket}"

    def create(self):
        """Makes the disk: a sparse file."""
        with open(self.medium, "wb") as file:
            file.truncate(self.size)

    def argv(self):
        """The command that serves the disk."""
        raise NotImplementedError

    def launch(self):
        """Starts the server and does not wait for it."""
        with open(self.log, "ab") as log:
            self.process = self.work.spawn(self.argv(), stdout=log, stderr=log)

    def start(self):
        """Starts the server; returns when it accepts connections."""
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        self.launch()
        wait_until(f"{self.kind} on {self.socket}", self._is_up, self.start_seconds_max)
        return self

    def _is_up(self):
        if self.process.poll() is not None:
            raise LabError(f"{self.kind} ended with {self.process.returncode}:\n{self.said()}")
        return accepts(self.socket)

    def said(self):
        """The end of the server's log."""
        with open(self.log, errors="replace") as log:
            return log.read()[-2000:]

    def stop(self):
        """Asks the server to end, and waits for it."""
        end(self.process, 60)

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def cpu_ms(self):
        """Processor time that the server has used, in milliseconds."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")

    def peak_kib(self):
        """The most memory that the server has had, in KiB (VmHWM)."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1])


class Nbdkit(Server):
    """nbdkit's file plugin."""

    kind = "nbdkit"

    def argv(self):
        need("nbdkit")
        return ["nbdkit", "-f", "-U", self.socket, "file", self.medium]


class QemuNbd(Server):
    """qemu-nbd on a raw image."""

    kind = "qemu-nbd"

    def argv(self):
        need("qemu-nbd")
        return ["qemu-nbd", "-f", "raw", "-t", "-e", "128", "--discard=unmap",
                "-k", self.socket, self.medium]


class Quietus(Server):
    """Our server. `create_options` go to `quietus create`."""

    kind = "quietus"
    create_options = ()

    def __init__(self, work, name, size, create_options=(), serve_options=()):
        self.binary = quietus_binary()
        self.create_options = list(create_options)
        self.serve_options = list(serve_options)
        super().__init__(work, name, size)

    def create(self):
        self.disk = os.path.join(self.directory, "disk")
        self.medium = os.path.join(self.disk, "data")
        self.tool("create", "--size", str(self.size), *self.create_options)

    def argv(self):
        return [self.binary, "serve", self.disk, "--nbd", f"unix:{self.socket}",
                *self.serve_options]

    def tool(self, verb, *arguments):
        """Runs `quietus VERB DISK ARGUMENTS --json`; its answer."""
        done = subprocess.run([self.binary, verb, self.disk, *arguments, "--json"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise LabError(f"quietus {verb} ended with {done.returncode}: "
                           f"{done.stdout}{done.stderr}")
        return _last_json(done.stdout)


def _last_json(text):
    """The JSON in `text`: all of it, or its last line."""
    try:
        return json.loads(text)
    except ValueError:
        lines = text.strip().splitlines()
        return json.loads(lines[-1]) if lines else None


KINDS = {cls.kind: cls for cls in (Quietus, Nbdkit, QemuNbd)}
