"""Backup programs behind one face, and what the benchmarks put into them: ours, and the peers it is compared with."""

import copy
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import namedtuple

from .servers import quietus_binary
from .workspace import LabError

KIB, MIB = 1 << 10, 1 << 20
PIECE = 512
# How long one command took, its processor time, the most memory that it had, and what it wrote, as the kernel counts it.
Cost = namedtuple("Cost", "seconds cpu peak_mib written_mib")


def add_costs(costs):
    """The cost of commands that ran one after another."""
    seconds, cpu, peaks, written = zip(*costs)
    return Cost(sum(seconds), sum(cpu), max(peaks), sum(written))


# A process starts with its parent's resident set as its peak: a small one has to start what is measured.
_LAUNCHER = """
import os, sys
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(pid, 0)
os.write(int(sys.argv[1]), b"%d %f %d %d" % (os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss, used.ru_oublock))
"""


def timed(argv, env=None, cwd=None):
    """Runs a command that has to succeed: its output, and its `Cost`."""
    reader, writer = os.pipe()
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-I", "-S", "-c", _LAUNCHER, str(writer), *argv], stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd, env={**os.environ, **(env or {})}, pass_fds=[writer])
    seconds = time.monotonic() - started
    os.close(writer)
    with open(reader, "rb") as file:
        used = file.read().split()
    if not used or int(used[0]):
        said = done.stdout[-500:].decode(errors="replace").strip()
        raise LabError(f"{' '.join(argv)}: status {int(used[0]) if used else 'unknown'}: {said}")
    return done.stdout, Cost(seconds, float(used[1]), int(used[2]) / KIB, int(used[3]) * 512 / MIB)


class Backup:
    """A repository of one program. `plain` has no compression, and no encryption where the program can do without."""

    kind = ""
    programs = ()      # that it needs
    raw_search = ""    # what a search of the raw repository looks for

    def __init__(self, path, home, plain=False):
        self.path, self.home, self.plain, self.snapshots = path, home, plain, []
        os.makedirs(home, exist_ok=True)
        self.run(*self.init())

    def run(self, *words, cwd=None):
        """Runs a command of the program; its output, and its cost."""
        return timed(self.argv(*words), self.env(), cwd)

    def env(self):
        return {"HOME": self.home, "XDG_CACHE_HOME": os.path.join(self.home, "cache")}

    def needles(self, contents):
        """What a search has to find of these files as long as they are in the repository."""
        return Needles({content[:16]: PIECE for content in contents}, contents)


class Vault(Backup):
    kind = "quietus"
    raw_search = "the content"

    def env(self):
        return {**super().env(), "QUIETUS_LOG": "error"}

    def argv(self, name, *words):
        return [quietus_binary(), "--json", "vault", name, self.path, *words]

    def init(self):
        return ["init", *(["--compress", "none"] if self.plain else [])]

    def put(self, tree):
        said, cost = self.run("put", "tree", tree)
        self.snapshots.append(str(json.loads(said)["snapshot"]))
        return cost

    def restore(self, into):
        return self.run("get", self.snapshots[-1], "--into", into)[1]

    def list(self):
        return self.run("list", self.snapshots[-1])[1]

    def forget(self, snapshots):
        return add_costs([self.run("forget", *snapshots)[1], self.run("sanitize")[1]])

    def copied(self, path):
        vault = copy.copy(self)
        vault.path = path
        subprocess.run(["cp", "-a", "--sparse=always", self.path, path], check=True)
        return vault


class Restic(Backup):
    """A repository of restic, which encrypts always: what it had stored for the content is searched for, not the content."""

    kind = "restic"
    programs = ("restic",)
    raw_search = "the ciphertext that the index names for it"

    def env(self):
        return {**super().env(), "RESTIC_PASSWORD": "lab"}

    def argv(self, *words):
        return ["restic", "--repo", self.path, *(["--compression", "off"] if self.plain else []), *words]

    def init(self):
        return ["init"]

    def put(self, tree):
        said, cost = self.run("--json", "backup", tree)
        self.snapshots.append(json.loads(said.splitlines()[-1])["snapshot_id"])
        return cost

    def restore(self, into):
        return self.run("restore", self.snapshots[-1], "--target", into)[1]

    def list(self):
        return self.run("ls", "--long", self.snapshots[-1])[1]

    def forget(self, snapshots):
        return self.run("forget", "--prune", "--max-unused", "0", *snapshots)[1]

    def indexes(self):
        return self.run("list", "index")[0].decode().split()

    def needles(self, contents):
        wanted, found = {sha256(content) for content in contents}, []
        for name in self.indexes():
            for pack in json.loads(self.run("cat", "index", name)[0])["packs"]:
                with open(os.path.join(self.path, "data", pack["id"][:2], pack["id"]), "rb") as file:
                    for blob in pack["blobs"]:
                        if blob["id"] in wanted:
                            found.append(os.pread(file.fileno(), blob["length"], blob["offset"]))
        return Needles({blob[:16]: len(blob) for blob in found}, found)


class Rustic(Restic):
    """A repository of rustic, in restic's format. Its prune is told not to wait for readers, which it does for a day by default."""

    kind = "rustic"
    programs = ("rustic",)

    def env(self):
        return {**super().env(), "RUSTIC_PASSWORD": "lab"}

    def argv(self, *words):
        return ["rustic", "--no-progress", "--log-level", "error", "--repository", self.path, *words]

    def init(self):
        return ["init", *(["--set-compression", "0"] if self.plain else [])]

    def put(self, tree):
        said, cost = self.run("backup", "--json", tree)
        self.snapshots.append(json.loads(said)["id"])
        return cost

    def restore(self, into):
        return self.run("restore", self.snapshots[-1], into)[1]

    def forget(self, snapshots):
        return self.run("forget", "--prune", "--instant-delete", "--max-unused", "0", "--keep-pack", "0s", "--keep-delete", "0s", *snapshots)[1]

    def indexes(self):
        return re.findall("[0-9a-f]{64}", self.run("list", "index")[0].decode())


class Kopia(Backup):
    """A repository of kopia, which encrypts always and does not say where in its files content lies."""

    kind = "kopia"
    programs = ("kopia",)
    raw_search = "nothing: it encrypts, and names no places"

    def __init__(self, path, home, plain=False):
        super().__init__(path, home, plain)
        self.run("policy", "set", "--global", "--compression", "none" if plain else "zstd-fastest")

    def env(self):
        return {**super().env(), "KOPIA_PASSWORD": "lab", "KOPIA_CHECK_FOR_UPDATES": "false"}

    def argv(self, *words):
        return ["kopia", "--no-progress", "--log-level", "error", "--config-file", os.path.join(self.home, "kopia.config"), *words]

    def init(self):
        return ["repository", "create", "filesystem", "--path", self.path]

    def put(self, tree):
        self.tree = tree
        said, cost = self.run("snapshot", "create", "--json", tree)
        self.snapshots.append(json.loads(said[said.index(b"{"):])["id"])
        return cost

    def restore(self, into):
        # It restores what is in the folder, and not the folder's path.
        return self.run("restore", self.snapshots[-1], os.path.join(into, self.tree.lstrip("/")))[1]

    def list(self):
        return self.run("ls", "--long", "--recursive", self.snapshots[-1])[1]

    def forget(self, snapshots):
        done = [self.run("snapshot", "delete", "--delete", *snapshots)[1]]
        return add_costs([*done, self.run("maintenance", "run", "--full", "--safety", "none")[1]])

    def needles(self, contents):
        return Needles({}, [])


class Borg(Backup):
    kind = "borg"
    programs = ("borg",)
    raw_search = "the content"

    def env(self):
        yes = ("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "BORG_RELOCATED_REPO_ACCESS_IS_OK")
        return {**super().env(), "BORG_BASE_DIR": self.home, **dict.fromkeys(yes, "yes")}

    def argv(self, *words):
        return ["borg", *words]

    def init(self):
        return ["init", "--encryption", "none", self.path]

    def put(self, tree):
        self.snapshots.append(f"tree-{len(self.snapshots)}")
        return self.run("create", *(["--compression", "none"] if self.plain else []), f"{self.path}::{self.snapshots[-1]}", tree)[1]

    def restore(self, into):
        os.makedirs(into)
        return self.run("extract", f"{self.path}::{self.snapshots[-1]}", cwd=into)[1]

    def list(self):
        return self.run("list", f"{self.path}::{self.snapshots[-1]}")[1]

    def forget(self, snapshots):
        return add_costs([self.run("delete", self.path, *snapshots)[1], self.run("compact", "--threshold", "0", self.path)[1]])


BACKUPS = {it.kind: it for it in (Vault, Restic, Rustic, Kopia, Borg)}


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Needles:
    """Pieces of 512 bytes that a search finds where they stand behind an anchor: `anchors` has how many bytes to look at from each."""

    def __init__(self, anchors, contents):
        self.anchors = anchors
        self.pieces = {content[at:at + PIECE] for content in contents for at in range(0, len(content) - PIECE + 1, PIECE)}
        self.longest = max(anchors.values(), default=PIECE)

    def bytes(self):
        """Bytes of all pieces."""
        return len(self.pieces) * PIECE

    def found_in(self, paths):
        """Bytes of the pieces that are anywhere in these files."""
        found = set()
        for path in paths:
            for data in windows(path, self.longest):
                for anchor, length in self.anchors.items():
                    self.look(data, anchor, length, found)
        return len(found) * PIECE

    def look(self, data, anchor, length, found):
        """Adds the pieces behind each place of an anchor."""
        at = data.find(anchor)
        while at >= 0:
            found |= self.pieces & {data[start:start + PIECE] for start in range(at, at + length, PIECE)}
            at = data.find(anchor, at + 1)


def windows(path, overlap, length=64 * MIB):
    """The content of a file but for its holes, in pieces; each begins with the last `overlap` bytes of the one before."""
    with open(path, "rb") as file:
        at, end = 0, os.fstat(file.fileno()).st_size
        while at < end:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                return
            hole = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            for start in range(at, hole, length):
                before = min(overlap, start - at)
                yield os.pread(file.fileno(), min(length, hole - start) + before, start - before)
            at = hole


def files_below(top):
    """The paths of all files of a folder and below."""
    return [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]


class Tree:
    """Files that change from generation to generation, half of their bytes text and half random; the same for the same seed."""

    EDIT = 64 * KIB
    TEXT = 4 * MIB

    def __init__(self, path, size, seed, canary_bytes=0):
        self.path, self.size, self.seed, self.canary_bytes = path, size, seed, canary_bytes
        self.rng, self.generation, self.files, self.canaries = random.Random(seed), 0, [], []
        self.text = self.words()
        written = 0
        while written < size:
            # From 4 KiB to 4 MiB, each magnitude as often as the others.
            length = min(size - written, int(4 * KIB * 2 ** self.rng.uniform(0, 10)))
            written += length
            folder = os.path.join(path, f"{len(self.files) // 1000}", f"{len(self.files) // 50}")
            os.makedirs(folder, exist_ok=True)
            self.files.append((os.path.join(folder, f"file {len(self.files)}"), length))
            with open(self.files[-1][0], "wb") as file:
                for at in range(0, length, MIB):
                    file.write(self.content(len(self.files), min(MIB, length - at)))
        self.place_canaries()

    def words(self):
        """A text from which those of the files are made."""
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        pool = ["".join(self.rng.choices(letters, k=self.rng.randrange(2, 11))) for _ in range(3000)]
        weights = [1 / (rank + 1) for rank in range(len(pool))]
        words = self.rng.choices(pool, weights, k=self.TEXT // 4)
        return " ".join(words).encode()[:self.TEXT]

    def content(self, number, length):
        """Content that is nowhere else: random bytes, or the text in letters of its own."""
        if number % 2:
            return self.rng.randbytes(length)
        letters = bytearray(range(97, 123))
        self.rng.shuffle(letters)
        at = self.rng.randrange(len(self.text) - length + 1)
        return self.text[at:at + length].translate(bytes.maketrans(bytes(range(97, 123)), letters))

    def edit(self, share):
        """The next generation: that share of all bytes is replaced, in pieces of 64 KiB at most; it has canaries of its own."""
        self.generation += 1
        left = int(self.size * share)
        while left > 0:
            number = self.rng.randrange(len(self.files))
            path, length = self.files[number]
            piece = min(self.EDIT, length, left)
            with open(path, "r+b") as file:
                file.seek(self.rng.randrange(length - piece + 1))
                file.write(self.content(number + 1, piece))
            left -= piece
        self.place_canaries()

    def place_canaries(self):
        """Replaces the canaries: random files, each sector of which begins with one mark of this tree and generation."""
        if not self.canary_bytes:
            return
        folder = os.path.join(self.path, "canaries")
        subprocess.run(["rm", "-rf", folder], check=True)
        os.makedirs(folder)
        mark = self.rng.randbytes(16)
        made = []
        for number in range(0, self.canary_bytes, 64 * KIB):
            made.append(b"".join(mark + self.rng.randbytes(PIECE - len(mark)) for _ in range(64 * KIB // PIECE)))
            with open(os.path.join(folder, f"{self.generation}-{number}"), "wb") as file:
                file.write(made[-1])
        self.canaries.append(made)


def same(one, other):
    """LabError unless both folders have the same files, links and content."""
    done = subprocess.run(["diff", "-r", "-q", "--no-dereference", one, other], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"what was restored differs: {done.stdout[:300]}{done.stderr[:300]}")
