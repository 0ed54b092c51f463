"""What e2fsprogs say of a raw image."""

import re
import subprocess

from .workspace import LabError

_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")
_FIXED = re.compile(r"(?:superblock|descriptors|GDT blocks|bitmap|Inode table) at (\d+(?:-\d+)?)")


def _tool(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def _spans(text):
    return [range(int(match[1]), int(match[2] or match[1]) + 1) for match in _NUMBERS.finditer(text)]


class Layout:
    """The blocks of an ext2 image: which are free, which belong to no file ever."""

    def __init__(self, free, fixed):
        self.free, self.fixed = free, fixed

    @classmethod
    def read(cls, image):
        """From dumpe2fs; LabError if it cannot."""
        status, text = _tool("dumpe2fs", image)
        if status != 0:
            raise LabError(f"dumpe2fs {image}: {text[-300:]}")
        return cls.parse(text)

    @classmethod
    def parse(cls, text):
        """From what dumpe2fs prints."""
        free, fixed = set(), set()
        for line in text.splitlines():
            if line.strip().startswith("Free blocks:"):
                free.update(*_spans(line.partition(":")[2]))
            for place in _FIXED.findall(line):
                fixed.update(*_spans(place))
        return cls(free, fixed)


def complaints(image):
    """What e2fsck -fn has against the image: lines, none if it is sound."""
    status, text = _tool("e2fsck", "-fn", image)
    return [] if status == 0 else text.splitlines()
