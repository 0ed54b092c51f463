"""The content that a file system must hold after each operation of the workload.

The guest and the judge apply the same operations to it: the guest to know what
to write, the judge to know what is alive. Operations are lines of text:

    mkdir PATH             create FILE PATH SECTORS    append FILE SECTORS
    rmdir PATH             overwrite FILE START COUNT  truncate FILE SECTORS
    rename FILE OLD NEW    link FILE OLD NEW           delete FILE PATH
    fsync FILE             sync
    mark PATH              (a folder, as `chattr +s` does; before anything lies in it)

Invariants:
1. A file's number is never used again, so that content names its file for ever.
2. A sector's content is alive if and only if `files` has it.
3. A file without names is gone, and with it all its content.
4. `marked` has the numbers of all files that ever had a name below a marked folder.
"""

from . import sectors


class File:
    """A file: its names, its generation, and the tag (or None, a hole) of each sector."""

    def __init__(self, number):
        self.number, self.names, self.generation, self.tags = number, set(), 0, []

    @property
    def path(self):
        """One of its names, always the same as long as the names are."""
        return min(self.names)


class Model:
    """All files of one run.

    `on_free(file, first sector, order)` is told of sectors whose content dies
    because the file ends there or at all.
    """

    def __init__(self, run, on_free=lambda file, first, order: None):
        self.run, self.on_free = run, on_free
        self.files, self.directories = {}, set()
        self.marks, self.marked = (), set()
        self.order = 0
        self.sectors = 0

    def apply(self, operation):
        """Applies one operation; what it writes: a list of (sector, tags)."""
        self.order += 1
        verb, *rest = operation.split()
        before = self.file(rest) if verb not in ("mkdir", "rmdir", "mark", "sync", "create") else None
        held = len(before.tags) if before else 0
        written = getattr(self, "_" + verb)(*[int(it) if it.isdigit() else it for it in rest])
        after = before or (self.files[int(rest[0])] if verb == "create" else None)
        self.sectors += (len(after.tags) if after else 0) - held
        return written or []

    def file(self, arguments):
        """The file that an operation with those arguments is about."""
        return self.files[int(arguments[0])]

    def live(self):
        """The tags of all content that is alive."""
        return {tag for file in self.files.values() for tag in file.tags if tag}

    def by_path(self):
        """Every name, and the file that has it."""
        return {name: file for file in self.files.values() for name in file.names}

    def _mkdir(self, path):
        self.directories.add(path)

    def _rmdir(self, path):
        self.directories.remove(path)

    def _mark(self, path):
        self.marks += (path + "/",)

    def _name(self, file, path):
        file.names.add(path)
        if path.startswith(self.marks):
            self.marked.add(file.number)

    def _sync(self):
        pass

    def _fsync(self, number):
        pass

    def _create(self, number, path, count):
        assert number not in self.files
        self.files[number] = File(number)
        self._name(self.files[number], path)
        return self._append(number, count)

    def _append(self, number, count):
        return self._put(self.files[number], len(self.files[number].tags), count)

    def _overwrite(self, number, start, count):
        return self._put(self.files[number], start, count)

    def _put(self, file, start, count):
        file.tags += [None] * (start + count - len(file.tags))
        for at in range(start, start + count):
            old = file.tags[at]
            version = old.version + 1 if old and old.generation == file.generation else 0
            file.tags[at] = sectors.Tag(self.run, file.number, file.generation, at, version, self.order)
        return [(start, file.tags[start:start + count])]

    def _truncate(self, number, count):
        file = self.files[number]
        file.generation += 1
        if count < len(file.tags):
            self.on_free(file, count, self.order)
        del file.tags[count:]
        file.tags += [None] * (count - len(file.tags))

    def _rename(self, number, old, new):
        self.files[number].names.remove(old)
        self._name(self.files[number], new)

    def _link(self, number, _old, new):
        self._name(self.files[number], new)

    def _delete(self, number, path):
        file = self.files[number]
        file.names.remove(path)
        if not file.names:
            self.on_free(file, 0, self.order)
            file.tags.clear()
            del self.files[number]
