"""The mark of `chattr +s`, set by a guest on a file, or by the lab in an image."""

import fcntl
import os
import re
import struct

from .layout import said_by

FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, SECRM = 0x80086601, 0x40086602, 1
# Of an inode of ext: its mode, how many names it has, its flags.
_MODE_AT, _LINKS_AT, _FLAGS_AT = 0, 26, 32
_FIRST_INODE = 11
_TABLE = re.compile(r"Inode table at (\d+)-(\d+)")
_SIZES = {name: re.compile(rf"^{name}:\s+(\d+)$", re.MULTILINE) for name in ("Block size", "Inode size", "Inodes per group")}


def mark(path):
    """What `chattr +s` does."""
    file = os.open(path, os.O_RDONLY)
    try:
        flags, = struct.unpack("L", fcntl.ioctl(file, FS_IOC_GETFLAGS, bytes(struct.calcsize("L"))))
        fcntl.ioctl(file, FS_IOC_SETFLAGS, struct.pack("L", flags | SECRM))
    finally:
        os.close(file)


def make_marked(path):
    """A new folder with the mark; what is made in it inherits that."""
    os.mkdir(path)
    mark(path)


def mark_image(image, every):
    """Marks each `every`th file and folder of an ext2 image without checksums, and takes the mark from all others (0: from all);
    how many are marked."""
    text = said_by("dumpe2fs", image)
    block, size, per_group = (int(found.search(text)[1]) for found in _SIZES.values())
    marked = 0
    with open(image, "r+b") as file:
        for group, (first, _) in enumerate(_TABLE.findall(text)):
            file.seek(int(first) * block)
            table = bytearray(file.read(per_group * size))
            marked += _mark_table(table, size, group * per_group + 1, every)
            file.seek(int(first) * block)
            file.write(table)
        os.fsync(file.fileno())
    return marked


def _mark_table(table, size, first, every):
    """The same in one table, whose first inode has the number `first`. Inodes that are free stay as they are."""
    marked = 0
    for at in range(0, len(table), size):
        number = first + at // size
        mode, links = (int.from_bytes(table[at + of:at + of + 2], "little") for of in (_MODE_AT, _LINKS_AT))
        if number >= _FIRST_INODE and mode and links:
            is_chosen = bool(every) and number % every == 0
            table[at + _FLAGS_AT] = table[at + _FLAGS_AT] & ~SECRM | SECRM * is_chosen
            marked += is_chosen
    return marked
