"""The layout of a raw image of NTFS, by ntfsprogs."""

import re
import subprocess

from .layout import Layout, tool
from .workspace import LabError

_RUN = re.compile(r"^\s+0x[0-9a-f]+\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s*$", re.MULTILINE)
_BITMAP_RECORD, _SYSTEM_RECORDS = 6, 12
_CLUSTER_BYTES = 4096


def layout(image, block_bytes):
    """The `Layout` of an NTFS; the files of the system, $MFT among them, are fixed."""
    if block_bytes != _CLUSTER_BYTES:
        raise LabError(f"NTFS is made with clusters of {_CLUSTER_BYTES} bytes here, not of {block_bytes}")
    done = subprocess.run(["ntfscat", "-f", image, "-i", str(_BITMAP_RECORD)], capture_output=True)
    if done.returncode != 0:
        raise LabError(f"ntfscat {image}: {done.stderr[-300:]!r}")
    bits = done.stdout
    free = {number for number in range(len(bits) * 8) if not bits[number // 8] >> number % 8 & 1}
    fixed = set()
    for record in range(_SYSTEM_RECORDS):
        fixed.update(*_runs(image, record))
    return Layout(free, fixed)


def _runs(image, record):
    text = tool("ntfsinfo", "-f", "-v", "-i", str(record), image)[1]
    return [range(int(match[1], 16), int(match[1], 16) + int(match[2], 16)) for match in _RUN.finditer(text)]
