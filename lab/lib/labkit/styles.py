"""The workload: endless operations in the style of well-known programs.

Each style yields operations (see `model`) and looks at the model, which has
applied all that it yielded before. All choices come from its random source, and
none from a clock: a seed repeats a run. Content never exceeds `capacity` sectors.
"""

import itertools
import random

BLOCK = 8


class Style:
    """The common part of the styles: numbers for files, names, room, and when to sync."""

    fsync_share = 0.1
    sync_every = 400

    def __init__(self, model, rng, capacity, prefix):
        self.model, self.rng, self.capacity, self.prefix = model, rng, capacity, prefix
        self.numbers = model.numbers
        self.mine = []

    def is_full(self):
        """Whether something should go before more comes."""
        return self.model.sectors > self.capacity

    def size(self, low, high):
        """A number of sectors, small ones far more often than large ones."""
        return int(low * (high / low) ** (self.rng.random() ** 2))

    def pick(self):
        """Some file of this style's that exists, or None."""
        while self.mine:
            at = self.rng.randrange(len(self.mine))
            file = self.model.files.get(self.mine[at])
            if file:
                return file
            self.mine[at] = self.mine[-1]
            self.mine.pop()
        return None

    def create(self, path, count):
        """A new file, sometimes fsynced at once."""
        number = next(self.numbers)
        self.mine.append(number)
        yield f"create {number} {path} {count}"
        yield from self.perhaps_fsync(number)

    def perhaps_fsync(self, number):
        """As often as this style's programs do."""
        if self.rng.random() < self.fsync_share:
            yield f"fsync {number}"

    @staticmethod
    def delete(file, path=None):
        """Takes one name of the file away: the last one, mostly."""
        yield f"delete {file.number} {path or file.path}"


class Mail(Style):
    """A spool: many small messages come and go, mailboxes grow, some are shared by hard link."""

    fsync_share = 0.2
    folders = 16

    def begin(self):
        for at in range(self.folders):
            yield f"mkdir {self.prefix}spool{at}"

    def path(self):
        """A fresh name in some folder."""
        return f"{self.prefix}spool{self.rng.randrange(self.folders)}/m{next(self.numbers)}"

    def step(self):
        """One message delivered, filed, forwarded, answered or thrown away."""
        file = self.pick()
        dice = self.rng.random()
        if not file or (dice < 0.42 and not self.is_full()):
            yield from self.create(self.path(), self.size(1, 64))
        elif dice < 0.55 and not self.is_full():
            yield f"append {file.number} {self.size(1, 24)}"
            yield from self.perhaps_fsync(file.number)
        elif dice < 0.60:
            yield f"rename {file.number} {file.path} {self.path()}"
        elif dice < 0.64 and len(file.names) < 4:
            yield f"link {file.number} {file.path} {self.path()}"
        elif dice < 0.67 and len(file.tags) > 8:
            yield f"truncate {file.number} {self.rng.randrange(len(file.tags))}"
        else:
            yield from self.delete(file)


class Build(Style):
    """A source tree is unpacked, compiled again and again, cleaned, and removed."""

    fsync_share = 0.01
    sources = 60

    def begin(self):
        """Nothing is there before the first tree."""
        return iter(())

    def step(self):
        """One tree's whole life."""
        tree = f"{self.prefix}tree{next(self.numbers)}"
        yield f"mkdir {tree}"
        yield f"mkdir {tree}/obj"
        for at in range(self.sources):
            yield from self.create(f"{tree}/s{at}.c", self.size(2, 80))
        for _ in range(self.rng.randrange(1, 5)):
            yield from self.compile(tree)
        yield from self.remove(tree)

    def compile(self, tree):
        """Objects are made, or written anew over the old ones; then a program of all."""
        held = self.model.by_path()
        for at in range(self.sources):
            if self.rng.random() < 0.5 or self.is_full():
                continue
            path = f"{tree}/obj/s{at}.o"
            old = held.get(path)
            if not old:
                yield from self.create(path, self.size(8, 200))
            elif self.rng.random() < 0.7:
                yield f"truncate {old.number} 0"
                yield f"append {old.number} {self.size(8, 200)}"
            else:
                yield f"overwrite {old.number} 0 {max(1, len(old.tags) // 2)}"
        yield from self.install(tree)

    def install(self, tree):
        """The program is written beside the old one and renamed; a library is linked."""
        held = self.model.by_path()
        number = next(self.numbers)
        yield f"create {number} {tree}/program.new {self.size(200, 1200)}"
        old = held.get(f"{tree}/program")
        if old:
            yield from self.delete(old, f"{tree}/program")
        yield f"rename {number} {tree}/program.new {tree}/program"
        if f"{tree}/program.so" not in held:
            yield f"link {number} {tree}/program {tree}/program.so"

    def remove(self, tree):
        for path, file in sorted(self.model.by_path().items()):
            if path.startswith(tree + "/"):
                yield from self.delete(file, path)
        yield f"rmdir {tree}/obj"
        yield f"rmdir {tree}"


class Database(Style):
    """A few big files overwritten at random, and temporary ones that come, grow, shrink and go."""

    fsync_share = 0.3
    tables = 4

    def begin(self):
        """The tables, each with some room to grow."""
        yield f"mkdir {self.prefix}base"
        for at in range(self.tables):
            yield from self.create(f"{self.prefix}base/table{at}", max(64, self.capacity // 16))

    def step(self):
        """One statement."""
        file = self.pick()
        dice = self.rng.random()
        if not file or (dice < 0.12 and not self.is_full()):
            yield from self.create(f"{self.prefix}base/temp{next(self.numbers)}", self.size(64, 2048))
        elif dice < 0.70 and file.tags:
            yield from self.overwrite(file)
        elif dice < 0.82 and not self.is_full():
            yield f"append {file.number} {self.size(8, 256)}"
        elif dice < 0.90 and file.tags:
            yield f"truncate {file.number} {self.rng.randrange(len(file.tags))}"
        elif dice < 0.92:
            yield f"truncate {file.number} {len(file.tags) + self.rng.randrange(512)}"
        elif "temp" in file.path:
            yield from self.delete(file)

    def overwrite(self, file):
        """Some blocks in the middle, as a page cache of a database would."""
        count = min(len(file.tags), self.rng.randrange(1, 5) * BLOCK)
        start = self.rng.randrange(len(file.tags) - count + 1) // BLOCK * BLOCK
        yield f"overwrite {file.number} {start} {count}"
        yield from self.perhaps_fsync(file.number)


class Log(Style):
    """Logs grow line by line and are rotated: renamed, or copied and truncated."""

    fsync_share = 0.05
    logs, kept = 8, 4

    def begin(self):
        yield f"mkdir {self.prefix}log"
        self.generations = [[] for _ in range(self.logs)]
        for at in range(self.logs):
            yield from self.open_log(at)

    def open_log(self, at):
        """A new log, empty but for its first line."""
        number = next(self.numbers)
        self.generations[at].append(number)
        yield f"create {number} {self.prefix}log/l{at}.{number} 1"

    def step(self):
        """One line, or a rotation."""
        at = self.rng.randrange(self.logs)
        file = self.model.files[self.generations[at][-1]]
        limit = self.capacity // (self.logs * (self.kept + 1))
        if len(file.tags) < min(limit, 600) and self.rng.random() < 0.98:
            yield f"append {file.number} {self.size(1, 40)}"
            yield from self.perhaps_fsync(file.number)
        else:
            yield from self.rotate(at, file)

    def rotate(self, at, file):
        """Out with the oldest."""
        if self.rng.random() < 0.3:
            yield f"truncate {file.number} 0"
            return
        yield f"rename {file.number} {file.path} {file.path}.old"
        if len(self.generations[at]) > self.kept:
            oldest = self.model.files[self.generations[at].pop(0)]
            yield f"delete {oldest.number} {oldest.path}"
        yield from self.open_log(at)


class Mixed:
    """All of them side by side: 50 % mail, 20 % logs, 20 % database, 10 % a step of a build."""

    sync_every = 400
    weights = {Mail: 50, Log: 20, Database: 20, Build: 10}

    def __init__(self, model, rng, capacity, prefix):
        self.rng = rng
        share = capacity // 2
        self.parts = {style: style(model, rng, share if style is Database else capacity, prefix)
                      for style in self.weights}
        self.build = iter(())

    def begin(self):
        for part in self.parts.values():
            yield from part.begin()

    def step(self):
        style = self.rng.choices(list(self.weights), list(self.weights.values()))[0]
        if style is not Build:
            yield from self.parts[style].step()
            return
        following = next(self.build, None)
        if following is None:
            self.build = self.parts[Build].step()
            following = next(self.build)
        yield following


class PartlyMarked:
    """Two of a style side by side. About `share` of the steps, at random, are done in a folder marked with `chattr +s`."""

    def __init__(self, style, model, rng, capacity, prefix, share):
        self.rng, self.share, self.folder = rng, share, f"{prefix}marked"
        self.marked, self.plain = (style(model, rng, capacity, where) for where in (f"{self.folder}/", prefix))
        self.sync_every = style.sync_every

    def begin(self):
        """Both beginnings, the mark before either."""
        yield from (f"mkdir {self.folder}", f"mark {self.folder}", "sync")
        yield from self.marked.begin()
        yield from self.plain.begin()

    def step(self):
        return (self.marked if self.rng.random() < self.share else self.plain).step()


STYLES = {"mail": Mail, "build": Build, "database": Database, "log": Log, "mixed": Mixed}


def operations(name, model, seed, capacity, prefix="", sync_every=None, marked=0):
    """Endless operations in the style `name`, of which a share is `marked`; apply each before taking the next."""
    model.numbers = itertools.count(1)
    parts = [model, random.Random(seed), capacity, prefix]
    style = PartlyMarked(STYLES[name], *parts, marked) if marked else STYLES[name](*parts)
    interval = style.sync_every if sync_every is None else sync_every
    yield from style.begin()
    yield "sync"
    since = 0
    while True:
        for operation in style.step():
            yield operation
            since += 1
        if interval and since >= interval:
            yield "sync"
            since = 0
