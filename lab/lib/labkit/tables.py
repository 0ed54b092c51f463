"""The agreement of lab/partitions and its guest: the tables, and the files in each partition."""

from . import sectors

# Number, MiB, file system: at first, and after the table was rewritten.
BEFORE = [(1, 32, "ext2"), (2, 48, "vfat"), (3, 48, "ext4")]
MADE_ANEW = 2
AFTER = [(1, 32, "ext2"), (2, 40, "ext2"), (3, 48, "ext4"), (4, 24, "vfat")]
START_MIB = {1: 1, 2: 40, 3: 96, 4: 150}
DISK_BYTES = 192 << 20
TYPES = {"dos": {"ext2": "83", "ext4": "83", "vfat": "c"},
         "gpt": {**dict.fromkeys(["ext2", "ext4"], "0FC63DAF-8483-4772-8E79-3D69D8477DE4"),
                 "vfat": "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"}}
NAMES = ["kept", "doomed"]
_SECTORS = 1024


def tags(step, number, name):
    """Those of a file: written in step 1 (`make`) or 2 (`change`), to partition `number`."""
    file = 10 * number + NAMES.index(name)
    return [sectors.Tag(step, file, 0, at, 0, 1) for at in range(_SECTORS)]


def living():
    """The tags that are to be there at the end."""
    kept = [(step, it[0]) for it in AFTER for step in ([1, 2] if it in BEFORE else [2])]
    return {tag for step, number in kept for tag in tags(step, number, "kept")}
