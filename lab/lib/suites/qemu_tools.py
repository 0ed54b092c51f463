"""qemu-img and qemu-io."""

import json

from labkit.suite import MIB, expect, suite

from .libnbd_tools import holey_file

# Commands of qemu-io, on 64 MiB of zeros.
PATTERNS = [
    "write -P 0x11 0 4M", "read -P 0x11 0 4M",
    "write -f -P 0x22 1M 64k", "read -P 0x22 1M 64k", "read -P 0x11 0 1M",
    "write -z 2M 64k", "read -P 0 2M 64k", "read -P 0x11 2112k 64k",
    "write -z -u 3M 64k", "read -P 0 3M 64k",
    "discard 512k 64k", "read -P 0 512k 64k", "flush",
    "write -P 0x33 4195 777", "read -P 0x33 4195 777", "read -P 0x11 0 4195",
    "write -P 0x44 67108352 512", "read -P 0x44 67108352 512",
    "write -z -f 5M 1M", "write -P 0x55 5M 4k", "read -P 0 5124k 1020k", "flush"]


@suite("qemu-img: info, convert in and out, compare, map", needs=["qemu-img"])
def images(stage):
    server = stage.serve(64 * MIB)
    source, back = stage.work.file("source"), stage.work.file("back.qcow2")
    holey_file(source, 64 * MIB)
    stage.run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", source, server.uri)
    found = json.loads(stage.run("qemu-img", "info", "--output=json", server.uri))
    expect("virtual size", found["virtual-size"] == 64 * MIB, found)
    stage.run("qemu-img", "compare", "-f", "raw", "-F", "raw", source, server.uri)
    stage.run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", server.uri, back)
    stage.run("qemu-img", "compare", "-f", "raw", "-F", "qcow2", source, back)
    extents = json.loads(stage.run("qemu-img", "map", "--output=json", "-f", "raw", server.uri))
    expect("the map covers the disk", sum(it["length"] for it in extents) == 64 * MIB, extents)
    data = sum(it["length"] for it in extents if it["data"])
    expect("data in the map", 16 * MIB <= data <= 64 * MIB, data)


@suite("qemu-img: bench with flushes", needs=["qemu-img"])
def bench(stage):
    server = stage.serve(64 * MIB)
    for arguments in (["-w", "-d", "8", "--flush-interval=8"], ["-w", "-d", "64", "-s", "65536"], ["-d", "32"]):
        stage.run("qemu-img", "bench", "-f", "raw", "-c", "2000", *arguments, server.uri)


@suite("qemu-img: dd, commit of an overlay", needs=["qemu-img", "qemu-io"])
def overlay(stage):
    server = stage.serve(64 * MIB)
    top = stage.work.file("top.qcow2")
    stage.run("qemu-io", "-f", "raw", "-c", "write -P 1 0 8M", server.uri)
    stage.run("qemu-img", "create", "-f", "qcow2", "-b", server.uri, "-F", "raw", top)
    stage.run("qemu-io", "-f", "qcow2", "-c", "write -P 2 1M 1M", "-c", "write -z 4M 1M", top)
    stage.run("qemu-img", "commit", "-f", "qcow2", top)
    verified(stage, server.uri, ["read -P 1 0 1M", "read -P 2 1M 1M", "read -P 0 4M 1M", "read -P 1 5M 3M"])
    stage.run("qemu-img", "dd", "-f", "raw", "-O", "raw", f"if={server.uri}", f"of={stage.work.file('dd')}", "bs=1M", "count=8")


def verified(stage, uri, commands):
    """Runs qemu-io commands; none may fail or find another pattern."""
    arguments = [word for command in commands for word in ("-c", command)]
    said = stage.run("qemu-io", "-f", "raw", "-d", "unmap", *arguments, uri)
    wrong = [line for line in said.splitlines() if "failed" in line.lower() or "error" in line.lower()]
    expect("qemu-io", not wrong, "; ".join(wrong))


@suite("qemu-io: patterns, FUA, zeroes, discards, odd ranges", needs=["qemu-io"])
def patterns(stage):
    verified(stage, stage.serve(64 * MIB).uri, PATTERNS)


@suite("qemu-io: many at once, verified", needs=["qemu-io"])
def asynchronous(stage):
    server = stage.serve(64 * MIB)
    writes = [f"aio_write -P {number + 1} {number * 128}k 128k" for number in range(200)]
    reads = [f"aio_read -P {number + 1} {number * 128}k 128k" for number in range(200)]
    verified(stage, server.uri, [*writes, "aio_flush", *reads, "aio_flush"])


@suite("qemu-io: a disk kept over a restart", needs=["qemu-io"])
def restart(stage):
    server = stage.serve(64 * MIB)
    verified(stage, server.uri, ["write -P 7 0 8M", "discard 1M 1M", "flush"])
    server.stop()
    server.start()
    verified(stage, server.uri, ["read -P 7 0 1M", "read -P 0 1M 1M", "read -P 7 2M 6M"])
    server.kill()
    server.start()
    verified(stage, server.uri, ["read -P 7 0 1M", "read -P 0 1M 1M", "read -P 7 2M 6M"])
