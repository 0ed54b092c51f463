"""a disk that keeps a million epochs: open, list, read, forget; its memory and metadata

A guest writes some blocks anywhere on a sparse disk and flushes, and each flush closes an epoch (`--epoch flush`). Each block says
in which epoch it was written, so that every read of the past is checked. Then the disk is stopped, and served again; a page of a thousand
epochs is listed, the oldest epoch and the middle one are read, one is forgotten. The same again with a tenth of all epochs
forgotten from the middle, and after a kill.

Reads are of 4 KiB, at random among the blocks that the guest has written: requests a second, and the server's processor time, of the
current state and of the middle epoch, in turns. Metadata is what index and stubs take on the host; the index in memory is what
`quietus status` says, beside the memory of the whole server.

The bars: each step a second at most; reads of the middle epoch half as fast as those of the current state; 64 MiB of the index in memory;
metadata 4 % of what is stored.
"""

import contextlib
import json
import os
import random
import socket
import time
from collections import namedtuple

from .. import wire
from ..measure import allocated_bytes, fio, median, table
from ..servers import OFF, Versions, accepts, parse_size
from ..workspace import LabError, wait_until
from . import Benchmark

BLOCK = 4096
SECONDS_MAX, RATE_MIN, INDEX_MIB_MAX, METADATA_MAX = 1, 0.5, 64, 0.04
# Steps that take a second at most.
BOUNDED = ("open", "list", "read the oldest", "read the middle one", "forget one")
READS_MAX = 200_000


class Bench(Benchmark):
    """All steps are one case, of `quietus`."""

    # Steps: for each stage and step its seconds. Rates: by stage, reads a second and microseconds a read, now and then.
    Sample = namedtuple("Sample", "steps rates memory metadata filled")
    defaults = {"size": "100G", "repetitions": 1, "seconds": 3.0}
    short = {"size": "1G", "epochs": 2000, "seconds": 0.3}
    programs = ("fio",)
    fails_always = True

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--epochs", type=int, default=1_000_000, help="default %(default)s")
        parser.add_argument("--writes", type=int, default=4, help="blocks of each epoch (default %(default)s)")
        parser.add_argument("--spread", default="100G", help="blocks of an epoch lie within so many bytes (default %(default)s)")
        parser.add_argument("--seal", default="random-key", help="default %(default)s")
        parser.add_argument("--seed", type=int, default=1)

    def cases(self):
        return [("quietus",)]

    def sample(self, *case):
        self.steps, self.rates, self.memory = {}, {}, {}
        server = self.server(Versions, ["--epoch", "flush", "--idle-after", "10ms"], OFF, seal=self.options.seal)
        server.start_seconds_max = 600
        started = time.monotonic()
        self.fill(server)
        filled = time.monotonic() - started
        settle(server)
        metadata = metadata_share(server)
        oldest, middle, last = 1, self.options.epochs // 2, self.options.epochs
        server.stop()
        self.look(server, "all kept", oldest, middle)
        tenth = last // 20
        self.step("a tenth forgotten", "forget a tenth", lambda: forget(server, middle - tenth, middle + tenth - 1))
        server.stop()
        self.look(server, "a tenth forgotten", oldest + 1, middle + tenth)
        server.kill()
        self.step("killed", "open", lambda: open_disk(server))
        server.remove()
        return self.Sample(self.steps, self.rates, self.memory, metadata, filled)

    def places(self, epoch):
        rng = random.Random(self.options.seed << 40 | epoch)
        size = parse_size(self.options.size) // BLOCK
        spread = min(parse_size(self.options.spread) // BLOCK, size)
        first = rng.randrange(size - spread + 1)
        return [(first + rng.randrange(spread)) * BLOCK for _ in range(self.options.writes)]

    def fill(self, server):
        client = wire.Client(server.socket)
        for epoch in range(1, self.options.epochs + 1):
            for place in self.places(epoch):
                client.send(wire.WRITE, place, BLOCK, content(epoch))
            for _ in range(self.options.writes):
                if client.receive()[1]:
                    raise LabError(f"a write of epoch {epoch} failed: {server.said()}")
            client.call(wire.FLUSH, 0, 0)
        client.close()
        kept = server.tool("status")["store"]["epochs"]
        if kept != self.options.epochs:
            raise LabError(f"the disk keeps {kept} epochs, not {self.options.epochs}")

    def step(self, stage, what, action):
        started = time.monotonic()
        value = action()
        self.steps[f"{stage}: {what}"] = time.monotonic() - started
        return value

    def look(self, server, stage, oldest, middle):
        """Serves a disk that was stopped, and measures all steps."""
        self.step(stage, "open", lambda: open_disk(server))
        page = self.step(stage, "list", lambda: call(server, call="versions", **{"from": middle}))["versions"]
        if page[0]["epoch"] != middle or len(page) != min(1000, self.options.epochs - middle + 1):
            raise LabError(f"the page from epoch {middle} on has {len(page)} epochs, the first is {page[0]['epoch']}")
        self.step(stage, "read the oldest", lambda: self.check(server, oldest))
        self.step(stage, "read the middle one", lambda: self.check(server, middle))
        self.rates[stage] = self.read_both(server, middle)
        self.step(stage, "forget one", lambda: forget(server, oldest))
        resident = server.tool("status")["store"]["index_resident_bytes"]
        self.memory[stage] = [resident / (1 << 20), server.peak_kib() / 1024]

    def check(self, server, epoch):
        """Reads what an epoch wrote, and says if that is something else."""
        client = wire.Client(server.socket, export=f"{server.export}@{epoch}")
        for place in self.places(epoch):
            if client.call(wire.READ, place, BLOCK) != content(epoch):
                raise LabError(f"epoch {epoch} shows something else at {place}")
        client.close()

    def read_both(self, server, epoch):
        """Reads a second and processor time of each, of the current state and of an epoch."""
        rng, rates = random.Random(2), {}
        some = rng.sample(range(1, epoch + 1), min(epoch, READS_MAX // self.options.writes))
        places = [place for each in some for place in self.places(each)]
        log = self.work.file("reads")
        for turn in range(5):
            # The first turn only fills the host's cache.
            which = ["first", "now", "then"][turn and 1 + turn % 2]
            rng.shuffle(places)
            with open(log, "w") as file:
                file.write("fio version 2 iolog\ndisk add\ndisk open\n")
                file.writelines(f"disk read {place} {BLOCK}\n" for place in places)
                file.write("disk close\n")
            uri = f"nbd+unix:///{f'{server.export}@{epoch}' if which == 'then' else ''}?socket={server.socket}"
            before = server.cpu_ms()
            found = fio("--ioengine=nbd", f"--uri={uri}", f"--read_iolog={log}", "--iodepth=32", "--replay_no_stall=1",
                        "--time_based=0")
            spent = (server.cpu_ms() - before) * 1000 / max(1, found.requests)
            rates.setdefault(which, []).append((found.iops, spent))
        return {which: [median(of) for of in zip(*rates[which])] for which in ("now", "then")}

    def render(self, samples):
        found = samples["quietus",]
        one = lambda pick: median([pick(it) for it in found])
        rows = [[step, f"{one(lambda it, step=step: it.steps[step]):.3f} s"] for step in found[0].steps]
        for stage in found[0].rates:
            for which in ("now", "then"):
                rate, spent = (one(lambda it, n=n: it.rates[stage][which][n]) for n in (0, 1))
                what = "the current state" if which == "now" else "the middle epoch"
                rows.append([f"{stage}: reads of {what}", f"{rate / 1000:.1f} k/s, CPU {spent:.1f} us"])
            index, all_of_it = (one(lambda it, n=n: it.memory[stage][n]) for n in (0, 1))
            rows.append([f"{stage}: memory", f"index {index:.1f} MiB, server {all_of_it:.1f} MiB at most"])
        stored, taken = (one(lambda it, n=n: it.metadata[n]) for n in (0, 1))
        rows.append(["metadata", f"{taken / (1 << 20):,.0f} MiB, {100 * taken / stored:.2f} % of {stored / (1 << 20):,.0f} MiB"])
        filled = one(lambda it: it.filled)
        rows.append(["all epochs written and closed", f"{filled:,.0f} s, {self.options.epochs / filled:,.0f} a second"])
        return table(["step", "result"], rows)

    def missed(self, samples):
        for it in samples["quietus",]:
            for step, seconds in it.steps.items():
                if step.endswith(BOUNDED) and not step.startswith("killed") and seconds > SECONDS_MAX:
                    yield f"{step}: {seconds:.2f} s"
            for stage, rates in it.rates.items():
                share = rates["then"][0] / rates["now"][0]
                if share < RATE_MIN:
                    yield f"{stage}: reads of the middle epoch have {share:.2f} of the current rate"
                if it.memory[stage][0] > INDEX_MIB_MAX:
                    yield f"{stage}: {it.memory[stage][0]:.1f} MiB of the index in memory"
            stored, taken = it.metadata
            if taken > METADATA_MAX * stored:
                yield f"metadata: {100 * taken / stored:.2f} % of what is stored"


def open_disk(server):
    """Serves a disk; returns when NBD and the control socket are there."""
    control = os.path.join(server.disk, "control.sock")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(control)
    server.start()
    wait_until(control, lambda: accepts(control), 600, 0.002)


def content(epoch):
    return epoch.to_bytes(8, "big") * (BLOCK // 8)


def call(server, **words):
    """The answer to one call of the control socket."""
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(os.path.join(server.disk, "control.sock"))
        control.sendall(json.dumps(words).encode() + b"\n")
        answers = [json.loads(line) for line in control.makefile("rb")]
    if "ok" not in answers[-1]:
        raise LabError(f"{words}: {answers[-1]}")
    return answers[-1]["ok"]


def forget(server, first, last=None):
    """Forgets epochs; returns when what only they showed is destroyed."""
    call(server, call="forget", epochs={"from": str(first), "to": str(last or first)}, wait=True)


def settle(server, seconds=60):
    """Waits until the log of stubs is short and the files grow no more, or for so long."""
    for _ in range(seconds):
        before = allocated_bytes(server.disk)
        time.sleep(1)
        if allocated_bytes(server.disk) == before:
            return


def metadata_share(server):
    """Bytes stored, and what index and stubs take on the host."""
    stored = server.tool("status")["store"]["stored_bytes"]
    names = [name for name in os.listdir(server.disk) if name not in ("data", "control.sock")]
    return stored, sum(allocated_bytes(os.path.join(server.disk, name)) for name in names)
