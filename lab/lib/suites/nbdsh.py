"""Every script in lab/nbdsh, run by nbdsh; a suite each."""

import glob
import os

from labkit.servers import ROOT
from labkit.suite import MIB, suite


def _register(path):
    name = os.path.splitext(os.path.basename(path))[0]

    @suite(f"nbdsh: {name.replace('_', ' ')}", needs=["nbdsh"])
    def run(stage):
        server = stage.serve(64 * MIB)
        with open(path) as script:
            stage.nbdsh(script.read(), server)
    return run


for script in sorted(glob.glob(os.path.join(ROOT, "lab", "nbdsh", "*.py"))):
    _register(script)
