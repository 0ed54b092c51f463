"""Documents, pictures and texts that can be recognised when a tool brings them back."""

import os
import random
import struct
import zlib

SECTOR = 512
_DULL_BYTES_MAX = 8


class Canary:
    """One file: its name, its content, and a token that is nowhere else."""

    def __init__(self, name, token, content):
        self.name, self.token, self.content = name, token.encode(), content

    def sectors(self):
        """The file's sectors that could belong to nothing else."""
        pieces = (self.content[at:at + SECTOR] for at in range(0, len(self.content) - SECTOR + 1, SECTOR))
        return {piece for piece in pieces if len(set(piece)) > _DULL_BYTES_MAX}


def text(rng, token):
    words = "the quick brown fox jumps over a lazy dog and wonders why".split()
    lines = (f"{token} {number} " + " ".join(rng.choices(words, k=12)) for number in range(240))
    return "\n".join(lines).encode() + b"\n"


def png(rng, token):
    """A picture of 160 x 120 points, half of it noise."""
    rows = b"".join(b"\0" + rng.randbytes(240) + bytes([row % 256]) * 240 for row in range(120))
    header = struct.pack(">IIBBBBB", 160, 120, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"tEXt", b"Comment\0" + token.encode()), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*it) for it in chunks)


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pdf(rng, token):
    """A page full of lines."""
    rows = "\n".join(f"BT /F1 9 Tf 40 {780 - 10 * (row % 70)} Td ({token} row {row} {rng.randbytes(12).hex()}) Tj ET"
                     for row in range(300)).encode()
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
               b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
               b"<</Length %d>>stream\n" % len(rows) + rows + b"\nendstream",
               b"<</Type/Font/Subtype/Type1/BaseFont/Courier>>"]
    body, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj" % number + content + b"\nendobj\n"
    index = b"".join(b"%010d 00000 n \n" % place for place in places)
    return (body + b"xref\n0 6\n0000000000 65535 f \n" + index
            + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % len(body))


KINDS = {"txt": text, "png": png, "pdf": pdf}


def make(directory, prefix, count, seed):
    """`count` of each kind, written into the directory."""
    rng = random.Random(f"{prefix} {seed}")
    os.makedirs(directory)
    made = []
    for number in range(count):
        for kind, content in KINDS.items():
            token = f"CANARY-{rng.randbytes(16).hex()}"
            made.append(Canary(f"{prefix}{number}.{kind}", token, content(rng, token)))
            with open(os.path.join(directory, made[-1].name), "wb") as file:
                file.write(made[-1].content)
    return made
