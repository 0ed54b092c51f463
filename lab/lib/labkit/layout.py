"""The layout of a raw image, whatever the file system."""

import subprocess

from .workspace import LabError


class Layout:
    """Sets of blocks, counted from the start of the disk.

    `free` have no owner, `fixed` never belong to a file, `journal` belong to the journal:
    what stands there is a copy, and the journal's own residue.
    """

    def __init__(self, free, fixed, journal=()):
        self.free, self.fixed, self.journal = free, fixed, set(journal)

    def in_clusters(self, blocks):
        """The same in clusters of so many blocks: free if all of one is, else what any part is."""
        whole = {cluster for cluster in {it // blocks for it in self.free}
                 if all(cluster * blocks + at in self.free for at in range(blocks))}
        return Layout(whole, {it // blocks for it in self.fixed}, {it // blocks for it in self.journal})


def tool(*argv):
    """Runs a program; its exit status and all that it says."""
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def said_by(*argv):
    """All that a program says; LabError unless it ends well."""
    status, text = tool(*argv)
    if status != 0:
        raise LabError(f"{' '.join(argv)}: {text[-300:].strip()}")
    return text
