"""fio's nbd engine, with everything that it wrote verified."""

from functools import partial

from labkit.suite import MIB, expect, suite

COMMON = ["--ioengine=nbd", "--output-format=terse", "--thread", "--size=48M"]
VERIFIED = ["--do_verify=1", "--verify_state_save=0", "--verify_fatal=1"]
JOBS = {
    "verify=crc32c, mixed sizes, depth 32": ["--rw=randwrite", "--bsrange=512-256k", "--bs_unaligned=1", "--iodepth=32",
                                             "--verify=crc32c", *VERIFIED, "--randrepeat=0"],
    "verify=pattern with offsets": ["--rw=write", "--bs=64k", "--iodepth=16", "--verify=pattern", "--verify_pattern=%o",
                                    "--verify_interval=512", *VERIFIED],
    "random reads and writes with flushes": ["--rw=randrw", "--bs=4k", "--iodepth=32", "--fsync=16", "--verify=crc32c",
                                             "--verify_backlog=64", "--verify_fatal=1", "--randrepeat=0"],
    "random trims": ["--rw=randtrim", "--bs=4k", "--iodepth=32", "--randrepeat=0"],
}


def _fio(arguments, stage):
    server = stage.serve(64 * MIB)
    said = stage.run("fio", "--name=job", *COMMON, f"--uri={server.uri}", *arguments)
    fields = said.strip().splitlines()[-1].split(";")
    expect("fio's error count", fields[4] == "0", fields[:6])


for _name, _arguments in JOBS.items():
    suite(f"fio: {_name}", needs=["fio"])(partial(_fio, _arguments))


@suite("fio: trims and writes, four jobs", needs=["fio"])
def trims_and_writes(stage):
    server = stage.serve(64 * MIB)
    stage.run("fio", "--ioengine=nbd", f"--uri={server.uri}", "--thread", "--size=16M",
              "--bs=4k", "--iodepth=8", "--randrepeat=0", "--offset_increment=16M",
              "--name=write", "--rw=randwrite", "--numjobs=2", "--verify=crc32c", *VERIFIED,
              "--name=trim", "--rw=randtrim", "--numjobs=2", "--offset=32M")
