"""The workloads that detection is measured with, as a guest runs them."""

import os
import subprocess

from .guest import WORKLOAD
from .servers import ROOT, parse_size
from .workspace import LabError

SMALL_FILES = os.path.join(ROOT, "lab", "lib", "small-files")
SHIM = os.path.join(ROOT, "lab", "lib", "shim.c")
BENCH_GUEST = os.path.join(ROOT, "lab", "lib", "bench-guest")
NAMES = ["PostMark", "busy hour", "small files"]
PROGRAMS = {"PostMark": ["postmark"]}
# By their passes.
POLICIES = {"1": "clear", "2": "purge-2", "4": "4", "6": "6"}


def add_arguments(parser):
    """How large the workloads are."""
    parser.add_argument("--files", type=int, default=40000, help="PostMark's files and transactions (default %(default)s)")
    parser.add_argument("--operations", type=int, default=40000, help="of the busy hour (default %(default)s)")
    parser.add_argument("--small-files", type=int, default=200000, help="default %(default)s")


def make_shim(directory):
    """shim.so there: for LD_PRELOAD."""
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", os.path.join(directory, "shim.so"), SHIM, "-ldl"], check=True)


class Workloads:
    """All of them, as large as the options say; with more settings of PostMark, if any. The guest writes dirty pages when they are
    `write_back_ms` old (0: when its kernel likes to)."""

    def __init__(self, options, work, settings="", write_back_ms=0):
        self.options, self.work, self.write_back_ms = options, work, write_back_ms
        self.share = work.directory("share")
        with open(os.path.join(self.share, "postmark"), "w") as file:
            file.write(f"set location /mnt/disk\nset number {options.files}\nset transactions {options.files}\n"
                       f"set seed 42\n{settings}run\nquit\n")

    def make(self, fs, uri, more=""):
        """Makes the file system: an ext gets as many inodes as the largest of them wants. `more` is for its mkfs."""
        files = max(self.options.files, self.options.small_files)
        inodes = f"-N {files * 6 // 5}" if fs.name.startswith("ext") else ""
        fs.make(self.work, uri, more=f"{inodes} {more}".strip())

    def run(self, guest, name):
        """Runs one of `NAMES` in a guest; how many seconds it took."""
        return self.measure(guest, name, self._command(name))

    def measure(self, guest, name, command):
        """Runs a command in a guest, as `env` takes it; how many seconds it took."""
        said = []
        guest.must([BENCH_GUEST, str(self.write_back_ms), "env", *command], "--share", self.share, hear=said.append)
        found = [float(line.split()[1]) for line in said if line.startswith("took ")]
        if not found:
            raise LabError(f"{name} did not end: {said[-5:]}")
        return found[0]

    def _command(self, name):
        options = self.options
        capacity = parse_size(options.size) // 512 // 4
        return {"PostMark": ["postmark"], "small files": [SMALL_FILES, str(options.small_files)],
                "busy hour": [WORKLOAD, "run", "--quiet", "--seed", "1", "--operations", str(options.operations),
                              "--capacity", str(capacity)]}[name]
