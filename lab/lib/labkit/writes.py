"""Every write of a program to the files of some directories, told by the kernel: strace sees each system call, by whichever library."""

import os
import re

from . import tracing
from .workspace import LabError, need, wait_until

PAGE = 4096
ZEROS = bytes(PAGE)
_STRING_MAX = 1 << 28
# Calls that change a file, or say where the next change goes.
_OPENS = ("open", "openat", "openat2", "creat")
_NAMES = ("rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "linkat")
_CHANGES = ("write", "writev", "pwrite64", "pwritev", "pwritev2", "fallocate", "ftruncate", "lseek")
# Calls that could change a file and are not followed: the record refuses them.
_UNSEEN = ("truncate", "copy_file_range", "sendfile", "splice", "io_uring_setup", "io_submit", "mmap")
_LINE = re.compile(rb"\d+ +(\w+)\((.*)\) += (-?\d+)(?:<((?:\\x..)*)>)?", re.S)
_TEXT = re.compile(rb'"((?:\\x..)*)"(\.\.\.)?')
_FILE = re.compile(rb"(\w+)<((?:\\x..)*)>(\(deleted\))?")
_NO_NAME = " (deleted)"


def traced(argv, log):
    """The command line that runs `argv` and records its writes. The process started is that of `argv` itself: strace is its descendant.

    What goes through an io_uring is no system call: the program is told that the host has none."""
    need("strace")
    return ["strace", "-D", "-f", "-y", "-xx", "--seccomp-bpf", "-s", str(_STRING_MAX), "-e", "signal=none", "-e", "inject=io_uring_setup:error=ENOSYS", "-e", "trace=" + ",".join(_OPENS + _NAMES + _CHANGES + _UNSEEN),
            "-o", log, *argv]


def _bytes(text):
    return bytes.fromhex(text.replace(b"\\x", b"").decode())


def _text(text):
    return _bytes(text).decode(errors="replace")


def _lines(log):
    """The calls of a log, each in one line, in the order in which they ended."""
    unfinished, count = {}, 0
    with open(log, "rb") as file:
        for line in tracing.whole(file, unfinished):
            count += 1
            if b" resumed>" in line[:64]:
                raise LabError(f"{log} has the end of a call whose beginning it lacks: {line[:80]}")
            yield line
    if not count or unfinished:
        raise LabError(f"{log} is no whole record: {count} calls ended, {len(unfinished)} did not")


class Written:
    """What the files in `directories` hold after some logs, and each page that they ever held. LabError unless the files do hold that.

    `pages` has, by path and number of the page (4096 bytes), its contents as of after each write that touched it, without zeros and repetitions.
    `writes` counts the calls that changed a file.
    """

    def __init__(self, directories, logs):
        self.directories = [os.path.realpath(it) + "/" for it in directories]
        self.files, self.pages, self.at, self.writes = {}, {}, {}, 0
        for log in logs:
            self.at.clear()
            self._take(log)
        self._compare()

    def _take(self, log):
        wait_until(f"the end of {log}", lambda: b"+++ exited with" in _end_of(log) or b"+++ killed" in _end_of(log))
        for line in _lines(log):
            call = _LINE.match(line)
            if call and int(call[3]) >= 0:
                self._call(call[1].decode(), call[2], int(call[3]), call[4])
            elif call and b"write" in call[1] and self._file(call[2])[1]:
                raise LabError(f"a write failed: {line[-80:]}")

    def _is_ours(self, path):
        return path.startswith(tuple(self.directories))

    def _file(self, words):
        """The descriptor in the words of a call, and its file; None where that is none of ours."""
        match = _FILE.match(words)
        path = _text(match[2]) + _NO_NAME * bool(match[3]) if match else ""
        return match and match[1], path if self._is_ours(path) else None

    def _named(self, words):
        """The paths of ours that are named in a call."""
        at = _FILE.match(words)
        base = _text(at[2]) if at else os.getcwd()
        paths = [os.path.join(base, _text(text)) for text, _ in _TEXT.findall(words)]
        paths = [os.path.join(os.path.realpath(os.path.dirname(it)), os.path.basename(it)) for it in paths]
        return [it for it in paths if self._is_ours(it)]

    def _call(self, name, words, result, opened):
        if name in _OPENS:
            self._open(words, result, _text(opened or b""))
        elif name in _NAMES:
            self._rename(name, self._named(words))
        elif name in _UNSEEN:
            self._refuse(name, words)
        else:
            number, path = self._file(words)
            if path and path not in self.files and not path.endswith(_NO_NAME):
                raise LabError(f"the record has gaps: it does not say how {path} began")
            if path:
                self.files.setdefault(path, bytearray())
                self._change(name, number, path, words, result)

    def _refuse(self, name, words):
        """LabError if the call may write to a file of ours."""
        paths = [_text(path) for _, path, _ in _FILE.findall(words)]
        ours = name.startswith("io_") or self._named(words) or any(map(self._is_ours, paths))
        if ours and (name != "mmap" or b"MAP_SHARED" in words and b"PROT_WRITE" in words):
            raise LabError(f"{name} could change a file and is not recorded: {words[:200]}")

    def _open(self, words, number, path):
        if self._is_ours(path) and not os.path.isdir(path):
            if b"O_CREAT" in words:
                self.files.setdefault(path, bytearray())
            if b"O_TRUNC" in words and path in self.files:
                self.files[path].clear()
            self.at[str(number).encode()] = None if b"O_APPEND" in words else 0

    def _rename(self, name, paths):
        if name.startswith("unlink"):
            for path in paths:
                self.files.pop(path, None)
        elif paths:
            old, new = paths
            for path in [it for it in self.files if it == old or it.startswith(old + "/")]:
                self._move(path, new + path[len(old):], name.startswith("link"))

    def _move(self, old, new, stays):
        """A file has another name, and what it ever held goes with it."""
        self.files[new] = self.files[old] if stays else self.files.pop(old)
        for number, versions in self.pages.get(old, {}).items():
            self.pages.setdefault(new, {}).setdefault(number, {}).update(versions)

    def _change(self, name, number, path, words, result):
        if name == "lseek":
            self.at[number] = result
        elif name == "ftruncate":
            self._resize(path, int(words.rsplit(b", ", 1)[1]))
        elif name == "fallocate":
            mode, at, length = words.rsplit(b", ", 3)[1:]
            if b"PUNCH_HOLE" in mode or b"ZERO_RANGE" in mode:
                self._put(path, int(at), bytes(int(length)), b"KEEP_SIZE" not in mode)
            elif b"KEEP_SIZE" not in mode:
                self._resize(path, max(len(self.files[path]), int(at) + int(length)))
        else:
            texts = _TEXT.findall(words)
            data = b"".join(_bytes(text) for text, _ in texts)[:result]
            if len(data) != result or any(cut for _, cut in texts):
                raise LabError(f"a write to {path} of {result} bytes, of which {len(data)} are recorded")
            self._put(path, self._place(name, number, path, words, result), data)

    def _place(self, name, number, path, words, result):
        if name.startswith("p"):
            last = re.search(rb", (\d+)(?:, \w+(?:\|\w+)*)?$" if name == "pwritev2" else rb", (\d+)$", words)
            return int(last[1])
        at = self.at[number]
        if at is None:
            return len(self.files[path])
        self.at[number] = at + result
        return at

    def _resize(self, path, length):
        file = self.files[path]
        del file[length:]
        file.extend(bytes(length - len(file)))

    def _put(self, path, at, data, grows=True):
        file = self.files[path]
        if not grows:
            data = data[:max(0, len(file) - at)]
        if not data:
            return
        file.extend(bytes(max(0, at + len(data) - len(file))))
        file[at:at + len(data)] = data
        self.writes += 1
        if any(data):
            self._note(path, file, at, at + len(data))

    def _note(self, path, file, start, end):
        pages = self.pages.setdefault(path, {})
        for number in range(start // PAGE, -(-end // PAGE)):
            page = bytes(file[number * PAGE:(number + 1) * PAGE]).ljust(PAGE, b"\0")
            if page != ZEROS:
                pages.setdefault(number, {})[page] = None

    def _compare(self):
        """LabError unless what was recorded is what the files hold now: then no write escaped."""
        there = {os.path.join(root, name) for directory in self.directories for root, _, names in os.walk(directory) for name in names}
        there = {it for it in there if os.path.isfile(it)}
        known = {it for it in self.files if not it.endswith(_NO_NAME)}
        wrong = sorted(there ^ known)
        for path in sorted(there & known):
            with open(path, "rb") as file:
                wrong += [path] if file.read() != self.files[path] else []
        if wrong:
            raise LabError("the record of writes has gaps: it does not give " + ", ".join(wrong))


def _end_of(log):
    if not os.path.exists(log):
        return b""
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - 4096))
        return file.read()
