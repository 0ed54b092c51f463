#!/usr/bin/python3
"""test_keytree - checks the test vectors of docs/formats/keytree.md and topcell.md with an implementation of its own.

  lab/lib/test_keytree.py           checks them
  lab/lib/test_keytree.py --update  writes the results that it finds into the documents

`cargo test -p quietus-core` checks the same vectors with the product's code. Slow, and careless about timing: for test vectors only.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import vectors  # noqa: E402
from seal_reference import crc32c, little, xor  # noqa: E402

NUMBERS = {"number", "size", "level", "index", "birth", "stored", "purge", "first", "count"}
RESULTS = {"child", "at", "at other", "starts", "crc32c"}
TEXTS = {"kind"}
ENTRIES = 112
LOG_AT, LOG_BYTES = 4096, 5464 * 512
PAGES_AT = LOG_AT + 2 * LOG_BYTES


# ChaCha20-Poly1305 (RFC 8439).


def quarter_round(state, a, b, c, d):
    """Section 2.1."""
    for one, two, three, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[one] = (state[one] + state[two]) & 0xFFFFFFFF
        word = state[three] ^ state[one]
        state[three] = (word << bits | word >> (32 - bits)) & 0xFFFFFFFF


def chacha20_block(key, counter, nonce):
    """Section 2.3."""
    parts = b"expand 32-byte k" + key + little(counter, 4) + nonce
    start = [int.from_bytes(parts[at : at + 4], "little") for at in range(0, 64, 4)]
    state = list(start)
    for _ in range(10):
        for column in range(4):
            quarter_round(state, *(4 * row + column for row in range(4)))
        for column in range(4):
            quarter_round(state, *(4 * row + (column + row) % 4 for row in range(4)))
    return b"".join(little((one + two) & 0xFFFFFFFF, 4) for one, two in zip(state, start))


def chacha20(key, counter, nonce, data):
    """Section 2.4."""
    blocks = range(counter, counter + (len(data) + 63) // 64)
    return xor(data, b"".join(chacha20_block(key, number, nonce) for number in blocks))


def poly1305(key, data):
    """Section 2.5."""
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(data), 16):
        total = (total + int.from_bytes(data[at : at + 16] + b"\1", "little")) * r % (2**130 - 5)
    return little((total + int.from_bytes(key[16:], "little")) % 2**128, 16)


def padded(data):
    """Zeros behind data, up to 16 bytes."""
    return data + bytes(-len(data) % 16)


def tag_of(key, nonce, associated, cipher):
    """Section 2.8: the tag of a ciphertext."""
    covered = padded(associated) + padded(cipher) + little(len(associated), 8) + little(len(cipher), 8)
    return poly1305(chacha20_block(key, 0, nonce)[:32], covered)


def seal(key, nonce, associated, plain):
    """Section 2.8: tag and ciphertext."""
    cipher = chacha20(key, 1, nonce, plain)
    return tag_of(key, nonce, associated, cipher), cipher


# The RFC's own vectors (2.3.2, 2.5.2, 2.8.2), so that two faults that agree are noticed.


def check_rfc():
    """Raises if one does not agree."""
    key = bytes(range(32))
    block = chacha20_block(key, 1, bytes.fromhex("000000090000004a00000000"))
    assert block[:8].hex() == "10f1e7e4d13b5915" and block[-4:].hex() == "a2503c4e"
    key = bytes.fromhex("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b")
    assert poly1305(key, b"Cryptographic Forum Research Group").hex() == "a8061dc1305136c6c22b8baf0c0127a9"
    text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
    key, nonce = bytes(range(0x80, 0xA0)), bytes.fromhex("070000004041424344454647")
    tag, cipher = seal(key, nonce, bytes.fromhex("50515253c0c1c2c3c4c5c6c7"), text)
    assert tag.hex() == "1ae10b594f09e26a7e902ecbd0600691" and cipher[:4].hex() == "d31a8d34"


# The formats.


def derived(cell, number):
    """A derived cell."""
    return chacha20_block(cell, number, b"derived cell")[:32]


def levels(size):
    """The number of pages of each level, from the leaves to the top."""
    pages = [max(1, -(-size // (4096 * ENTRIES)))]
    while pages[-1] > 1:
        pages.append(-(-pages[-1] // ENTRIES))
    return pages


def page(v):
    """Both offsets of a page, and its bytes."""
    plain = v["log"]
    for number in range(ENTRIES):
        stored = 2**31 if number < v["stored"] else 0
        plain += derived(v["seed"], number) + little(v["birth"] | stored, 4)
    associated = b"QKEYPAGE" + v["disk"] + little(v["level"], 1) + little(v["index"], 8)
    tag, cipher = seal(v["under"], bytes(12), associated, plain)
    before = sum(levels(v["size"])[v["level"] + 1 :]) + v["index"]
    at = PAGES_AT + 8192 * before
    return at, at + 4096, b"QKEYPAGE" + tag + bytes(8) + cipher


def log_sector(v):
    """The offset of the second sector of a half, and its bytes."""
    kind = {"active": 1, "prepared": 2}[v["kind"]]
    entry = little(v["first"], 5) + little(kind, 1) + little(v["count"], 2) + v["seed"]
    before = bytes(16)
    for number, nonce in enumerate((v["nonce before"], v["nonce"])):
        associated = b"QKEYLOG1" + v["disk"] + little(v["purge"], 4) + before
        plain = (little(number, 4) + entry).ljust(484, b"\0")
        before, cipher = seal(v["cell"], nonce, associated, plain)
        sector = nonce + before + cipher
    return LOG_AT + v["purge"] % 2 * LOG_BYTES + 512, sector


def slot(v):
    """The offset of a slot of the root, and its bytes."""
    body = little(v["purge"], 4) + v["cell"]
    return 4096 * (1 + v["purge"] % 2), body + crc32c(v["disk"] + body)


def value(name, text):
    if name in NUMBERS:
        return int(text)
    return text if name in TEXTS | RESULTS else bytes.fromhex(text)


def results(kind, v):
    """What the last fields of a vector should be."""
    if kind == "derived":
        return {"child": derived(v["cell"], v["number"]).hex()}
    if kind == "slot":
        at, found = slot(v)
        return {"at": at, "starts": found.hex()}
    if kind == "log":
        at, found = log_sector(v)
        return {"at": at, "starts": found[:64].hex(), "crc32c": crc32c(found).hex()}
    at, other, found = page(v)
    return {"at": at, "at other": other, "starts": found[:64].hex(), "crc32c": crc32c(found).hex()}


if __name__ == "__main__":
    check_rfc()
    sys.exit(vectors.main(["keytree.md", "topcell.md"], value, results))
