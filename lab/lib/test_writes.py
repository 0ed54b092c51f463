#!/usr/bin/python3
"""The record of writes must be complete, or say that it is not."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from labkit.tracing import Calls  # noqa: E402
from labkit.workspace import LabError  # noqa: E402
from labkit.writes import PAGE, Written, traced  # noqa: E402

USUAL = """
import ctypes, os, threading
new = os.open("new", os.O_RDWR | os.O_CREAT, 0o600)
os.pwrite(new, b"early" * 1000, 4096)
os.pwritev(new, [b"a", b"late"], 4097)
here = os.getcwd()
os.rename(f"{here}/new", f"{here}/there")
end = os.open("there", os.O_WRONLY | os.O_APPEND)
os.write(end, b"end")
os.ftruncate(new, 9000)
os.lseek(new, 100, os.SEEK_SET); os.write(new, b"x" * 500)
punch = lambda at, length: ctypes.CDLL(None).fallocate(new, 3, ctypes.c_long(at), ctypes.c_long(length))
punch(200, 100); punch(1 << 20, 4096)
other = os.open("other", os.O_WRONLY | os.O_CREAT, 0o600)
at = [threading.Thread(target=lambda n=n: [os.pwrite(other, bytes([n]) * 4096, 4096 * (50 * n + m)) for m in range(50)]) for n in (1, 2, 3)]
[it.start() for it in at]; [it.join() for it in at]
"""
MAPPED = """
import mmap
with open("file", "wb") as file: file.write(b"x" * 4096)
with open("file", "r+b") as file: mmap.mmap(file.fileno(), 4096)[0] = 1
"""
COPIED = """
import os
with open("one", "wb") as one: one.write(b"x" * 4096)
os.copy_file_range(os.open("one", os.O_RDONLY), os.open("two", os.O_WRONLY | os.O_CREAT, 0o600), 4096)
"""


class WrittenTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)
        self.files, self.log = (os.path.join(self.work.name, name) for name in ("files", "log"))
        os.mkdir(self.files)

    def written(self, program, meddle=lambda: None):
        """The record of a program in Python that works in the directory of files."""
        subprocess.run(traced([sys.executable, "-c", program], self.log), cwd=self.files, check=True)
        meddle()
        return Written([self.files], [self.log])

    def path(self, name):
        return os.path.join(os.path.realpath(self.files), name)

    def test_each_version_of_a_page_is_there(self):
        found = self.written(USUAL)
        versions = [bytes(page[:8]) for page in found.pages[self.path("there")][1]]
        self.assertEqual(versions, [b"earlyear", b"ealatear"])
        self.assertEqual(sorted(found.pages[self.path("other")]), list(range(50, 200)))

    def test_a_byte_that_is_not_of_the_record_is_a_gap(self):
        def meddle():
            with open(self.path("other"), "r+b") as file:
                file.seek(50 * PAGE)
                file.write(b"?")
        with self.assertRaisesRegex(LabError, "gaps: .*/other"):
            self.written(USUAL, meddle)

    def test_a_file_that_is_not_of_the_record_is_a_gap(self):
        with self.assertRaisesRegex(LabError, "gaps: .*/strange"):
            self.written(USUAL, lambda: open(self.path("strange"), "wb").close())

    def test_what_could_write_unseen_is_refused(self):
        for name, program in (("mmap", MAPPED), ("copy_file_range", COPIED)):
            with self.subTest(name), self.assertRaisesRegex(LabError, f"{name} could change a file"):
                self.written(program)

    def test_a_cut_record_is_refused(self):
        def meddle():
            with open(self.log, "rb") as file:
                lines = file.readlines()
            with open(self.log, "wb") as file:
                file.writelines(it for it in lines if b"ftruncate" not in it)
        with self.assertRaises(LabError):
            self.written("import os\nfile = os.open('f', os.O_RDWR | os.O_CREAT, 0o600)\nos.ftruncate(file, 9)", meddle)


class CallsTest(unittest.TestCase):
    def test_a_call_that_another_thread_interrupts_counts_once_and_one_without_its_beginning_or_end_never(self):
        counted = Calls([
            b'12 pread64(5</a/keytree>, ""..., 8192, 0) = 8192\n',
            b'12 pwritev2(5</a/keytree>, [], 1, 0, RWF_DSYNC <unfinished ...>\n',
            b"13 <... fsync resumed>) = 0\n",
            b"13 fdatasync(6</a/data> <unfinished ...>\n",
            b"12 <... pwritev2 resumed>) = 4096\n",
        ])
        self.assertEqual(counted.calls, {("keytree", it): 1 for it in ("read", "write", "sync")})
        self.assertEqual(counted.bytes, {("keytree", "read"): 8192, ("keytree", "write"): 4096})


if __name__ == "__main__":
    unittest.main()
