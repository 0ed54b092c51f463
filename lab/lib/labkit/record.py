"""The server's own record (`audit.jsonl`): what it says has died, and been destroyed."""

import json
import os

from .accounts import Act
from .sectors import SECTOR


class Record:
    """All lines of a record, in order."""

    def __init__(self, lines):
        self.lines = lines

    @classmethod
    def read(cls, path):
        """From the file, and the one that was set aside before it; no file is an empty record."""
        lines = []
        for part in (path + ".1", path):
            if os.path.exists(part):
                with open(part) as file:
                    lines += [json.loads(line) for line in file]
        return cls(lines)

    def acts(self):
        """Every act, a piece of the medium each.

        A receipt names at most so many places (docs/formats/audit.md). What one
        left unnamed is taken to be all that had died and no receipt names.
        """
        found, owed, unnamed_at = [], set(), None
        for line in self.lines:
            if line["event"] == "died":
                owed.update(_sectors(line["start"], line["len"]))
            elif line["event"] == "receipt":
                for start, length in line["extents"]:
                    found.append(Act(line["time_ms"] / 1000, start, length, line["act"] == "shredded"))
                    owed.difference_update(_sectors(start, length))
                if line["more"]:
                    unnamed_at = line["time_ms"] / 1000
        if unnamed_at is not None:
            found += [Act(unnamed_at, start, length, False) for start, length in _runs(owed)]
        return found


def _sectors(start, length):
    return range(start // SECTOR, -(-(start + length) // SECTOR))


def _runs(numbers):
    """(start, length) in bytes of each run of sectors."""
    start = end = None
    for number in sorted(numbers):
        if number != end:
            if start is not None:
                yield start * SECTOR, (end - start) * SECTOR
            start = number
        end = number + 1
    if start is not None:
        yield start * SECTOR, (end - start) * SECTOR
