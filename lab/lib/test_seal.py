#!/usr/bin/python3
"""test_seal - checks the test vectors of docs/formats/sealing.md and keys.md with seal_reference.

  lab/lib/test_seal.py           checks them
  lab/lib/test_seal.py --update  writes the results that the reference finds into the documents

`cargo test -p quietus-seal` checks the same vectors with the product's code.
"""

import hashlib
import os
import re
import sys
from pathlib import Path

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
import seal_reference as reference  # noqa: E402

DOCUMENTS = os.path.join(HERE, "../../docs/formats")
NUMBERS = {"generation", "block", "born", "slot", "sequence", "length", "number", "skip"}
TEXTS = {"seal", "kind"}
VECTOR = re.compile(r"```vector (\w+)\n(.*?)```", re.S)


def value(name, text):
    if name in NUMBERS:
        return int(text)
    if name == "stretch":
        return [int(number) for number in text.split()] if text != "-" else [0, 0, 0]
    return text if name in TEXTS else bytes.fromhex(text.strip("-"))


def pattern(length):
    """The data of every vector."""
    return bytes(at % 251 for at in range(length))


def printed(data):
    """Short data whole, long data by its hash, none as a dash."""
    return (hashlib.sha256(data).digest() if len(data) > 64 else data).hex() or "-"


def results(kind, v):
    """What the reference finds for the last fields of a vector."""
    if kind == "generator":
        generator = reference.Generator(v["seed"])
        generator.take(v["skip"])
        first = generator.take(32)
        generator.reseed(v["reseed"])
        return {"bytes": first.hex(), "after": generator.take(32).hex()}
    if kind == "keys":
        found = reference.key_file(v)
        whole = hashlib.sha256(found.pop("file")).hexdigest()
        return {**{name: data.hex() for name, data in found.items()}, "file": whole}
    sealed, stub = reference.seal_block(v["seal"], v, pattern(v["length"]))
    return {"ciphertext": printed(sealed), "stub": printed(stub)}


def fields(body):
    return dict(line.split(" = ", 1) for line in body.splitlines())


def updated(match):
    """A vector with the reference's results."""
    kind, lines = match.group(1), fields(match.group(2))
    found = results(kind, {name: value(name, text) for name, text in lines.items()})
    body = "".join(f"{name} = {text}\n" for name, text in {**lines, **found}.items())
    return f"```vector {kind}\n{body}```"


def check(name, update):
    """How many vectors of a document agree; 0 if one does not."""
    path = Path(DOCUMENTS, name)
    document = path.read_text(encoding="utf-8")
    checked = VECTOR.sub(updated, document)
    if update:
        path.write_text(checked, encoding="utf-8")
    for old, new in zip(document.splitlines(), checked.splitlines()):
        if old != new:
            print(f"docs/formats/{name}: found {new!r}\n  instead of {old!r}")
    return len(VECTOR.findall(document)) if checked == document else 0


def main():
    counts = [check(name, sys.argv[1:] == ["--update"]) for name in ("sealing.md", "keys.md")]
    print(f"{sum(counts)} vectors agree")
    return 0 if all(counts) else 1


sys.exit(main())
