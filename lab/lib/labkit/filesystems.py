"""The file systems that the lab knows: how each is made, mounted, checked and read.

A journal's mode is one of `MODES`: what `data=` says at the mount, or `none` for an
ext4 that is made without a journal. FAT16 and FAT12 are vfat with smaller entries,
exFAT and NTFS are mounted by FUSE where the guest's kernel has no driver of its own.
"""

from . import extfs, fatfs, ntfs, verdicts
from .guest import Guest, add_guest_arguments
from .layout import tool
from .workspace import LabError, need

MODES = ["journal", "ordered", "writeback", "none"]
_JOURNALED = {"ext3": MODES[:3], "ext4": MODES}
_FAT_BITS = {"vfat": 32, "fat16": 16, "fat12": 12}
# Below 65,525 clusters a volume is no FAT32; the rest is for what is no cluster.
_FAT32_CLUSTERS_MIN = 66_600
_PROGRAMS = {"exfat": ["mkfs.exfat", "fsck.exfat"], "ntfs": ["mkntfs", "ntfsfix", "ntfscat", "ntfsinfo"],
             **dict.fromkeys(_FAT_BITS, ["mkfs.vfat", "fsck.vfat"])}
_CHECKERS = {"exfat": ["fsck.exfat", "-n"], "ntfs": ["ntfsfix", "-n"], **dict.fromkeys(_FAT_BITS, ["fsck.vfat", "-n"])}
NAMES = ["ext2", "ext3", "ext4", *_FAT_BITS, "exfat", "ntfs"]
DEFAULT_MODE = "ordered"


class FileSystem:
    """One of `NAMES`, in a mode where it has one; `block` is what it allocates, in bytes.

    `driver` is what a guest mounts it with; `mount` and `mkfs` are words to add. With `cluster`
    it is an ext4 that allocates (bigalloc) so many bytes, of blocks that are smaller.
    """

    def __init__(self, name, mode=None, block=None, size=256 << 20, mkfs="", mount="", driver=None, cluster=None):
        if mode and mode not in _JOURNALED.get(name, []):
            raise LabError(f"unknown mode {mode} of {name}; expected {', '.join(_JOURNALED.get(name, [])) or 'none given'}")
        if cluster and name != "ext4":
            raise LabError(f"--cluster {cluster}: {name} has no clusters; ext4 has")
        self.name, self.mode, self.cluster = name, mode, cluster
        self.smallest = block or _block(name, size)
        self.block = cluster or self.smallest
        self.driver = driver or {"ntfs": "ntfs-3g"}.get(name, "vfat" if name in _FAT_BITS else name)
        self.mkfs_more, self.mount_more = mkfs, mount
        need(*_PROGRAMS.get(name, ["mke2fs", "dumpe2fs", "debugfs", "e2fsck"]))

    @property
    def title(self):
        """The name for people."""
        name = f"{self.name}, {self.mode}" if self.mode else self.name
        name += f", clusters of {self.cluster // self.smallest} blocks" if self.cluster else ""
        return name if self.driver in (self.name, "vfat", "ntfs-3g") else f"{name} by {self.driver}'s driver"

    @property
    def slug(self):
        """The name for files."""
        return "-".join(filter(None, [self.name, self.mode]))

    @property
    def has_journal(self):
        """Whether content and metadata pass through a journal of blocks."""
        return self.mode in MODES[:3]

    @property
    def has_slack(self):
        """Whether a file that shrinks may leave its old content in the block that it ends in."""
        return self.cluster is not None or not self.name.startswith("ext")

    @property
    def has_residents(self):
        """Whether small files lie in a table of the file system's, whose sectors are not only theirs."""
        return self.name == "ntfs"

    @property
    def rests_at_unmount(self):
        """Whether an unmount shows on the disk that all is written."""
        return self.name != "ntfs"

    @property
    def left_out(self):
        """The workload's operations that it does not know."""
        return [] if self.name.startswith("ext") or self.name == "ntfs" else ["link"]

    @property
    def loses_on_fsync(self):
        """Whether a power cut may take what was fsynced, whatever the disk does: its checker
        settles that two files claim a cluster by taking it from either."""
        return self.name in _FAT_BITS or self.name == "exfat"

    @property
    def checker_takes(self):
        """Whether the checker may overwrite what the disk has kept of a file: its metadata come in
        no order, so that after a cut a stale inode may claim another file's data as its pointers."""
        return self.name == "ext2"

    def mkfs(self):
        """The words for mkfs."""
        if self.name in _FAT_BITS:
            words = f"-F {_FAT_BITS[self.name]} -S 512 -s {self.block // 512}"
        elif self.name in ("exfat", "ntfs"):
            words = f"-c {self.block}"
        else:
            words = f"-E nodiscard -b {self.smallest}" + (" -O ^has_journal" if self.mode == "none" else "")
            words += f" -O bigalloc -C {self.cluster}" if self.cluster else ""
        return f"{words} {self.mkfs_more}".strip()

    def mount(self, *more):
        """The words for mount."""
        data = f"data={self.mode}" if self.has_journal else ""
        return ",".join(filter(None, [data, self.mount_more, *more]))

    def make(self, work, uri, more=""):
        """Makes the file system, in a guest that mounts it once; `more` is for mkfs."""
        fs = self.name if self.name.startswith("ext") else self.driver
        maker = Guest(work, uri, fs)
        maker.must(["true"], "--mkfs", f"{self.mkfs()} {more}".strip())

    def guest(self, work, uri, *more_mount, **options):
        """A `Guest` that mounts it."""
        return Guest(work, uri, self.driver, self.mount(*more_mount), **options)

    def layout(self, image):
        """The `Layout` of an image of it that is not mounted."""
        read = {"exfat": fatfs.exfat_layout, "ntfs": ntfs.layout, **dict.fromkeys(_FAT_BITS, fatfs.layout)}
        return read.get(self.name, extfs.layout)(image, self.block)

    def slack(self, image, dead, live, layout=None, carried=None, after_cut=False):
        """Those of the dead tags that no block's death is about: the slack of files, and what
        lies in a table of small files (then `layout` is that of the image). `after_cut`: a power cut
        may have undone that the end of a file's last block was zeroed, on any file system."""
        if not (self.has_slack or after_cut):
            return set()
        fixed = (layout or self.layout(image)).fixed if self.has_residents else ()
        return verdicts.slack(image, dead, live, self.block, fixed, carried)

    def complaints(self, image):
        """Complaints of its checker, which changes nothing: lines, empty if the image is sound."""
        checker = _CHECKERS.get(self.name, ["e2fsck", "-fn"])
        status, text = tool(*checker, image)
        return [] if status == 0 else text.splitlines() or [f"{checker[0]} ended with {status}"]


def _block(name, size):
    """A block's bytes: as small as the paper's where the size allows it."""
    if name in ("exfat", "ntfs"):
        return 4096
    if name == "vfat":
        return max(512, min(1024, 1 << (size // _FAT32_CLUSTERS_MIN).bit_length() - 1))
    if name in _FAT_BITS:
        most = 65_000 if name == "fat16" else 4_000
        return max(512, 1 << (size // most).bit_length())
    return 1024


def add_arguments(parser, default, several=False):
    """`--fs`, `--mode` and what goes with them, and which guest mounts it."""
    some = "some of " if several else ""
    parser.add_argument("--fs", default=default, help=f"{some}{','.join(NAMES)}{', or all' if several else ''} (default {default})")
    parser.add_argument("--mode", default=None, help=f"of ext3 and ext4: {some}{','.join(MODES)} (default: "
                        f"{'all with --fs all, else ' if several else ''}{DEFAULT_MODE}); none: an ext4 without journal")
    parser.add_argument("--block", type=int, default=None, help="block size of the file system, bytes (default 1024; exfat, ntfs: 4096)")
    parser.add_argument("--cluster", type=int, default=None, help="cluster size, bytes: makes an ext4 with bigalloc")
    parser.add_argument("--mkfs", default="", help="more arguments of mkfs")
    parser.add_argument("--mount-opts", default="", help="more options of the mount")
    parser.add_argument("--discard", action="store_true", help="mount with `discard`: the guest discards what it frees")
    add_guest_arguments(parser)


def chosen(options, size, driver=None):
    """The file systems that the options name, one for each mode."""
    names = NAMES if options.fs == "all" else options.fs.split(",")
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise LabError(f"unknown file system {', '.join(unknown)}; expected some of {', '.join(NAMES)}")
    mount = ",".join(filter(None, [options.mount_opts, "discard" if options.discard else ""]))
    return [FileSystem(name, mode, options.block, size, options.mkfs, mount, driver, options.cluster)
            for name in names for mode in _modes(name, options)]


def _modes(name, options):
    if name not in _JOURNALED:
        return [None]
    if options.mode is None:
        return _JOURNALED[name] if options.fs == "all" else [DEFAULT_MODE]
    modes = [mode for mode in options.mode.split(",") if mode in _JOURNALED[name]]
    if not modes:
        raise LabError(f"unknown mode {options.mode} of {name}; expected some of {', '.join(_JOURNALED[name])}")
    return modes
