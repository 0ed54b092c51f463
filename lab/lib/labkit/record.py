"""The server's own record (`audit.jsonl`): what it says has died, and been destroyed."""

import glob
import json
import os

from .accounts import Act


class Record:
    """All lines of a record, in order."""

    def __init__(self, lines):
        self.lines = lines

    @classmethod
    def read(cls, path):
        """From the file, and those that were set aside before it; no file is an empty record."""
        directory, name = os.path.split(path)
        stem, extension = os.path.splitext(name)
        older = sorted(glob.glob(os.path.join(glob.escape(directory), f"{stem}-{'[0-9]' * 12}{extension}")))
        lines = []
        for part in [*older, path]:
            if os.path.exists(part):
                with open(part) as file:
                    lines += [json.loads(line) for line in file]
        return cls(lines)

    def acts(self):
        """Every erase task, a piece of the medium each. Blocks that the guest itself overwrote, and freed blocks, are left out."""
        receipts = (line for line in self.lines if line["event"] == "receipt")
        return [Act(time, start, length, kind["act"] == "shredded")
                for line in receipts for time, kind, start, length in _runs(line) if kind["act"] not in ("overwritten", "plain")]


def _runs(line):
    """(seconds since 1970, kind, first byte, bytes) of all that a line names (docs/formats/audit.md)."""
    unit = line["unit"]
    for after, kind, *pairs in line["runs"]:
        end = 0
        for gap, length in zip(pairs[::2], pairs[1::2]):
            start = end + gap
            end = start + length
            yield (line["from_ms"] + after) / 1000, line["kinds"][kind], start * unit, length * unit
