"""how fast a large ext2 is known that was there before, and in how much memory

Makes an image with a given number of files (mke2fs -d, from a tree that is made for it), adopts it as
a disk, and times how long the server takes from its start until it has read every inode and every
block of pointers. Beside it: `e2image` (which reads the same metadata), and `dumpe2fs` plus reading
the inode tables once. A disk of another size with as many files is served, too, and the server's
peak memory is held against 4 bits for each 4 KiB.

The bars: as fast as the slower of the two, and those 4 bits.
"""

import os
import shutil
import subprocess
import time
from collections import namedtuple

from .. import extfs
from ..measure import table
from ..servers import Quietus, parse_size
from ..workspace import LabError
from . import Benchmark, medians, ratio

FILES_A_DIRECTORY = 1000
SMALL_BYTES, LARGE_BYTES, LARGE_EVERY = 2000, 100_000, 100
BITS_A_BLOCK_MAX = 4
ATTACH, LARGE, IMAGE, DUMP = "cold attach", "cold attach of the large", "e2image", "dumpe2fs, and the inode tables read once"


class Adopted(Quietus):
    """A disk that is an image which was there before."""

    def __init__(self, work, name, image):
        self.image = image
        super().__init__(work, name, os.path.getsize(image))

    def create(self):
        self.disk = os.path.join(self.directory, "disk")
        self.medium = self.image
        self.tool("create", "--adopt", self.image, "--idle-after", "1h")


class Bench(Benchmark):
    """Each way to know of the image is a case."""

    # Peak memory in KiB; what was counted: blocks that pointers name, and blocks of pointers.
    Sample = namedtuple("Sample", "seconds peak_kib named pointers", defaults=(None,) * 3)
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
        return [(way,) for way in (ATTACH, IMAGE, DUMP, LARGE)]

    def sample(self, way):
        if way in (ATTACH, LARGE):
            return self.attach(self.image if way == ATTACH else self.large)
        started = time.monotonic()
        if way == IMAGE:
            subprocess.run(["e2image", self.image, self.work.file("e2image")], check=True, capture_output=True)
        else:
            dump_and_read(self.image)
        return self.Sample(time.monotonic() - started)

    def attach(self, image):
        """The time until everything is known."""
        server = Adopted(self.work, self.next_name(), image)
        started = time.monotonic()
        server.start()
        while not (figures := all_that_is_known(server)):
            time.sleep(0.02)
        seconds, peak = time.monotonic() - started, server.peak_kib()
        server.kill()
        server.remove()
        return self.Sample(seconds, peak, figures["named by pointers"], figures["pointer blocks"])

    def render(self, samples):
        rows = [[way, f"{medians(found, 'seconds')[0]:.2f}"] for (way,), found in samples.items()]
        text = table(["", "seconds"], rows + [[f"attach / {way}", f"{found:.2f}"] for way, found in against(samples).items()])
        for way, size in ((ATTACH, self.options.size), (LARGE, self.options.large)):
            for found in filter(None, [samples.get((way,))]):
                peak, named, pointers = medians(found, "peak_kib", "named", "pointers")
                text += (f"\n\nBelow {size}: {named:,.0f} blocks named, {pointers:,.0f} blocks of pointers; the server's peak "
                         f"memory is {peak / 1024:.0f} MiB, {bits(found, size):.2f} bits for each 4 KiB.")
        return text

    def missed(self, samples):
        found = min(against(samples).values(), default=0)
        if found > 1:
            yield f"cold attach takes {found:.2f} times as long as the slower of the two"
        if (LARGE,) in samples and bits(samples[LARGE,], self.options.large) > BITS_A_BLOCK_MAX:
            yield f"more than {BITS_A_BLOCK_MAX} bits for each 4 KiB"


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


def all_that_is_known(server):
    """The figures of what the server watches, once it has read everything; None before."""
    watch = server.tool("status")["watch"]
    if watch["file_system"] and watch["progress"] is None:
        return dict(watch["figures"])
    if watch["file_system"] is None and "looking" not in watch["state"] and "nothing" not in watch["state"]:
        raise LabError(f"quietus does not watch the image: {watch['state']}")
    return None


def dump_and_read(image):
    """dumpe2fs, and then the inode tables read once, in order."""
    text = subprocess.run(["dumpe2fs", image], check=True, capture_output=True, text=True).stdout
    with open(image, "rb", buffering=0) as file:
        for line in text.splitlines():
            if "Inode table at" in line:
                first, last = line.split("Inode table at ")[1].split(" ")[0].split("-")
                file.seek(int(first) * 4096)
                file.read((int(last) - int(first) + 1) * 4096)
