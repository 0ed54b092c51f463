"""nbdinfo and nbdcopy."""

import filecmp
import json
import os
from itertools import pairwise

from labkit.suite import MIB, expect, suite

CAPABILITIES = ["connect", "read", "write", "flush", "fua", "trim", "zero", "cache", "df",
                "fast-zero", "structured-reply"]
PEERS_LACK = {"qemu-nbd": {"trim"}, "nbdkit": {"fast-zero"}}


def holey_file(path, size):
    """A file of which each fourth MiB is random, the others holes."""
    with open(path, "wb") as file:
        file.truncate(size)
        for start in range(0, size, 4 * MIB):
            file.seek(start)
            file.write(os.urandom(min(MIB, size - start)))


def comes_back(stage, *uris):
    """Copies a file into the first server, from each to the next, and out of the last one: it has to be as it was."""
    source, back = stage.work.file("source"), stage.work.file("back")
    holey_file(source, 64 * MIB)
    for one, other in pairwise([source, *uris, back]):
        stage.run("nbdcopy", one, other)
    expect("comes back as it was", filecmp.cmp(source, back, shallow=False))


@suite("nbdinfo: size, list, capabilities", needs=["nbdinfo"])
def information(stage):
    server = stage.serve(64 * MIB)
    expect("size", stage.run("nbdinfo", "--size", server.uri).strip() == str(64 * MIB))
    listed = json.loads(stage.run("nbdinfo", "--json", "--list", server.uri))
    expect("no export is listed", listed["exports"])
    expect("export size", listed["exports"][0]["export-size"] == 64 * MIB, listed)
    lacking = {it for it in CAPABILITIES if not _can(stage, it, server.uri)} - PEERS_LACK.get(stage.kind, set())
    expect("lacks", not lacking, ", ".join(sorted(lacking)))


def _can(stage, what, uri):
    try:
        stage.run("nbdinfo", "--can", what, uri)
        return True
    except Exception:  # any status but 0 means no
        return False


@suite("nbdinfo: map of a sparse disk", needs=["nbdinfo"])
def sparse_map(stage):
    server = stage.serve(64 * MIB)
    stage.run("qemu-io", "-f", "raw", "-c", "write -P 1 16M 1M", server.uri)
    extents = json.loads(stage.run("nbdinfo", "--map", "--json", server.uri))
    expect("the map covers the disk", sum(it["length"] for it in extents) == 64 * MIB, extents)
    data = [it for it in extents if it["type"] == 0]
    expect("just what was written is data", [(it["offset"], it["length"]) for it in data] == [(16 * MIB, MIB)], extents)


@suite("nbdinfo: liveness", needs=["nbdinfo", "qemu-io"], only="quietus")
def liveness(stage):
    server = stage.serve(64 * MIB, create_options=["--idle-after", "1h", "--deadline", "2h"])
    stage.run("qemu-io", "-f", "raw", "-c", "write -P 1 0 2M", "-d", "unmap", "-c", "discard 1M 1M", server.uri)
    extents = json.loads(stage.run("nbdinfo", "--map=quietus:liveness", "--json", server.uri))
    types = [(it["offset"] // MIB, it["length"] // MIB, it["type"]) for it in extents]
    expect("live, queued, dead", types == [(0, 1, 0), (1, 1, 2), (2, 62, 1)], types)


@suite("nbdcopy: in, out, compare", needs=["nbdcopy"])
def copies(stage):
    server = stage.serve(64 * MIB)
    source = stage.work.file("source")
    for arguments in ([], ["--synchronous"], ["--connections=4", "--requests=32"],
                      ["--allocated", "--flush"], ["--request-size=33554432"]):
        holey_file(source, 64 * MIB)
        stage.run("nbdcopy", *arguments, source, server.uri)
        back = stage.work.file("back")
        stage.run("nbdcopy", *[it for it in arguments if it != "--allocated"], server.uri, back)
        expect(f"nbdcopy {arguments}: comes back as it was", filecmp.cmp(source, back, shallow=False))


@suite("nbdcopy: from server to server", needs=["nbdcopy"])
def between_servers(stage):
    comes_back(stage, stage.serve(64 * MIB).uri, stage.serve(64 * MIB).uri)


@suite("nbdinfo: a map beyond 4 GiB", needs=["nbdinfo"])
def large_map(stage):
    server = stage.serve(1 << 40)
    stage.run("qemu-io", "-f", "raw", "-c", "write -P 1 900G 64k", server.uri)
    extents = json.loads(stage.run("nbdinfo", "--map", "--json", server.uri))
    data = [(it["offset"], it["length"]) for it in extents if it["type"] == 0]
    expect("one run of data", data == [(900 << 30, 65536)], data)
