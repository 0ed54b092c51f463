"""NBD servers behind one face: ours, and the peers it is compared with."""

import json
import os
import re
import shutil
import socket
import subprocess

from . import wire
from .workspace import LabError, end, need, wait_until

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
# Options of create: nothing is destroyed unasked.
NEVER = ["--idle-after", "1h", "--deadline", "2h"]
# Options of serve: nothing is inferred.
OFF = ["--detect", "off"]
# Only what is marked is destroyed.
MARKED = ["--sensitive", "marked"]
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text):
    """Bytes in "512", "64M", "16T" (powers of 1024)."""
    match = re.fullmatch(r"(\d+)([KMGT]?)", text)
    if not match:
        raise LabError(f"invalid size {text!r}; expected a number and K, M, G or T, such as 64M")
    return int(match[1]) * _UNITS[match[2]]


def quietus_binary():
    """Where the release build of our server is: $QUIETUS, or in cargo's target."""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    path = os.environ.get("QUIETUS", os.path.join(target, "release", "quietus"))
    if not os.access(path, os.X_OK):
        raise LabError(f"no program {path}: run 'make build', or set QUIETUS")
    return os.path.abspath(path)


def sparse(path, size):
    """Makes a file of zeros; its path."""
    with open(path, "wb") as file:
        file.truncate(size)
    return path


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
    programs = ()  # that it needs
    is_raw = True  # the medium: it holds the content in its order
    start_seconds_max = 20

    def __init__(self, work, name, size):
        need(*self.programs)
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
        sparse(self.medium, self.size)

    def put(self, content):
        """Puts content at the beginning of the disk, before it is served."""
        with open(self.medium, "r+b") as medium:
            medium.write(content)

    def argv(self):
        """The command that serves the disk."""
        raise NotImplementedError

    def launch(self, stopped=False):
        """Starts the server and does not wait for it; `stopped` before its first step, until it gets SIGCONT."""
        first = ["sh", "-c", 'kill -STOP $$; exec "$@"', "sh"] if stopped else []
        with open(self.log, "ab") as log:
            self.process = self.work.spawn([*first, *self.argv()], stdout=log, stderr=log)

    def start(self):
        """Starts the server; returns when it accepts connections."""
        self._start(f"{self.kind} on {self.socket}", lambda: accepts(self.socket), self.start_seconds_max)
        return self

    def connected(self, every=0.01):
        """Starts the server, and tries it each `every` seconds; a client, once that has had its first reply."""
        clients = []
        self._start("a first reply", lambda: self._greeted(clients), 60, every)
        return clients[0]

    def _start(self, what, is_up, seconds, every=0.01):
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        self.launch()
        wait_until(what, lambda: self._lives() and is_up(), seconds, every)

    def _lives(self):
        if self.process.poll() is not None:
            raise LabError(f"{self.kind} ended with {self.process.returncode}:\n{self.said()}")
        return True

    def _greeted(self, clients):
        try:
            client = wire.Client(self.socket)
        except wire.Disconnected:
            return False
        client.call(wire.READ, 0, 4096)
        clients.append(client)
        return True

    def said(self):
        """The end of the server's log."""
        with open(self.log, errors="replace") as log:
            return log.read()[-16000:]

    def stop(self):
        """Asks the server to end, and waits for it."""
        end(self.process, 60)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory)

    @property
    def files(self):
        """The file or the directory that holds all of the disk."""
        return self.medium

    def flat(self):
        """The path of a raw image of the disk's content; where the medium is none, a copy made now."""
        if self.is_raw:
            return self.medium
        path = os.path.join(self.directory, "flat")
        if os.path.exists(path):
            os.unlink(path)
        subprocess.run(["nbdcopy", "--no-extents", "--connections=1", self.uri, path], check=True)
        return path

    def cpu_ms(self):
        """Processor time that the server has used, in milliseconds."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")

    def peak_kib(self, which="VmHWM"):
        """The most memory that the server has had, in KiB; `VmRSS`: what it has now."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(rf"{which}:\s+(\d+)", status.read())[1])


class Nbdkit(Server):
    """nbdkit's file plugin."""

    kind = "nbdkit"
    programs = ("nbdkit",)

    def argv(self):
        return ["nbdkit", "-f", "-U", self.socket, "file", self.medium]


class QemuNbd(Server):
    """qemu-nbd on a raw image."""

    kind = "qemu-nbd"
    programs = ("qemu-nbd",)

    def argv(self):
        return ["qemu-nbd", "-f", "raw", "-t", "-e", "128", "--discard=unmap",
                "-k", self.socket, self.medium]


class Quietus(Server):
    """Our server. `create_options` go to `quietus create`."""

    kind = "quietus"
    create_options = ()
    export = "disk"  # its name: that of the directory
    keeps_unflushed = True  # over a kill of the server: what was acknowledged is in the host's cache

    def __init__(self, work, name, size, create_options=(), serve_options=()):
        self.binary = quietus_binary()
        self.create_options = list(create_options)
        self.serve_options = list(serve_options)
        super().__init__(work, name, size)

    def create(self, *words):
        self.disk = os.path.join(self.directory, self.export)
        self.medium = os.path.join(self.disk, "data")
        self.tool("create", "--size", str(self.size), *words, *self.create_options)

    @property
    def files(self):
        return self.disk

    def argv(self):
        # A relay or a bench's client would be taken for a cache.
        return [self.binary, "serve", self.disk, "--nbd", f"unix:{self.socket}",
                "--attached", "direct", *self.serve_options]

    def tool(self, verb, *arguments):
        """Runs `quietus VERB DISK ARGUMENTS --json`; its answer."""
        done = subprocess.run([self.binary, verb, self.disk, *arguments, "--json"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise LabError(f"quietus {verb} ended with {done.returncode}: "
                           f"{done.stdout}{done.stderr}")
        return _last_json(done.stdout)


class Overlay(Quietus):
    """Our server, of a copy-on-write file above an image that is never written to: `base`, or one of zeros.

    `medium` holds what was written, in any order: the content is told by `flat`."""

    is_raw = keeps_unflushed = False

    def __init__(self, work, name, size, create_options=(), serve_options=(), base=None):
        self.base = base
        super().__init__(work, name, size, create_options, serve_options)

    def create(self, *words):
        self.base = self.base or sparse(os.path.join(self.directory, "base"), self.size)
        super().create("--store", "overlay", "--base", self.base, *words)

    def put(self, content):
        with open(self.base, "r+b") as base:
            base.write(content)
        shutil.rmtree(self.disk)
        self.create()


class Versions(Quietus):
    """Our server, of a store that keeps versions, with `seal`. Epochs close only on command, unless an option of
    `create` says otherwise."""

    is_raw = keeps_unflushed = False
    seal = "random-key"

    def __init__(self, work, name, size, create_options=(), serve_options=(), seal=None):
        self.seal = seal or self.seal
        super().__init__(work, name, size, create_options, serve_options)

    def create(self, *words):
        key = os.path.join(self.directory, "key")
        with open(key, "wb", opener=_private) as file:
            file.write(os.urandom(32))
        self.credential = [] if self.seal == "none" else ["--key-file", key]
        epoch = [] if "--epoch" in self.create_options else ["--epoch", "manual"]
        super().create("--store", "versions", *epoch, "--seal", self.seal, *self.credential, *words)
        self.stubs, self.root = (os.path.join(self.disk, name) for name in ("stubs", "root"))

    def argv(self):
        return [*super().argv(), *self.credential]

    def forget(self, epochs, *more):
        """Forgets epochs, or, with `more` words to the command, some of their blocks; returns when what only they showed is destroyed."""
        argv = [self.binary, "forget", f"{self.disk}@{epochs}", *more, "--wait"]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)

    def kept(self, *more):
        """All kept epochs, as `versions` tells of them a page at a time; with `more` words to it."""
        first, found = 0, []
        while True:
            page = self.tool("versions", "--from", str(first), *more)
            found += page["versions"]
            if not page["more"]:
                return found
            first = found[-1]["epoch"] + 1


class Unsealed(Versions):
    """The same, with the seal `none`: what is forgotten is overwritten."""

    seal = "none"


class Sealed(Quietus):
    """Our server, of a sealed disk without a credential. Its root is a file beside the content."""

    is_raw = keeps_unflushed = False

    def create(self, *words):
        super().create("--store", "sealed", "--no-credential", *words)
        self.root, self.map = (os.path.join(self.disk, name) for name in ("root", "keytree"))


class QemuLuks(QemuNbd):
    """qemu-nbd on an image that LUKS encrypts, as `qemu-img` makes them."""

    kind = "qemu-nbd LUKS"
    programs = ("qemu-nbd", "qemu-img")
    is_raw = False

    def create(self):
        self.secret = ["--object", "secret,id=key,data=not-secret"]
        argv = ["qemu-img", "create", "-q", "-f", "luks", *self.secret, "-o", "key-secret=key", self.medium, str(self.size)]
        # It times how fast keys are derived, and fails now and then where the clock of processor time is coarse.
        failed = 0
        while subprocess.run(argv, capture_output=failed < 4).returncode != 0:
            failed += 1
            if failed == 5:
                raise LabError(f"{' '.join(argv[:2])} failed five times")

    def argv(self):
        image = f"driver=luks,key-secret=key,file.driver=file,file.filename={self.medium},discard=unmap"
        return ["qemu-nbd", "-t", "-e", "128", "-k", self.socket, *self.secret, "--image-opts", image]


class QemuOverlay(QemuNbd):
    """qemu-nbd on a qcow2 file above such an image."""

    kind = "qcow2"
    programs = ("qemu-nbd", "qemu-img")
    is_raw = False

    def __init__(self, work, name, size, base=None):
        self.base = base
        super().__init__(work, name, size)

    def create(self):
        self.base = self.base or sparse(os.path.join(self.directory, "base"), self.size)
        self.medium = os.path.join(self.directory, "image.qcow2")
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", self.base, "-F", "raw", self.medium, str(self.size)],
                       check=True)

    def argv(self):
        argv = super().argv()
        return [*argv[:2], "qcow2", *argv[3:-1], "--detect-zeroes=unmap", self.medium]


def _private(path, flags):
    """Opens a file that only its owner reads: others are refused as keys."""
    return os.open(path, flags, 0o600)


def _last_json(text):
    """The JSON in `text`: all of it, or its last line."""
    try:
        return json.loads(text)
    except ValueError:
        lines = text.strip().splitlines()
        return json.loads(lines[-1]) if lines else None


KINDS = {cls.kind: cls for cls in (Quietus, Nbdkit, QemuNbd)}
# Ours by where content lives, and what to compare it with.
STORES = {"in-place": Quietus, "overlay": Overlay, "versions": Versions, "versions-none": Unsealed, "sealed": Sealed}
PEERS = {"in-place": [Nbdkit, QemuNbd], "overlay": [QemuOverlay], "sealed": [QemuLuks], "versions": [Overlay], "versions-none": [Overlay]}


def add_store_argument(parser):
    """`--store`, of ours."""
    parser.add_argument("--store", choices=sorted(STORES), default="in-place", help="of quietus (default in-place)")
