"""Kills a process right before the n-th time that it writes to, or syncs, a file below a directory (ptrace, 64-bit x86)."""

import ctypes
import os
import platform
import signal
import threading

from .workspace import LabError

# By number: write, pwrite64, writev, fsync, fdatasync, ftruncate, fallocate, pwritev, pwritev2.
CALLS = {1, 18, 20, 74, 75, 77, 285, 296, 328}
_SYSCALL, _SEIZE, _INTERRUPT, _LISTEN, _SYSCALL_INFO = 24, 0x4206, 0x4207, 0x4208, 0x420E
_TRACE_SYSGOOD, _TRACE_CLONE = 1, 8
_EVENT_STOP = 128
_WALL, _OF_THIS_THREAD = 0x40000000, 0x20000000
_ENTRY = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_LIBC.ptrace.restype = ctypes.c_long


def _ptrace(what, thread, address=0, data=0):
    return _LIBC.ptrace(what, thread, address, data)


class Cut(threading.Thread):
    """Follows all threads of `process` until it ends, which is before its write number `at`.

    `seen` has the calls so far, as (file, number of the system call). All of ptrace has to come from one thread.
    """

    def __init__(self, process, directory, at):
        if platform.machine() != "x86_64":
            raise LabError(f"knows no system calls of {platform.machine()}")
        super().__init__(daemon=True)
        self.process, self.directory, self.at = process, os.path.realpath(directory) + os.sep, at
        self.seen, self.is_cut, self.error = [], False, None
        self.attached = threading.Event()

    def start(self):
        """Returns when all threads are followed."""
        super().start()
        self.attached.wait()
        if self.error:
            raise LabError(self.error)
        return self

    def run(self):
        threads = [int(it) for it in os.listdir(f"/proc/{self.process.pid}/task")]
        for thread in threads:
            if _ptrace(_SEIZE, thread, 0, _TRACE_SYSGOOD | _TRACE_CLONE) or _ptrace(_INTERRUPT, thread):
                self.error = f"cannot trace thread {thread}: {os.strerror(ctypes.get_errno())}"
        waiting = set(threads)
        while not self.error:
            try:
                thread, status = os.waitpid(-1, _WALL | _OF_THIS_THREAD)
            except ChildProcessError:
                break
            if os.WIFSTOPPED(status):
                self._stopped(thread, status)
            waiting.discard(thread)
            if not waiting:
                self.attached.set()
        self.attached.set()

    def _stopped(self, thread, status):
        number, event = os.WSTOPSIG(status), status >> 16
        if number == signal.SIGTRAP | 0x80:
            self._call(thread)
            number = 0
        elif event == _EVENT_STOP and number == signal.SIGSTOP:
            _ptrace(_LISTEN, thread)
            return
        elif event or number == signal.SIGTRAP:
            number = 0
        _ptrace(_SYSCALL, thread, 0, number)

    def _call(self, thread):
        info = (ctypes.c_uint64 * 11)()
        if _ptrace(_SYSCALL_INFO, thread, ctypes.sizeof(info), ctypes.addressof(info)) <= 0 or info[0] & 0xFF != _ENTRY:
            return
        call, descriptor = info[3], info[4]
        if self.is_cut or call not in CALLS:
            return
        try:
            path = os.readlink(f"/proc/{self.process.pid}/fd/{descriptor & 0xFFFFFFFF}")
        except OSError:
            return
        if path.startswith(self.directory):
            self.seen.append((os.path.basename(path), call))
            if len(self.seen) == self.at:
                self.is_cut = True
                os.kill(self.process.pid, signal.SIGKILL)
