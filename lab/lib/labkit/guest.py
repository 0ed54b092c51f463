"""Guests for the lab's Python commands, and what the workload in them says."""

import argparse
import json
import os
import subprocess
import time

from . import sectors
from .model import Model
from .servers import ROOT
from .workspace import LabError

GUEST_RUN = os.path.join(ROOT, "lab", "guest-run")
WORKLOAD = os.path.join(ROOT, "lab", "lib", "workload")
POWER_CUT = 137


def add_guest_arguments(parser):
    """Which guest, for a command that starts some: what guest-run takes from the environment."""
    parser.add_argument("--guest", dest="LAB_GUEST", action=_Exported, choices=["kvm", "uml", "tcg", "auto"],
                        help="its form (default: $LAB_GUEST, or the first that boots here)")
    parser.add_argument("--kernel", dest="UML_KERNEL", action=_Exported,
                        help="a user-mode Linux binary, or a directory that lab/lib/fetch-kernel made")


class _Exported(argparse.Action):
    """Puts the option's value into the environment, under the name of `dest`."""

    def __call__(self, parser, namespace, value, option_string=None):
        os.environ[self.dest] = value


def guest_form():
    """The form that guests have here: kvm, uml or tcg; LabError where none comes up."""
    done = subprocess.run([GUEST_RUN, "--which"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise LabError(f"no guest comes up on this machine:\n{done.stdout}")
    return done.stdout.split("\n", 1)[0]


class Guest:
    """Runs guests above one NBD URI, all with the same file system."""

    def __init__(self, work, uri, fs, mount="", append=(), memory_mib=256, extra=(),
                 seconds_max=1800):
        self.work, self.uri, self.fs, self.mount = work, uri, fs, mount
        self.extra = list(extra) + ["--mem", str(memory_mib), "--timeout", str(seconds_max)]
        for words in append:
            self.extra += ["--append", words]

    def argv(self, command, *options):
        """The whole command line."""
        mount = ["--mount-opts", self.mount] if self.mount else []
        fs = ["--fs", self.fs] if self.fs else []
        return [GUEST_RUN, "--disk", self.uri, *fs, *mount, *self.extra, *options, "--", *command]

    def start(self, command, *options):
        """Starts one; its output is to be read."""
        return self.work.spawn(self.argv(command, *options), stdout=subprocess.PIPE, text=True,
                               errors="replace")

    def run(self, command, *options, hear=lambda line: None):
        """Runs `command` to its end, and tells `hear` each line; its exit status."""
        process = self.start(command, *options)
        for line in process.stdout:
            hear(line.rstrip("\n"))
        return process.wait()

    def converse(self, command, answers, *options, hear=lambda line: None):
        """As `must`; a command that waits for a line after each of those in `answers`, until that was called."""
        process = self.work.spawn(self.argv(command, "--stdin", *options), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, errors="replace")
        for line in process.stdout:
            hear(line.rstrip("\n"))
            if line.rstrip("\n") in answers:
                answers[line.rstrip("\n")]()
                process.stdin.write("\n")
                process.stdin.flush()
        if process.wait() != 0:
            raise LabError(f"the guest's {' '.join(command[:3])} ended with {process.returncode}")

    def must(self, command, *options, hear=lambda line: None):
        """The same; LabError unless it ends well."""
        status = self.run(command, *options, hear=hear)
        if status != 0:
            raise LabError(f"the guest's {' '.join(command[:3])} ended with {status}")

    def survey(self, share, *options, command=(WORKLOAD, "survey"), said=None):
        """The files that it finds: by path, for each sector its tag, None for zeros, or a string. `share` is a folder for the
        answer; what else `command` prints is added to `said`."""
        said = [] if said is None else said
        if self.run([*command, "/mnt/share/survey"], *options, "--share", share, hear=said.append):
            raise LabError("check or mount failed:\n" + "\n".join(said[-15:]))
        return surveyed(os.path.join(share, "survey"))

    def stay_active(self, seconds):
        """Another session, in which small files come and go for as long and a half: what is left in doubt settles."""
        once = "head -c 65536 /dev/zero > later; sync; sleep .4; rm later; sync; sleep .4"
        self.must(["sh", "-c", f"for n in $(seq {int(seconds * 2)}); do {once}; done"])


def surveyed(path):
    """What `workload survey` has written to the file at `path`."""
    with open(path) as file:
        return {name: [sectors.Tag(*it) if isinstance(it, list) else it for it in found] for name, found in json.load(file).items()}


class Story:
    """The workload's log: its operations, and when each became known here.

    What it says is heard late, but it tells its own time too: at the `end` an operation's
    is when it was announced by that, on a clock that is never later than what was heard.
    `model` is what must be there now; `frees` has, for each (file, block of the
    file), the orders of the operations that freed that block, ascending;
    `promised` what must survive a power cut: by number, the names and tags of
    each file that was synced or fsynced and that nothing was announced for since.
    """

    def __init__(self, run, block_bytes):
        self.sectors_per_block = block_bytes // 512
        self.model = Model(run, self._freed)
        self.times, self.frees = {}, {}
        self.told, self.own_time, self.ahead = {}, None, float("inf")
        self.operations = []
        self.promised, self.at_sync, self.synced = {}, {}, 0
        self.deleted_blocks = 0
        self.ended = False
        self.notes = []

    def hear(self, line):
        word, _, rest = line.partition(" ")
        if word == "op":
            self._operation(*rest.split(" ", 1))
        elif word == "done":
            self._done(int(rest))
        elif word == "end":
            self.ended = True
            self.times.update({order: self.ahead + own for order, own in self.told.items()})
        elif word == "at":
            self.own_time = int(rest) / 1000
            self.ahead = min(self.ahead, time.time() - self.own_time)
        else:
            self.notes.append(line)

    def is_durably_dead(self, tag):
        """Whether that content was dead when the last sync ended."""
        held = self.at_sync.get(tag.file, (None, []))[1]
        return tag.order <= self.synced and (tag.sector >= len(held) or held[tag.sector] != tag)

    def _operation(self, order, operation):
        if int(order) != self.model.order + 1:
            raise LabError(f"operation {order} came after {self.model.order}: the log has a gap")
        self.times[int(order)] = time.time()
        if self.own_time is not None:
            self.told[int(order)] = self.own_time
        self.operations.append(operation)
        self.model.apply(operation)
        verb, *rest = operation.split()
        if verb not in ("fsync", "sync", "mkdir", "rmdir", "mark"):
            self.promised.pop(int(rest[0]), None)

    def _done(self, order):
        verb, *rest = self.operations[order - 1].split() if order else ["sync"]
        if verb == "fsync":
            file = self.model.file(rest)
            self.promised[file.number] = _as_is(file)
        else:
            self.promised = {number: _as_is(file) for number, file in self.model.files.items()}
            self.at_sync, self.synced = dict(self.promised), order

    def _freed(self, file, first, order):
        per = self.sectors_per_block
        for block in range(-(-first // per), -(-len(file.tags) // per)):
            self.frees.setdefault((file.number, block), []).append(order)
            self.deleted_blocks += any(file.tags[block * per:(block + 1) * per])


def _as_is(file):
    return set(file.names), list(file.tags)
