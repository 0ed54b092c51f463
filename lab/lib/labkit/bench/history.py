"""`quietus history` of one file of an ext4, in many epochs of which few change it

A disk gets an ext4 with two files; then each flush closes an epoch (`--epoch flush`). In some epochs, evenly spread, the first file gets other content and a
later time: its block and that of its inode are written. In all others a block of the second file is. The disk is served, and `quietus history` of the first file is timed, in each repetition with
another number of epochs. The answer is checked: each version, and its first and last epoch.

Reads are counted in a run of its own, by strace, which is not timed: the calls of the control socket, and the blocks that the calls `read` ask for. The versions of the blocks on the way to the
file are the blocks that are read to look at one epoch, and the version of the inode's block in each epoch that changes the file. The journal is empty.

*Plan* is `quietus forget --dry-run` of the first file: the blocks that it alone has had, in all epochs; by one reader, and with the second one, which reads the file in each epoch that
changes a block of its inode.

The bars, at the most epochs: a second; 1.1 times as many blocks read as there are versions of blocks on the way; 1.05 times as long as with the fewest epochs.
"""

import json
import os
import re
import subprocess
from collections import namedtuple

from .. import extfs, wire
from ..layout import said_by
from ..measure import elapsed, median, table
from ..servers import OFF, Versions, parse_size
from ..workspace import LabError
from . import Benchmark, medians

BLOCK = 4096
SECONDS_MAX, READS_MAX, TIMES_MAX = 1, 1.1, 1.05
SOMETHING_STAYS = 3
# Where an inode has its times of change: of the inode, and of the content.
I_CTIME, I_MTIME = 0x0C, 0x10
FIRST_TIME = 1_700_000_000
OTHER_BLOCKS = 1024
SENT = re.compile(r'\{\\"call\\":\\"([a-z-]+)\\"(.*?)\}\\n')
RANGE = re.compile(r"\[(\d+),(\d+)\]")


class Bench(Benchmark):
    """A case is a number of epochs, in words."""

    Sample = namedtuple("Sample", "seconds calls reads path alone plan filled")
    defaults = {"size": "64M", "repetitions": 1}
    short = {"epochs": "100,1000", "versions": 100}
    programs = ("mke2fs", "debugfs", "strace")

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--epochs", default="10000,100000", help="numbers of epochs, the fewest first (default %(default)s)")
        parser.add_argument("--versions", type=int, default=1000, help="of the file (default %(default)s)")
        parser.add_argument("--seal", default="random-key", help="default %(default)s")
        parser.add_argument("--runs", type=int, default=7, help="of `quietus history` in each repetition (default %(default)s)")

    def cases(self):
        return [(epochs,) for epochs in self.options.epochs.split(",")]

    def sample(self, epochs):
        image = Image(self.work, parse_size(self.options.size))
        server = self.server(Versions, ["--epoch", "flush", "--idle-after", "10ms"], OFF, seal=self.options.seal)
        expected = []
        filled = elapsed(lambda: expected.extend(self.fill(server, image, int(epochs))))
        times = [elapsed(lambda: self.check(server, expected)) for _ in range(self.options.runs)]
        alone = elapsed(lambda: self.plan(server, "--one-witness"))
        plan = elapsed(lambda: self.plan(server))
        calls, reads = self.counted(server)
        # The look at the first epoch reads each block on the way once.
        path = len(image.path_blocks) + len(expected) - 1
        server.remove()
        return self.Sample(median(times), calls, reads, path, alone, plan, filled)

    def fill(self, server, image, epochs):
        """Writes all epochs; those that show the first file for the first time as it is then."""
        versions, every = self.options.versions, epochs // self.options.versions
        if every < 1:
            raise LabError(f"{epochs} epochs cannot have {versions} versions")
        client, expected = wire.Client(server.socket), []
        for place, content in image.blocks():
            client.call(wire.WRITE, place, len(content), content)
        client.call(wire.FLUSH, 0, 0)
        expected.append(1)
        for epoch in range(2, epochs + 1):
            if epoch % every == 0 and len(expected) < versions:
                expected.append(epoch)
                writes = image.changed(len(expected))
            else:
                writes = [(image.other(epoch), epoch.to_bytes(8, "big") * (BLOCK // 8))]
            for place, content in writes:
                client.send(wire.WRITE, place, len(content), content)
            for _ in writes:
                if client.receive()[1]:
                    raise LabError(f"a write of epoch {epoch} failed: {server.said()}")
            client.call(wire.FLUSH, 0, 0)
        client.close()
        kept = server.tool("status")["store"]["epochs"]
        if kept != epochs:
            raise LabError(f"the disk keeps {kept} epochs, not {epochs}")
        return expected

    def check(self, server, expected):
        """All versions of the first file, which are to be these."""
        done = subprocess.run([server.binary, "--json", "history", f"{server.disk}:/first"], capture_output=True, text=True)
        if done.returncode:
            raise LabError(f"quietus history ended with {done.returncode}: {done.stderr}")
        found = [(it["from"], it["to"]) for it in json.loads(done.stdout)["versions"]]
        ends = [epoch - 1 for epoch in expected[1:]] + [None]
        if found[::-1] != list(zip(expected, ends)):
            raise LabError(f"history found {len(found)} versions, not {len(expected)}, or others: the last ones are {found[:3]}")

    def plan(self, server, *more):
        """Plans to forget the file: all versions but the last die, which the current state shows, too."""
        done = subprocess.run([server.binary, "--json", "forget", f"{server.disk}:/first", "--dry-run", *more], capture_output=True, text=True)
        found = json.loads(done.stdout)
        if done.returncode != SOMETHING_STAYS or found["dies_blocks"] != self.options.versions - 1 or found["stays"]["current_blocks"] != 1:
            raise LabError(f"quietus forget --dry-run ended with {done.returncode}: {done.stdout}{done.stderr}")

    def counted(self, server):
        """How many calls the history makes, and how many blocks it asks for."""
        log = self.work.file("calls")
        argv = ["strace", "-f", "-qq", "-s", "1000000", "-e", "trace=sendmsg", "-o", log, server.binary, "history", f"{server.disk}:/first"]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        calls = reads = 0
        with open(log) as file:
            for call, rest in (found for line in file for found in SENT.findall(line)):
                calls += 1
                if call == "read":
                    reads += sum(-(-(int(start) + int(length)) // BLOCK) - int(start) // BLOCK for start, length in RANGE.findall(rest))
        os.unlink(log)
        return calls, reads

    def render(self, samples):
        rows = []
        for (epochs,), found in samples.items():
            seconds, calls, reads, path, alone, plan, filled = medians(found, *self.Sample._fields)
            rows.append([f"{int(epochs):,}", f"{self.options.versions:,}", f"{seconds * 1000:,.1f} ms", f"{calls:,.0f}", f"{reads:,.0f}", f"{path:,.0f}",
                         f"{reads / path:.2f}", f"{alone:,.2f} s", f"{plan:,.2f} s", f"{filled:,.0f} s"])
        return table(["epochs", "versions", "time", "calls", "blocks read", "versions of blocks on the way", "read / versions", "plan, one reader", "plan, two", "to write all"], rows)

    def missed(self, samples):
        fewest, *_, most = [None, *self.cases()] if len(self.cases()) == 1 else self.cases()
        if most not in samples:
            return
        seconds, reads, path = medians(samples[most], "seconds", "reads", "path")
        if seconds > SECONDS_MAX:
            yield f"{most[0]} epochs: {seconds:.2f} s"
        if reads > READS_MAX * path:
            yield f"{most[0]} epochs: {reads:.0f} blocks read, of {path:.0f} versions of blocks on the way"
        if fewest in samples:
            times = seconds / medians(samples[fewest], "seconds")[0]
            if times > TIMES_MAX:
                yield f"{most[0]} epochs take {times:.2f} times as long as {fewest[0]}"


class Image:
    """An ext4 with the files `first` and `other`, and the places of what changes."""

    def __init__(self, work, size):
        self.path = work.file("image")
        extfs.make(self.path, "ext4", size, "-O", "^metadata_csum")
        contents = [(name, work.file(name), blocks) for name, blocks in (("first", 1), ("other", OTHER_BLOCKS))]
        for name, path, blocks in contents:
            with open(path, "wb") as file:
                file.write(name[:1].encode() * (blocks * BLOCK))
            said_by("debugfs", "-w", "-R", f"write {path} {name}", self.path)
        self.content, = self.numbers("blocks first")
        self.others = self.numbers("blocks other")
        with open(self.path, "rb") as file:
            self.bytes = file.read()
        self.inode_at = self.inode("first")
        root, = self.numbers("blocks /")
        # Superblock and descriptors, the inodes of both, the root folder, and the journal's inode and superblock.
        journal = self.numbers("blocks <8>")[0]
        self.path_blocks = {0, 1, self.inode("/") // BLOCK, self.inode_at // BLOCK, root, self.inode("<8>") // BLOCK, journal}

    def numbers(self, command):
        """The numbers of blocks that debugfs prints."""
        text = said_by("debugfs", "-R", command, self.path)
        return [int(word) for line in text.splitlines() if re.fullmatch(r"[\d ]+", line) for word in line.split()]

    def inode(self, file):
        """Where the inode of a file lies."""
        text = said_by("debugfs", "-R", f"imap {file}", self.path)
        block, offset = re.search(r"located at block (\d+), offset (0x[0-9a-f]+)", text).groups()
        return int(block) * BLOCK + int(offset, 16)

    def blocks(self):
        """Each block that is not zeros, with its place."""
        for place in range(0, len(self.bytes), BLOCK):
            block = self.bytes[place:place + BLOCK]
            if block.count(0) < BLOCK:
                yield place, block

    def changed(self, version):
        """The blocks of the first file and of its inode, in this version."""
        at = self.inode_at // BLOCK * BLOCK
        inodes, offset = bytearray(self.bytes[at:at + BLOCK]), self.inode_at - at
        for field in (I_CTIME, I_MTIME):
            inodes[offset + field:offset + field + 4] = (FIRST_TIME + version).to_bytes(4, "little")
        return [(self.content * BLOCK, version.to_bytes(8, "big") * (BLOCK // 8)), (at, bytes(inodes))]

    def other(self, epoch):
        """Where an epoch writes that leaves the first file as it is."""
        return self.others[epoch % len(self.others)] * BLOCK
