"""The programs of the newest release that the mirror has (lib/fetch-clients): the suites once more, and nbdkit."""

import glob
import json

from labkit.servers import accepts
from labkit.suite import MIB, NEWEST, SUITES, expect, suite
from labkit.workspace import wait_until

from .libnbd_tools import comes_back
from .qemu_tools import PATTERNS, verified

# Those whose programs fetch-clients has: not fio, and no kernel's own client.
AGAIN = ("qemu-", "nbdinfo", "nbdcopy", "nbdsh", "TLS", "kernel virtio")
SUITES += [it.with_newest() for it in SUITES if it.name.startswith(AGAIN)]


@suite(f"{NEWEST} clients: extended headers, or structured replies when those are off", needs=["nbdinfo", "qemu-io", "nbdcopy"],
       only="quietus", newest=True)
def headers(stage):
    for options, extended in (([], True), (["--extended-headers", "no"], False)):
        server = stage.serve(64 * MIB, serve_options=options)
        found = json.loads(stage.run("nbdinfo", "--json", server.uri))
        expect("extended headers", found["extended"] == extended, found)
        expect("structured replies", found["structured"] or extended, found)
        verified(stage, server.uri, PATTERNS)
        comes_back(stage, server.uri)


@suite(f"{NEWEST} nbdkit: its nbd plugin in between", needs=["nbdkit", "qemu-io", "nbdcopy"], newest=True)
def plugin(stage):
    server, front = stage.serve(64 * MIB), stage.work.file("front")
    clients = stage.prepared["fetch-clients"]
    plugins = glob.glob(clients.path("root", "usr", "lib", "*", "nbdkit", "plugins", "nbdkit-nbd-plugin.so"))
    with open(stage.work.file("nbdkit.log"), "wb") as log:
        nbdkit = stage.work.spawn([clients.path("bin", "nbdkit"), "-f", "-U", front, plugins[0], f"uri={server.uri}"],
                                  stdout=log, stderr=log)
    wait_until(f"nbdkit on {front}", lambda: nbdkit.poll() is not None or accepts(front))
    uri = f"nbd+unix:///?socket={front}"
    verified(stage, uri, PATTERNS)
    comes_back(stage, uri)
