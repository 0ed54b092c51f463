"""Every script in lab/nbdsh, run by nbdsh, which has `nbd` and a handle `h`; a suite each."""

import glob
import os
from pathlib import Path

from labkit.servers import ROOT
from labkit.suite import MIB, suite


def _register(path):
    name = os.path.splitext(os.path.basename(path))[0]

    @suite(f"nbdsh: {name.replace('_', ' ')}", needs=["nbdsh"])
    def run(stage):
        server = stage.serve(64 * MIB)
        stage.run("nbdsh", "-c", Path(path).read_text(), env={"NBD_URI": server.uri, "NBD_SOCKET": server.socket,
                                                              "SERVER_KIND": stage.kind})


for script in sorted(glob.glob(os.path.join(ROOT, "lab", "nbdsh", "*.py"))):
    _register(script)
