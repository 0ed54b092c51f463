"""vectors - reads the test vectors in the documents of formats, and compares or writes their results."""

import os
import re
import sys
from pathlib import Path

DOCUMENTS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/formats")
VECTOR = re.compile(r"```vector (\w+)\n(.*?)```", re.S)


def fields(body):
    return dict(line.split(" = ", 1) for line in body.splitlines())


def check(name, value, results, update):
    """How many vectors of a document agree with `results`; 0 if one does not. `value` reads a field."""

    def updated(match):
        kind, lines = match.group(1), fields(match.group(2))
        found = results(kind, {field: value(field, text) for field, text in lines.items()})
        body = "".join(f"{field} = {text}\n" for field, text in {**lines, **found}.items())
        return f"```vector {kind}\n{body}```"

    path = Path(DOCUMENTS, name)
    document = path.read_text(encoding="utf-8")
    checked = VECTOR.sub(updated, document)
    if update:
        path.write_text(checked, encoding="utf-8")
    for old, new in zip(document.splitlines(), checked.splitlines()):
        if old != new:
            print(f"docs/formats/{name}: found {new!r}\n  instead of {old!r}")
    return len(VECTOR.findall(document)) if checked == document else 0


def main(names, value, results):
    """The exit status of a check of these documents, or with `--update` of writing them."""
    counts = [check(name, value, results, sys.argv[1:] == ["--update"]) for name in names]
    print(f"{sum(counts)} vectors agree")
    return 0 if all(counts) else 1
