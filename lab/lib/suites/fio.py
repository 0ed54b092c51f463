"""fio's nbd engine, with everything that it wrote verified."""

from labkit.suite import MIB, expect, suite

COMMON = ["--ioengine=nbd", "--output-format=terse", "--thread", "--size=48M"]


def _fio(stage, *arguments):
    server = stage.serve(64 * MIB)
    said = stage.run("fio", "--name=job", *COMMON, f"--uri={server.uri}", *arguments)
    fields = said.strip().splitlines()[-1].split(";")
    expect("fio's error count", fields[4] == "0", fields[:6])


@suite("fio: verify=crc32c, mixed sizes, depth 32", needs=["fio"])
def checksums(stage):
    _fio(stage, "--rw=randwrite", "--bsrange=512-256k", "--bs_unaligned=1", "--iodepth=32", "--verify=crc32c",
         "--do_verify=1", "--verify_state_save=0", "--verify_fatal=1", "--randrepeat=0")


@suite("fio: verify=pattern with offsets", needs=["fio"])
def offsets(stage):
    _fio(stage, "--rw=write", "--bs=64k", "--iodepth=16", "--verify=pattern", "--verify_pattern=%o",
         "--verify_interval=512", "--do_verify=1", "--verify_state_save=0", "--verify_fatal=1")


@suite("fio: random reads and writes with flushes", needs=["fio"])
def mixed(stage):
    _fio(stage, "--rw=randrw", "--bs=4k", "--iodepth=32", "--fsync=16", "--verify=crc32c",
         "--verify_backlog=64", "--verify_fatal=1", "--randrepeat=0")


@suite("fio: random trims", needs=["fio"])
def trims(stage):
    _fio(stage, "--rw=randtrim", "--bs=4k", "--iodepth=32", "--randrepeat=0")


@suite("fio: trims and writes, four jobs", needs=["fio"])
def trims_and_writes(stage):
    server = stage.serve(64 * MIB)
    stage.run("fio", "--ioengine=nbd", f"--uri={server.uri}", "--thread", "--size=16M",
              "--bs=4k", "--iodepth=8", "--randrepeat=0", "--offset_increment=16M",
              "--name=write", "--rw=randwrite", "--numjobs=2", "--verify=crc32c", "--do_verify=1", "--verify_state_save=0", "--verify_fatal=1",
              "--name=trim", "--rw=randtrim", "--numjobs=2", "--offset=32M")
