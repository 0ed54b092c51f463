"""nbd-tester-client, of the reference implementation, with all its traces."""

import os

from labkit.suite import MIB, suite

NAME = "disk"
MODES = {
    "throughput, reads": [],
    "throughput, writes": ["-w"],
    "writes and flushes": ["-w", "-f"],
    "loose ordering, writes": ["-l", "-w"],
    "oversized requests": ["-o"],
    "handshake": ["-h"],
}
TRACES = {"integrity": "integrity-test.tr", "integrity, huge requests": "integrityhuge-test.tr"}


def _client(stage, arguments):
    program = stage.built("nbd-tester-client")
    server = stage.serve(64 * MIB, name=NAME)
    name = NAME if stage.kind != "quietus" else os.path.basename(server.disk)
    if stage.kind == "qemu-nbd":
        name = ""
    stage.run(program, "-N", name, "-u", server.socket, *arguments, timeout=600)


def _register(what, arguments):
    @suite(f"nbd-tester-client: {what}")
    def run(stage):
        traces = stage.prepared["build-suites"]
        _client(stage, [it if not it.endswith(".tr") else traces.path("traces", it) for it in arguments])
    return run


for _what, _arguments in MODES.items():
    _register(_what, _arguments)
for _what, _trace in TRACES.items():
    _register(_what, ["-i", "-t", _trace])
