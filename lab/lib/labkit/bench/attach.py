"""how fast an existing large ext2 is scanned, and in how much memory

Makes an image with a given number of files (mke2fs -d, from a tree that is made for it), adopts it as
a disk, and times how long the server takes from its start until it has read every inode and every
block of pointers. Beside it: `e2image` (which reads the same metadata), and `dumpe2fs` plus reading
the inode tables once. A disk of another size with as many files is served, too, and the server's
peak memory is held against 4 bits for each 4 KiB.

The large disk is served once more with marks followed (`serve --sensitive marked`): with none set, on a tenth of the files and
folders, and on all. Meanwhile a client reads blocks anywhere and writes them back, one after the other; the longest request, and how often the status
told of progress, are counted.

The bars: as fast as the slower of the two, and those 4 bits; with a tenth marked, 1 bit more for each 4 KiB, and without a mark
none; no request that takes a tenth of the time of the attach.
"""

import os
import random
import shutil
import subprocess
import threading
import time
from collections import namedtuple

from .. import extfs, wire
from ..layout import said_by
from ..marking import mark_image
from ..measure import table
from ..servers import MARKED, Quietus, parse_size
from ..workspace import LabError
from . import Benchmark, medians, ratio

FILES_A_DIRECTORY = 1000
SMALL_BYTES, LARGE_BYTES, LARGE_EVERY = 2000, 100_000, 100
BITS_A_BLOCK_MAX = 4
BLOCK_BYTES = 4096
ATTACH, LARGE, IMAGE, DUMP = "cold attach", "cold attach of the large", "e2image", "dumpe2fs, and the inode tables read once"


# By how they are called: each how many-th file is marked, and how many bits that may take for each 4 KiB.
Marks = namedtuple("Marks", "every bits_max")
MARKS = {f"{LARGE}, marks followed, {share}": it for share, it in
         {"none set": Marks(0, 0.1), "a tenth": Marks(10, 1), "all": Marks(1, None)}.items()}


class Adopted(Quietus):
    """A disk that is an image which was there before."""

    def __init__(self, work, name, image, serve_options=()):
        self.image = image
        super().__init__(work, name, os.path.getsize(image), serve_options=serve_options)

    def create(self):
        self.disk = os.path.join(self.directory, "disk")
        self.medium = self.image
        self.tool("create", "--adopt", self.image, "--idle-after", "1h")


class Bench(Benchmark):
    """Each way to know of the image is a case."""

    # Peak memory in KiB; what was counted: blocks that pointers name, blocks of pointers, marked inodes; the longest request in seconds,
    # and how many different figures of progress the status had.
    Sample = namedtuple("Sample", "seconds peak_kib named pointers marked longest progress", defaults=(None,) * 6)
    defaults = {"size": "100G", "repetitions": 3}
    short = {"size": "1G", "large": "2G", "files": 2000, "repetitions": 1}
    programs = ("mke2fs", "e2image", "dumpe2fs")

    def __init__(self, options, work):
        super().__init__(options, work)
        self.image, self.large = self.images()

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--large", default="1T", help="of the disk whose memory is measured (default %(default)s)")
        parser.add_argument("--files", type=int, default=1_000_000, help="default %(default)s")
        parser.add_argument("--keep", metavar="DIR", help="where the images are kept for the next time")

    def images(self):
        """The two images, made if they are not there."""
        options = self.options
        directory = options.keep or self.work.directory("images")
        os.makedirs(directory, exist_ok=True)
        paths = {size: os.path.join(directory, f"ext2-{size}-{options.files}") for size in (options.size, options.large)}
        if not all(map(os.path.exists, paths.values())):
            tree = self.work.directory("tree")
            make_tree(tree, options.files)
            inodes = str(options.files + options.files // FILES_A_DIRECTORY + 1000)
            for size, path in paths.items():
                extfs.make(path, "ext2", parse_size(size), "-N", inodes, "-d", tree)
            shutil.rmtree(tree)
        return paths[options.size], paths[options.large]

    def cases(self):
        return [(way,) for way in (ATTACH, IMAGE, DUMP, LARGE, *MARKS)]

    def sample(self, way):
        if way == ATTACH:
            return self.attach(self.image)
        if way == LARGE or way in MARKS:
            mark_image(self.large, MARKS[way].every if way in MARKS else 0)
            return self.attach(self.large, MARKED if way in MARKS else (), is_busy=True)
        started = time.monotonic()
        if way == IMAGE:
            subprocess.run(["e2image", self.image, self.work.file("e2image")], check=True, capture_output=True)
        else:
            dump_and_read(self.image)
        return self.Sample(time.monotonic() - started)

    def attach(self, image, serve=(), is_busy=False):
        """The time until everything is known; with a client at work, if it `is_busy`."""
        server, progress = Adopted(self.work, self.next_name(), image, serve), set()
        started = time.monotonic()
        server.start()
        client = Busy(server.socket, os.path.getsize(image)) if is_busy else None
        while not (figures := all_that_is_known(server, progress)):
            time.sleep(0.02)
        seconds, peak = time.monotonic() - started, server.peak_kib()
        longest = client.end() if client else None
        server.kill()
        server.remove()
        return self.Sample(seconds, peak, figures["named by pointers"], figures["pointer blocks"], figures.get("marked inodes", 0),
                           longest, len(progress))

    def render(self, samples):
        rows = [[way, f"{medians(found, 'seconds')[0]:.2f}"] for (way,), found in samples.items()]
        text = table(["", "seconds"], rows + [[f"attach / {way}", f"{found:.2f}"] for way, found in against(samples).items()])
        for way, size in ((ATTACH, self.options.size), (LARGE, self.options.large)):
            for found in filter(None, [samples.get((way,))]):
                peak, named, pointers = medians(found, "peak_kib", "named", "pointers")
                text += (f"\n\nBelow {size}: {named:,.0f} blocks named, {pointers:,.0f} blocks of pointers; the server's peak "
                         f"memory is {peak / 1024:.0f} MiB, {bits(found, size):.2f} bits for each 4 KiB.")
        head = ["attach of the large", "seconds", "marked inodes", "peak memory", "bits for each 4 KiB", "more", "longest request", "progress told"]
        rows = [self.row(samples, way) for way in (LARGE, *MARKS) if (way,) in samples]
        return f"{text}\n\n{table(head, rows)}" if rows else text

    def row(self, samples, way):
        seconds, peak, marked, longest, progress = medians(samples[way,], "seconds", "peak_kib", "marked", "longest", "progress")
        return [way, f"{seconds:.2f}", f"{marked:,.0f}", f"{peak / 1024:.0f} MiB", f"{bits(samples[way,], self.options.large):.2f}",
                f"{self.more(samples, way):+.2f}" if way in MARKS and (LARGE,) in samples else "", f"{longest * 1000:.0f} ms", f"{progress:.0f} times"]

    def more(self, samples, way):
        """Bits for each 4 KiB that marks take."""
        return bits(samples[way,], self.options.large) - bits(samples[LARGE,], self.options.large)

    def missed(self, samples):
        for way, marks in MARKS.items():
            if marks.bits_max is not None and {(way,), (LARGE,)} <= set(samples) and self.more(samples, way) > marks.bits_max:
                yield f"{way}: {self.more(samples, way):.2f} bits more for each 4 KiB"
            for found in filter(None, [samples.get((way,))]):
                longest, seconds = medians(found, "longest", "seconds")
                if longest > seconds / 10:
                    yield f"{way}: a request took {longest:.2f} s of {seconds:.2f} s"
        found = min(against(samples).values(), default=0)
        if found > 1:
            yield f"cold attach takes {found:.2f} times as long as the slower of the two"
        if (LARGE,) in samples and bits(samples[LARGE,], self.options.large) > BITS_A_BLOCK_MAX:
            yield f"more than {BITS_A_BLOCK_MAX} bits for each 4 KiB"


class Busy(threading.Thread):
    """A client that reads blocks anywhere, and writes each back as it was."""

    def __init__(self, path, size):
        super().__init__(daemon=True)
        self.client, self.size, self.rng, self.longest, self.is_over = wire.Client(path, timeout=600), size, random.Random(1), 0, False
        self.start()

    def run(self):
        while not self.is_over:
            place = self.rng.randrange(self.size // BLOCK_BYTES) * BLOCK_BYTES
            content = self.timed(wire.READ, place)
            self.timed(wire.WRITE, place, content)
            time.sleep(0.005)

    def timed(self, command, place, payload=b""):
        """One request; what was read."""
        started = time.monotonic()
        content = self.client.call(command, place, BLOCK_BYTES, payload)
        self.longest = max(self.longest, time.monotonic() - started)
        return content

    def end(self):
        """Ends it; the seconds of the longest request."""
        self.is_over = True
        self.join()
        self.client.close()
        return self.longest


def against(samples):
    """The time of the attachment against that of the other ways."""
    found = {way: ratio(samples, (ATTACH,), (way,), "seconds") for way in (IMAGE, DUMP)}
    return {way: it for way, it in found.items() if it is not None}


def bits(samples, size):
    """Of memory, for each 4 KiB of the disk."""
    return medians(samples, "peak_kib")[0] * 1024 * 8 / (parse_size(size) / 4096)


def make_tree(root, files):
    """Files of a few sizes: most of one block, each hundredth with pointers of its own."""
    small, large = b"s" * SMALL_BYTES, b"l" * LARGE_BYTES
    for number in range(files):
        directory = os.path.join(root, str(number // FILES_A_DIRECTORY))
        if number % FILES_A_DIRECTORY == 0:
            os.makedirs(directory)
        with open(os.path.join(directory, str(number)), "wb", buffering=0) as file:
            file.write(large if number % LARGE_EVERY == 0 else small)


def all_that_is_known(server, progress):
    """The figures of what the server watches, once it has read everything; None before, when `progress` gets how much it has read."""
    watch = server.tool("status")["watch"]
    if watch["progress"]:
        progress.add((watch["progress"]["done_bytes"], watch["progress"]["of_bytes"]))
    if watch["file_system"] and watch["progress"] is None:
        return {it["name"]: it["value"] for it in watch["figures"]}
    if watch["file_system"] is None and "looking" not in watch["state"] and "nothing" not in watch["state"]:
        raise LabError(f"quietus does not watch the image: {watch['state']}")
    return None


def dump_and_read(image):
    """dumpe2fs, and then the inode tables read once, in order."""
    text = said_by("dumpe2fs", image)
    with open(image, "rb", buffering=0) as file:
        for line in text.splitlines():
            if "Inode table at" in line:
                first, last = line.split("Inode table at ")[1].split(" ")[0].split("-")
                file.seek(int(first) * 4096)
                file.read((int(last) - int(first) + 1) * 4096)
