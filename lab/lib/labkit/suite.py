"""A client's suite, and all that it may use."""

import os
import shutil
import subprocess
import time
from collections import namedtuple

from .servers import KINDS, ROOT, STORES, Quietus
from .workspace import LabError, Workspace, end_session

MIB = 1 << 20
SUITES = []
NEWEST = "newest"  # how the names of suites begin that run the newest release's programs


class Skip(Exception):
    """The suite cannot run here; the message says why."""


class Failure(Exception):
    """The server did not do as the suite wants; the message says what."""


class Suite(namedtuple("Suite", "name function needs only newest")):
    """A function of a `Stage`, under a name.

    `needs`: programs without which it is skipped. `only`: the one kind of
    server that it is for. `newest`: the programs are those of the newest release.
    """

    def with_newest(self):
        """The same suite by the newest release's programs."""
        return self._replace(name=f"{NEWEST} {self.name}", newest=True)


def suite(name, needs=(), only=None, newest=False):
    def register(function):
        SUITES.append(Suite(name, function, needs, only, newest))
        return function
    return register


class Prepared:
    """A directory that a script of lab/lib makes, once, when the first suite asks for it."""

    def __init__(self, script, directory):
        self.script, self.directory, self.problem = script, directory, None

    def path(self, *parts):
        """A path in the directory. Skip, with the last words of the script, when it could not make it."""
        if self.problem is None:
            self.problem = self._make()
        if self.problem:
            raise Skip(self.problem)
        return os.path.join(self.directory, *parts)

    def _make(self):
        os.makedirs(self.directory, exist_ok=True)
        with open(self.directory + ".log", "w+b") as log:
            done = subprocess.run([os.path.join(ROOT, "lab", "lib", self.script), self.directory],
                                  stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            log.seek(0)
            words = _text(log).strip().splitlines() or [f"{self.script} ended with {done.returncode}"]
        return f"{words[-1]} (all of it: {log.name})" if done.returncode else ""


class Stage:
    """One suite's server, files and processes. `path`: where its programs are looked for."""

    def __init__(self, work, options, prepared, newest):
        self.store = STORES[options.store]
        self.work, self.kind, self.prepared = work, options.server, prepared
        # The distribution's Python comes before others: it has the `nbd` module.
        first = [prepared["fetch-clients"].path("bin")] if newest else []
        self.path = os.pathsep.join([*first, "/usr/bin", os.environ["PATH"]])
        self.servers = 0

    def serve(self, size=64 * MIB, name=None, **options):
        """A running server of a new disk."""
        self.servers += 1
        name = name or f"disk{self.servers}"
        is_ours = self.kind == Quietus.kind
        return (self.store if is_ours else KINDS[self.kind])(self.work, name, size, **(options if is_ours else {})).start()

    def serve_shared(self, size):
        """A server that takes several connections: a disk that is watched does not."""
        return self.serve(size, serve_options=["--detect", "off"])

    def run(self, *argv, timeout=300, env=None, cwd=None):
        """Runs a client; its output. Failure unless it ends well."""
        done = self._finish(argv, timeout, env, cwd)
        if done.returncode == 77:
            raise Skip(_last_line(done))
        if done.returncode != 0:
            raise Failure(f"{' '.join(argv)}: status {done.returncode}: {_tail(done)}")
        return done.stdout

    def _finish(self, argv, timeout, env, cwd):
        """Runs a client with all that it starts; none of that is left behind.

        Its output goes to files: a server that it leaves running would hold a
        pipe open.
        """
        with open(self.work.file("stdout"), "w+b") as out, open(self.work.file("stderr"), "w+b") as err:
            client = self.work.spawn(argv, stdout=out, stderr=err, cwd=cwd, start_new_session=True,
                                     env={**os.environ, "PATH": self.path, **(env or {})})
            try:
                client.wait(timeout)
            except subprocess.TimeoutExpired as error:
                raise Failure(f"{argv[0]}: no end within {timeout} s") from error
            finally:
                end_session(client)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(argv, client.returncode, _text(out), _text(err))

    def built(self, program):
        """The path of a program that lib/build-suites made."""
        path = self.prepared["build-suites"].path("bin", program)
        if not os.path.exists(path):
            raise Skip(f"{program} was not built (see lib/build-suites)")
        return path

    def check_needs(self, it):
        """Skip unless suite `it` can run here."""
        missing = [name for name in it.needs if not shutil.which(name, path=self.path)]
        if missing:
            raise Skip(f"not installed: {', '.join(missing)}")
        if it.only and it.only != self.kind:
            raise Skip(f"only {it.only} has this")


def _text(file):
    return file.read().decode(errors="replace")


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


# How one suite ended: PASS, FAIL or SKIP, with a reason for the latter two.
Outcome = namedtuple("Outcome", "name verdict seconds reason")


def run_suite(it, options, prepared):
    """Runs one suite in a workspace of its own."""
    started = time.monotonic()
    verdict, reason = "PASS", ""
    try:
        with Workspace(options.dir, options.keep) as work:
            stage = Stage(work, options, prepared, it.newest)
            stage.check_needs(it)
            it.function(stage)
    except Skip as skip:
        verdict, reason = "SKIP", str(skip)
    except (Failure, LabError, OSError, ValueError, KeyError) as error:
        verdict, reason = "FAIL", f"{error}" or repr(error)
    return Outcome(it.name, verdict, time.monotonic() - started, reason)
