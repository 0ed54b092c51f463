"""Trimmed ranges read as zeros, at any alignment, until they are written again."""
import os

h.connect_uri(os.environ["NBD_URI"])
if os.environ["SERVER_KIND"] == "quietus":
    h.pwrite(b"e" * (1 << 20), 0)
    for offset, length in ((0, 4096), (8192, 512), (12289, 10000), (65536, 262144), ((1 << 20) - 1, 1)):
        h.trim(length, offset)
        assert h.pread(length, offset) == bytes(length), (offset, length)
        h.pwrite(b"f" * length, offset)
        assert h.pread(length, offset) == b"f" * length, (offset, length)
    h.trim(1 << 20, 0)
    assert h.pread(1 << 20, 0) == bytes(1 << 20)
h.shutdown()
