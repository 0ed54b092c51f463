"""how long after `unlink` and `sync` content is destroyed

A guest with each file system deletes files one by one, syncs after each, and writes a little to a
log all the while; it discards nothing. For each file the time is taken from the end of its sync to the
receipt that names the last of its blocks (audit.jsonl), or to the write that took a block's place. A
journal's copies of the content are blocks of the file as well; where there are any, a row of its own
tells of the others. With --marked the files are in a folder that is marked with `chattr +s`, the log is not, and the server
destroys only what is marked. *Commits* is how many commit records came in between, at most: the sync's own has
come before. *Halt* counts what had to wait for the unmount.

The bar, with --require or without: all is destroyed.
"""

import os
import sys
import time
from collections import namedtuple

from .. import verdicts
from ..latencies import Destroyed, percentile
from ..measure import table
from ..options import add_more_options
from ..record import Record
from ..relay import Relay
from ..servers import MARKED, ROOT, Quietus
from ..trace import COMMIT, Trace
from ..workspace import LabError
from . import Benchmark

LATENCY_GUEST = os.path.join(ROOT, "lab", "lib", "latency-guest")
PERCENTILES = [50, 90, 99, 100]


class Bench(Benchmark):
    """A case is a file system."""

    # Of each row: seconds, commits, and how many had to wait, were never destroyed, are left in sectors.
    Sample = namedtuple("Sample", "rows")
    defaults = {"size": "64M", "fs": "ext2,ext3,ext4,vfat", "repetitions": 1}
    short = {"fs": "ext2,ext4", "files": 3, "pause": 0.5, "wait": 2.0}
    fails_always = True

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--files", type=int, default=30, help="to delete (default %(default)s)")
        parser.add_argument("--sectors", type=int, default=64, help="of each file (default %(default)s)")
        parser.add_argument("--pause", type=float, default=4, help="seconds between deletions, at most (default %(default)g)")
        parser.add_argument("--idle", default="250ms", help="the server's --idle-after (default %(default)s, its own)")
        parser.add_argument("--deadline", default="10m", help="the server's --deadline (default %(default)s, its own)")
        parser.add_argument("--marked", action="store_true", help="delete marked files, with `serve --sensitive marked`")
        add_more_options(parser, "serve")
        parser.add_argument("--wait", type=float, default=5, help="seconds from the unmount to the end (default %(default)g)")

    def cases(self):
        return [(title,) for title in self.known]

    def sample(self, title):
        options = self.options
        serve = [*options.serve, *MARKED * options.marked]
        server = self.server(Quietus, ["--idle-after", options.idle, "--deadline", options.deadline], serve)
        found = Deletions(options, self.work, self.known[title], server).run()
        server.remove()
        return self.Sample(found)

    def render(self, samples):
        head = ["file system", "deletions", *(f"p{it}" for it in PERCENTILES[:-1]), "longest", "commits", "halt", "never",
                "left, sectors"]
        return table(head, [in_words(*it) for it in by_row(samples)])

    def missed(self, samples):
        for name, found in by_row(samples):
            if found["never"] or found["left"]:
                yield f"{name}: {found['never']} files never destroyed, {found['left']} sectors left"


class Deletions:
    def __init__(self, options, work, fs, server):
        self.options, self.work, self.fs, self.server = options, work, fs, server
        self.relay = Relay(os.path.join(server.directory, "relay.sock"), server.socket, fs.block, keep=True)
        self.doomed, self.gone, self.halted = {}, {}, None

    def run(self):
        """The guest's life, and the figures of each row."""
        options = self.options
        self.fs.make(self.work, self.relay.uri)
        command = [LATENCY_GUEST, str(options.files), str(options.sectors), str(options.pause), *["marked"] * options.marked]
        self.fs.guest(self.work, self.relay.uri).must(command, hear=self._hear)
        if len(self.gone) != options.files:
            raise LabError(f"{len(self.gone)} files of {options.files} deleted: {self.server.said()}")
        time.sleep(options.wait)
        self.server.stop()
        self.relay.check()
        return dict(self._judge())

    def _hear(self, line):
        word, *rest = line.split()
        if word in ("doomed", "gone"):
            getattr(self, word)[int(rest[0])] = time.time()
        elif word == "halting":
            self.halted = time.time()

    def _judge(self):
        trace, record = Trace(self.relay.kept), Record.read(os.path.join(self.server.disk, "audit.jsonl"))
        destroyed = Destroyed(record.acts(), self.relay.writes, self.fs.block)
        journal = self.fs.layout(self.server.medium).journal
        blocks = {file: self._blocks(trace, file) for file in self.doomed}
        left = [tag for tag in verdicts.present(self.server.medium) if tag.file in self.gone]
        for tag in left[:3]:
            print(f"{self.fs.title}: left on the medium: {tag}", file=sys.stderr)
        commits = [trace.requests[index].time for index in trace.journal_blocks(COMMIT, journal, self.fs.block)]
        if self.fs.mode == "journal":
            yield "in place", self._row({file: it - journal for file, it in blocks.items()}, destroyed, commits, left)
        yield "and in the journal" if self.fs.mode == "journal" else "", self._row(blocks, destroyed, commits, left)

    def _row(self, blocks, destroyed, commits, left):
        at = {file: destroyed.at(blocks[file], doomed) for file, doomed in self.doomed.items() if blocks[file]}
        never = [file for file, when in at.items() if when is None]
        for file in never:
            print(f"{self.fs.title}: file {file}: no receipt", file=sys.stderr)
        known = {file: when for file, when in at.items() if when is not None}
        return {"never": len(never), "left": len(left),
                "seconds": [max(0, when - self.gone[file]) for file, when in known.items()],
                "commits": max((sum(self.gone[file] < it <= when for it in commits) for file, when in known.items()), default=0)
                if self.fs.has_journal else None,
                "halt": sum(when > self.halted for when in known.values())}

    def _blocks(self, trace, file):
        """Every block that the file's content was put into before it was deleted."""
        end = next((index for index, it in enumerate(trace.requests) if it.time > self.doomed[file]), None)
        return {span.start // self.fs.block for span in trace.spans_of(file, end)}


def by_row(samples):
    """(the row's name, the figures of all repetitions together)."""
    for (title,), found in samples.items():
        for where in found[0].rows:
            rows = [it.rows[where] for it in found]
            commits = [it["commits"] for it in rows if it["commits"] is not None]
            yield f"{title} {where}".strip(), {"seconds": sum((it["seconds"] for it in rows), []), "commits": max(commits, default=""),
                                               **{name: sum(it[name] for it in rows) for name in ("halt", "never", "left")}}


def in_words(name, found):
    times = [f"{percentile(found['seconds'], it):.2f} s" if found["seconds"] else "" for it in PERCENTILES]
    return [name, str(len(found["seconds"]) + found["never"]), *times, *(str(found[it]) for it in ("commits", "halt", "never", "left"))]
