"""What a client suite is, and what it may use."""

import os
import shutil
import subprocess
import time

from .servers import KINDS, STORES, Quietus
from .workspace import LabError, Workspace, end_session

MIB = 1 << 20
SUITES = []


class Skip(Exception):
    """The suite cannot run here; the message says why."""


class Failure(Exception):
    """The server did not do as the suite wants; the message says what."""


def suite(name, needs=(), only=None):
    """Registers a function of a `Stage` as the suite `name`.

    `needs`: programs without which it is skipped. `only`: the one kind of
    server that it is for.
    """
    def register(function):
        function.suite_name, function.needs, function.only = name, needs, only
        SUITES.append(function)
        return function
    return register


class Stage:
    """One suite's server, files and processes."""

    def __init__(self, work, kind, short, built, store="in-place"):
        self.store = STORES[store]
        self.work, self.kind, self.short, self.built_in = work, kind, short, built
        self.servers = 0

    def serve(self, size=64 * MIB, name=None, fill=None, **options):
        """A running server of a new disk, of zeros or with the bytes `fill`."""
        self.servers += 1
        name = name or f"disk{self.servers}"
        is_ours = self.kind == Quietus.kind
        server = (self.store if is_ours else KINDS[self.kind])(self.work, name, size, **(options if is_ours else {}))
        if fill is not None:
            server.put(fill)
        return server.start()

    def serve_shared(self, size):
        """A server that takes several connections: a disk that is watched does not."""
        return self.serve(size, serve_options=["--detect", "off"])

    def run(self, *argv, timeout=300, env=None, cwd=None, expect=0):
        """Runs a client; its output. Failure unless it ends with `expect`."""
        done = self._finish(argv, timeout, env, cwd)
        if done.returncode == 77:
            raise Skip(_last_line(done))
        if expect is not None and done.returncode != expect:
            raise Failure(f"{' '.join(argv)}: status {done.returncode}: {_tail(done)}")
        return done.stdout

    def _finish(self, argv, timeout, env, cwd):
        """Runs a client with all that it starts; none of that is left behind.

        Its output goes to files: a server that it leaves running would hold a
        pipe open.
        """
        with open(self.work.file("stdout"), "w+b") as out, open(self.work.file("stderr"), "w+b") as err:
            client = self.work.spawn(argv, stdout=out, stderr=err, cwd=cwd, start_new_session=True,
                                     env={**_client_environment(), **(env or {})})
            try:
                client.wait(timeout)
            except subprocess.TimeoutExpired as error:
                raise Failure(f"{argv[0]}: no end within {timeout} s") from error
            finally:
                end_session(client)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(argv, client.returncode, _text(out), _text(err))

    def nbdsh(self, script, server):
        """Runs the text of a script in nbdsh, which has `nbd` and a handle `h`."""
        self.run("nbdsh", "-c", script, env={"NBD_URI": server.uri, "NBD_SOCKET": server.socket,
                                             "SERVER_KIND": self.kind})

    def built(self, program):
        """The path of a program that lib/build-suites made."""
        path = os.path.join(self.built_in or "", "bin", program)
        if not self.built_in or not os.path.exists(path):
            raise Skip(f"{program} was not built (see lib/build-suites)")
        return path


def _text(file):
    return file.read().decode(errors="replace")


def _client_environment():
    """Ours; but the distribution's Python first, which has the `nbd` module."""
    return {**os.environ, "PATH": "/usr/bin:" + os.environ["PATH"]}


def _tail(done):
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return " / ".join(lines[-4:])[-500:]


def _last_line(done):
    lines = (done.stderr + done.stdout).strip().splitlines()
    return lines[-1] if lines else "it says that it cannot run here"


def expect(what, true, found=""):
    """Failure saying `what`, unless `true`."""
    if not true:
        raise Failure(f"{what}{': ' if found != '' else ''}{found}")


class Outcome:
    """How one suite ended: PASS, FAIL or SKIP, with a reason for the latter two."""

    def __init__(self, name, verdict, seconds, reason=""):
        self.name, self.verdict, self.seconds, self.reason = name, verdict, seconds, reason


def run_suite(function, options, built):
    """Runs one suite in a workspace of its own."""
    started = time.monotonic()
    verdict, reason = "PASS", ""
    try:
        _check_needs(function, options.server)
        with Workspace(options.dir, options.keep) as work:
            function(Stage(work, options.server, options.short, built, options.store))
    except Skip as skip:
        verdict, reason = "SKIP", str(skip)
    except (Failure, LabError, OSError, ValueError, KeyError) as error:
        verdict, reason = "FAIL", f"{error}" or repr(error)
    return Outcome(function.suite_name, verdict, time.monotonic() - started, reason)


def _check_needs(function, kind):
    missing = [name for name in function.needs if not shutil.which(name)]
    if missing:
        raise Skip(f"not installed: {', '.join(missing)}")
    if function.only and function.only != kind:
        raise Skip(f"only {function.only} has this")
