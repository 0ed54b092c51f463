#!/usr/bin/python3
"""test_seal - checks the test vectors of docs/formats/sealing.md and keys.md with seal_reference.

  lab/lib/test_seal.py           checks them
  lab/lib/test_seal.py --update  writes the results that the reference finds into the documents

`cargo test -p quietus-seal` checks the same vectors with the product's code.
"""

import hashlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import seal_reference as reference  # noqa: E402
import vectors  # noqa: E402

NUMBERS = {"generation", "block", "born", "slot", "sequence", "length", "number", "skip", "from"}
TEXTS = {"seal", "kind"}


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
    if kind == "sectors":
        keys, sealed = reference.encrypt_sectors(v, pattern(v["length"]))
        return {"keys": keys.hex(), "ciphertext": printed(sealed)}
    sealed, stub = reference.seal_block(v["seal"], v, pattern(v["length"]))
    return {"ciphertext": printed(sealed), "stub": printed(stub)}


sys.exit(vectors.main(["sealing.md", "keys.md"], value, results))
