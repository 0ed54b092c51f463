"""Structured replies: chunks cover the read once; DF gives just one."""
import os

h.set_request_structured_replies(True)
h.add_meta_context("base:allocation")
h.connect_uri(os.environ["NBD_URI"])
assert h.get_structured_replies_negotiated()
h.pwrite(b"a" * 65536, 65536)


def read(length, offset, flags=0):
    """The chunks of one structured read."""
    chunks = []

    def chunk(data, at, status, _error):
        chunks.append((at, len(data), status))

    data = h.pread_structured(length, offset, chunk, flags)
    return data, chunks


data, chunks = read(196608, 0)
assert data == bytes(65536) + b"a" * 65536 + bytes(65536)
covered = sorted((at, length) for at, length, _ in chunks)
assert covered[0][0] == 0
for (at, length), (following, _) in zip(covered, covered[1:]):
    assert at + length == following, covered
assert sum(length for _, length in covered) == 196608, covered

data, chunks = read(196608, 0, nbd.CMD_FLAG_DF)
assert data == bytes(65536) + b"a" * 65536 + bytes(65536)
assert len(chunks) == 1, chunks
h.shutdown()
