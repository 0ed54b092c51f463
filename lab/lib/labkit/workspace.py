"""Processes and files that end with the command that made them."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class LabError(Exception):
    """Something that the lab needs did not work; the message says what."""


def _die_with_parent():
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _exit_on(number, _frame):
    raise SystemExit(128 + number)


class Workspace(contextlib.ExitStack):
    """A temporary directory, and processes: none of them outlives it.

    Directories are made in `parent`; `keep` leaves the directory there.
    """

    def __init__(self, parent=None, keep=False):
        super().__init__()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _exit_on)
        parent = parent or os.environ.get("LAB_DIR") or "/var/tmp"
        self.path = tempfile.mkdtemp(prefix="quietus-lab.", dir=parent)
        if not keep:
            self.callback(shutil.rmtree, self.path, ignore_errors=True)

    def file(self, name):
        """The path of `name` in the directory."""
        return os.path.join(self.path, name)

    def directory(self, name):
        """Makes the directory `name`, and tells its path."""
        path = self.file(name)
        os.makedirs(path)
        return path

    def spawn(self, argv, **options):
        """Starts a process that ends when the workspace or this process does."""
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(argv, preexec_fn=_die_with_parent, **options)
        self.callback(end, process)
        return process


def end(process, seconds=10):
    """Asks `process` to end; kills it if it has not after `seconds`."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_session(process):
    """Ends `process`, which leads a session, and kills all that is left of it.

    It is asked first: a guest that it started leads a session of its own.
    """
    end(process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def wait_until(what, true, seconds=20, every=0.01):
    """Polls `true()`; LabError naming `what` when it stays false."""
    limit = time.monotonic() + seconds
    while not true():
        if time.monotonic() > limit:
            raise LabError(f"{what}: not within {seconds} s")
        time.sleep(every)


def need(*programs):
    """LabError unless every program can be found."""
    missing = [name for name in programs if not shutil.which(name)]
    if missing:
        raise LabError(f"not installed: {', '.join(missing)} (lab/setup installs it)")


def run_main(main):
    """Runs `main()` as a command: its value is the exit status."""
    try:
        sys.exit(main())
    except LabError as error:
        print(f"{os.path.basename(sys.argv[0])}: {error}", file=sys.stderr)
        sys.exit(125)
    except KeyboardInterrupt:
        sys.exit(130)
