"""The workloads that detection is measured with, as a guest runs them."""

import os
from collections import namedtuple

from .guest import WORKLOAD
from .servers import ROOT, parse_size
from .workspace import LabError

SMALL_FILES = os.path.join(ROOT, "lab", "lib", "small-files")
BENCH_GUEST = os.path.join(ROOT, "lab", "lib", "bench-guest")
NAMES = ["PostMark", "busy hour", "small files"]
PROGRAMS = {"PostMark": ["postmark"]}
# By their passes.
POLICIES = {"1": "clear", "2": "purge-2", "4": "4", "6": "6"}

Took = namedtuple("Took", "seconds blocks_read blocks_written")


def add_arguments(parser):
    """How large the workloads are."""
    parser.add_argument("--files", type=int, default=40000, help="PostMark's files and transactions (default %(default)s)")
    parser.add_argument("--operations", type=int, default=40000, help="of the busy hour (default %(default)s)")
    parser.add_argument("--small-files", type=int, default=200000, help="default %(default)s")


class Workloads:
    """All of them, as large as the options say."""

    def __init__(self, options, work):
        self.options, self.work = options, work
        self.share = work.directory("share")
        with open(os.path.join(self.share, "postmark"), "w") as file:
            file.write(f"set location /mnt/disk\nset number {options.files}\nset transactions {options.files}\n"
                       "set seed 42\nrun\nquit\n")

    def make(self, fs, uri):
        """Makes the file system: an ext gets as many inodes as the largest of them wants."""
        files = max(self.options.files, self.options.small_files)
        more = f"-N {files * 6 // 5}" if fs.name.startswith("ext") else ""
        fs.make(self.work, uri, more=more)

    def run(self, guest, name):
        """Runs one of `NAMES` in a guest; what it took."""
        said = []
        guest.must([BENCH_GUEST, *self._command(name)], "--share", self.share, hear=said.append)
        found = [line.split()[1:] for line in said if line.startswith("took ")]
        if not found:
            raise LabError(f"{name} did not end: {said[-5:]}")
        per_block = self.options.block // 512
        return Took(float(found[0][0]), int(found[0][1]) // per_block, int(found[0][2]) // per_block)

    def _command(self, name):
        options = self.options
        capacity = parse_size(options.size) // 512 // 4
        return {"PostMark": ["postmark"], "small files": [SMALL_FILES, str(options.small_files)],
                "busy hour": [WORKLOAD, "run", "--quiet", "--seed", "1", "--operations", str(options.operations),
                              "--capacity", str(capacity)]}[name]
