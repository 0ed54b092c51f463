"""backups: put, put again, restore, list, and what forgetting costs and leaves, beside other programs

Each program has a tree of its own with the same files: half of the bytes text, half random, from 4 KiB to 4 MiB a file. It is put, 2 % of
its bytes are replaced in pieces of 64 KiB, and it is put again, restored and compared, and listed: with the program's defaults, borg without
encryption (quietus does not encrypt; restic always does).

Then, in a repository without compression: eight generations are put, each with 2 % edits and a megabyte of *canaries*, random files that only
this generation has; the four oldest are forgotten, and what only they had is removed: `vault sanitize` of quietus (one pass), `forget --prune
--max-unused 0` of restic and rustic (`--instant-delete`), `maintenance run --full --safety none` of kopia, `delete` and `compact --threshold 0` of
borg. The canaries of those four are searched for
before and after, in the repository's files and, where this is root, on the medium: the repository lies on an ext4 of its
own, in an image that is searched once it is unmounted. Of quietus and borg the search finds the content. restic encrypts: the search is for the
ciphertext that its index names for the canaries, and finds no content at all. So it is with rustic; kopia's repository is not searched.

rustic, kopia and the newest restic are no packages of Debian 12: `lab/lib/fetch-backups DIRECTORY` builds them, and `--programs DIRECTORY/bin` takes
them before those that are installed.

Time is that of the commands, with everything in the host's cache before; memory is the largest resident set of any of them (`ru_maxrss`); *written* is
what the kernel counts for them (`ru_oublock`).

The bar: nothing is left of what quietus forgot, on the medium either.
"""

import os
import shutil
import subprocess
from collections import namedtuple
from contextlib import contextmanager
from itertools import product

from ..backups import BACKUPS, MIB, Cost, Tree, Vault, add_costs, files_below, same
from ..measure import allocated_bytes, table
from ..servers import parse_size, sparse
from . import Benchmark, in_times, medians, ratio

EDITS = 0.02
FIRST, AGAIN, UNCHANGED, RESTORE, LIST = EVERYDAY = ["first put", "incremental put", "unchanged put", "restore", "list"]
GENERATIONS, FORGET = DYING = ["put 8 generations", "forget 4 of 8"]
COUNT, FORGOTTEN = 8, 4
NOT_SEARCHED = -1


class Bench(Benchmark):
    """A case is (step, program). Steps go on where the one before ended, in each repetition anew."""

    # Bytes of canaries: all, and found before and after in the repository, and after on the medium.
    Sample = namedtuple("Sample", [*Cost._fields, "repository_mib", "canaries", "before", "after", "medium"])
    defaults = {"size": "256M", "repetitions": 3}
    short = {"size": "16M", "repetitions": 1}
    programs = ("diff", "rm")
    fails_always = True

    def __init__(self, options, work):
        super().__init__(options, work)
        if options.programs:
            os.environ["PATH"] = os.pathsep.join([os.path.abspath(options.programs), os.environ["PATH"]])
        self.stories = {}
        self.note = " Repositories lie on " + ("an ext4 of their own when they are searched." if is_root() else
                                               "the host's file system; not root: no medium is searched.")

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--seed", type=int, default=1, help="of the trees (default %(default)s)")
        parser.add_argument("--programs", metavar="DIR", help="a folder of programs that come before those that are installed")

    def peers(self):
        return {kind: it.programs for kind, it in BACKUPS.items() if kind != Vault.kind}

    def cases(self):
        return list(product([*EVERYDAY, *DYING], BACKUPS))

    def needs(self, case):
        return (*self.programs, *(["mke2fs", "mount", "umount"] if case[0] in DYING and is_root() else []))

    def sample(self, step, program):
        steps = EVERYDAY if step in EVERYDAY else DYING
        story = self.stories.get((steps[0], program))
        if story is None or step in story.done:
            self.end_story(steps[0], program)
            story = self.stories[steps[0], program] = Story(self, program, steps)
        for each in steps[len(story.done):steps.index(step) + 1]:
            found = story.step(each)
        if step == steps[-1]:
            self.end_story(steps[0], program)
        return found

    def end_story(self, first, program):
        if story := self.stories.pop((first, program), None):
            story.close()

    def end(self):
        for first, program in list(self.stories):
            self.end_story(first, program)

    def render(self, samples):
        return "\n\n".join(filter(None, [costs(samples), forgetting(samples)]))

    def missed(self, samples):
        for it in samples.get((FORGET, Vault.kind), []):
            if it.after or it.medium > 0:
                yield f"{it.after} bytes of canaries are left in the vault, {max(it.medium, 0)} on the medium"


class Story:
    """One program from its first put on."""

    def __init__(self, bench, program, steps):
        self.top = bench.work.directory(bench.next_name())
        self.size, self.is_dying, self.done = parse_size(bench.options.size), steps is DYING, []
        self.tree = Tree(self.file("tree"), self.size, bench.options.seed, MIB if self.is_dying else 0)
        self.medium = Medium(self.file("medium"), 4 * self.size + 2048 * MIB, self.is_dying and is_root())
        with self.medium.mounted():
            self.backup = BACKUPS[program](self.file("medium/repository"), self.file("home"), plain=self.is_dying)

    def file(self, name):
        return os.path.join(self.top, name)

    def close(self):
        shutil.rmtree(self.top)

    def step(self, step):
        """Does one step; what it cost."""
        act = {FIRST: self.put, AGAIN: self.put_again, UNCHANGED: self.put, RESTORE: self.restore, LIST: self.list,
               GENERATIONS: self.generations, FORGET: self.forget}[step]
        with self.medium.mounted():
            os.sync()
            cost, *canaries = act()
            size = sum(allocated_bytes(path) for path in files_below(self.backup.path)) / MIB
        if step == FORGET:
            needles, before, after = canaries
            on_medium = needles.found_in([self.medium.image]) if self.medium.image else NOT_SEARCHED
            canaries = [needles.bytes(), before, after, on_medium]
        self.done.append(step)
        return Bench.Sample(*cost, size, *(canaries or [0] * 4))

    def put(self):
        return [self.backup.put(self.tree.path)]

    def put_again(self):
        self.tree.edit(EDITS)
        os.sync()
        return self.put()

    def restore(self):
        into = self.file("restored")
        cost = self.backup.restore(into)
        # It stays until the end: ext4 looks for an inode much longer just after many were freed, and the next program would pay for that.
        same(self.tree.path, os.path.join(into, self.tree.path.lstrip("/")))
        return [cost]

    def list(self):
        return [self.backup.list()]

    def generations(self):
        found = self.put()
        for _ in range(1, COUNT):
            found += self.put_again()
        return [add_costs(found)]

    def forget(self):
        dead = [content for made in self.tree.canaries[:FORGOTTEN] for content in made]
        needles = self.backup.needles(dead)
        before = needles.found_in(files_below(self.backup.path))
        os.sync()
        cost = self.backup.forget(self.backup.snapshots[:FORGOTTEN])
        return [cost, needles, before, needles.found_in(files_below(self.backup.path))]


class Medium:
    """Where a repository lies: a folder; or a file system of its own, in the file `image`."""

    def __init__(self, path, size, has_image):
        self.path, self.image = path, f"{path}.image" if has_image else None
        os.makedirs(path)
        if self.image:
            subprocess.run(["mke2fs", "-q", "-t", "ext4", "-E", "nodiscard", sparse(self.image, size)], check=True)

    @contextmanager
    def mounted(self):
        """Mounts the image; it is durable and whole at the end."""
        if not self.image:
            yield
            return
        subprocess.run(["mount", "-o", "loop,nodiscard", self.image, self.path], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", self.path], check=True)


def is_root():
    """Whether file systems can be mounted."""
    return os.geteuid() == 0


def costs(samples):
    """The table of steps."""
    programs = [kind for kind in BACKUPS if any(kind == program for _, program in samples)]
    rows = []
    for step in [*EVERYDAY, *DYING]:
        if any(of == step for of, _ in samples):
            cells = [in_words(samples[step, it]) if samples.get((step, it)) else "-" for it in programs]
            rows.append([step, *cells, *compared(samples, step, programs)])
    return table(["step", *programs, *(f"quietus / {it}" for it in programs if it != Vault.kind)], rows)


def compared(samples, step, programs):
    """How long quietus takes, in times of each peer."""
    times = [ratio(samples, (step, Vault.kind), (step, it), "seconds") for it in programs if it != Vault.kind]
    return list(map(in_times, times))


def in_words(found):
    seconds, cpu, peak, size = medians(found, "seconds", "cpu", "peak_mib", "repository_mib")
    return f"{seconds:.2f} s, CPU {cpu:.2f} s, {peak:,.0f} MiB of memory; repository {size:,.0f} MiB"


def forgetting(samples):
    """The table of what forgetting leaves."""
    rows = []
    for (step, program), found in samples.items():
        if step == FORGET:
            seconds, peak, written, size = medians(found, "seconds", "peak_mib", "written_mib", "repository_mib")
            worst = [max(getattr(it, name) for it in found) for name in ("canaries", "before", "after", "medium")]
            left = [f"{it / MIB:.2f} MiB" if worst[0] and it >= 0 else "not searched" for it in worst]
            rows.append([program, f"{seconds:.2f} s", f"{peak:,.0f} MiB", f"{written:,.0f} MiB", f"{size:,.0f} MiB", *left,
                         BACKUPS[program].raw_search])
    head = ["forget 4 of 8", "time", "memory", "written", "repository after", "canaries forgotten", "found before", "found after, in files",
            "after, on the medium", "searched for"]
    return table(head, rows) if rows else ""
