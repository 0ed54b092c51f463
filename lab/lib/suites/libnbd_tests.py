"""libnbd's own tests, pointed at any server."""

import os
import struct
import textwrap
from pathlib import Path

from labkit.servers import quietus_binary, sparse
from labkit.suite import MIB, Skip, suite


def pattern(size):
    """Bytes as nbdkit's pattern plugin serves them: each 8 say where they are."""
    return b"".join(struct.pack(">Q", offset) for offset in range(0, size, 8))


def _filled(stage, size):
    server = stage.serve_shared(size)
    image = stage.work.file("pattern")
    Path(image).write_bytes(pattern(size))
    stage.run("nbdcopy", image, server.uri)
    return server


@suite("libnbd: aio-parallel", needs=["nbdcopy"])
def aio_parallel(stage):
    program = stage.built("aio-parallel")
    stage.run(program, _filled(stage, 64 * MIB).socket)


@suite("libnbd: aio-parallel-load")
def aio_parallel_load(stage):
    program = stage.built("aio-parallel-load")
    stage.run(program, stage.serve_shared(64 * MIB).socket)


@suite("libnbd: synch-parallel", needs=["nbdcopy"])
def synch_parallel(stage):
    program = stage.built("synch-parallel")
    stage.run(program, _filled(stage, 8 * MIB).socket)


# Serves an existing image the way the kind of server wants it, from the sockets
# that it inherits. The image is adopted in place.
WRAPPERS = {
    "nbdkit": 'exec nbdkit -f file "$1"',
    "qemu-nbd": 'exec qemu-nbd -t -f raw -x / "$1"',
    "quietus": """
        set -e
        disk=$(mktemp -d -p "$LAB_RUN")/disk
        "$QUIETUS" create "$disk" --adopt "$1" --policy clear --idle-after 10ms >&2
        exec "$QUIETUS" serve "$disk" >&2
    """,
}


def wrapper(stage):
    """A program that serves the image named by its argument."""
    path = stage.work.file("serve-image")
    Path(path).write_text("#!/bin/bash\n" + textwrap.dedent(WRAPPERS[stage.kind]))
    os.chmod(path, 0o755)
    return path


def _environment(stage):
    binary = quietus_binary() if stage.kind == "quietus" else ""
    return {"LAB_RUN": stage.work.path, "QUIETUS": binary}


def _compile(stage, source, *defines):
    """Compiles one of libnbd's interop programs against its own library."""
    tree = stage.prepared["build-suites"].path("libnbd")
    if not os.path.exists(os.path.join(tree, "lib", "libnbd.la")):
        raise Skip("libnbd was not built (see lib/build-suites)")
    out = stage.work.file(source.removesuffix(".c"))
    extra = [path for path in [os.path.join(tree, "interop", "requires.c")] if os.path.exists(path)]
    stage.run("gcc", "-o", out, "-I", tree, "-I", os.path.join(tree, "include"),
              "-I", os.path.join(tree, "tests"), *defines,
              os.path.join(tree, "interop", source), *extra,
              "-L", os.path.join(tree, "lib", ".libs"), "-lnbd",
              "-Wl,-rpath," + os.path.join(tree, "lib", ".libs"),
              cwd=os.path.join(tree, "interop"))
    return out


# interop.c looks at the file behind the server's back, right after the flush that
# follows its zeroing. To a client our zeroed bytes are zeros at once; on the
# medium they are destroyed when the disk is idle. So the test gets patience: its
# flush is followed by two seconds.
PATIENCE = """
#include <unistd.h>
#include <libnbd.h>
static int patient_flush (struct nbd_handle *h, uint32_t flags)
{ int r = nbd_flush (h, flags); sleep (2); return r; }
#define nbd_flush patient_flush
"""


def _patience(stage):
    if stage.kind != "quietus":
        return []
    path = stage.work.file("patience.h")
    Path(path).write_text(PATIENCE)
    return ["-include", path]


@suite("libnbd: interop, socket activation")
def interop_activation(stage):
    _activated(stage, "interop.c", "-DSOCKET_ACTIVATION=1", "-DSERVER_PARAMS=TMPFILE", *_patience(stage))


@suite("libnbd: socket-activation")
def activation(stage):
    _activated(stage, "socket-activation.c", "-DSERVER_PARAMS=tmpfile")


def _activated(stage, source, *defines):
    program = _compile(stage, source, f'-DSERVER="{wrapper(stage)}"', *defines)
    stage.run(program, env=_environment(stage))


@suite("libnbd: interop, extended headers, in every order")
def extended_headers(stage):
    if stage.kind != "quietus":
        raise Skip(f"{stage.kind} here has no extended headers")
    image = sparse(stage.work.file("image"), MIB)
    # Each connection of the test is a server of its own.
    stage.run(stage.built("opt-extended-headers"), wrapper(stage), image, env=_environment(stage))
