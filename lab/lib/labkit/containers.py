"""The containers of a vault, read without Quietus: `docs/formats/vault.md`.

What a vault stored of a file is known by its bytes then, compressed or not, and by its fingerprint: so it can be searched for
after the vault says that it is gone.
"""

import struct
from collections import namedtuple

_HEAD_BYTES = 4096
_MAGIC = b"QuietusContainer"
_ENTRY = struct.Struct("<32sQIIIB3xII")
_RAW, _LZ4 = 0, 1

Chunk = namedtuple("Chunk", "fingerprint stored codec raw_bytes")


def chunks(pool, slot_bytes):
    """All chunks of all containers in the pool's bytes."""
    for slot in range(0, len(pool) - _HEAD_BYTES, slot_bytes):
        if pool[slot:slot + len(_MAGIC)] != _MAGIC:
            continue
        (count,) = struct.unpack_from("<I", pool, slot + 48)
        payload = slot + -(-(_HEAD_BYTES + count * _ENTRY.size) // _HEAD_BYTES) * _HEAD_BYTES
        for number in range(count):
            fingerprint, _, offset, stored, raw, codec, _, _ = _ENTRY.unpack_from(pool, slot + _HEAD_BYTES + number * _ENTRY.size)
            yield Chunk(fingerprint, bytes(pool[payload + offset:payload + offset + stored]), codec, raw)


def content(chunk):
    """The content of a chunk; None of a codec that is not known here."""
    if chunk.codec == _RAW:
        return chunk.stored
    return lz4_block(chunk.stored) if chunk.codec == _LZ4 else None


def lz4_block(block):
    """A block of LZ4 (lz4_Block_format.md), decompressed."""
    out, at = bytearray(), 0
    while at < len(block):
        token = block[at]
        length, at = _length(block, at + 1, token >> 4)
        out += block[at:at + length]
        at += length
        if at >= len(block):
            break
        distance = block[at] | block[at + 1] << 8
        length, at = _length(block, at + 2, token & 15)
        for _ in range(length + 4):
            out.append(out[-distance])
    return bytes(out)


def _length(block, at, length):
    """A length that goes on in further bytes if it is 15; and where it ends."""
    if length == 15:
        while True:
            length += block[at]
            at += 1
            if block[at - 1] != 255:
                break
    return length, at
