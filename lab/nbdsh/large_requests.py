"""Payloads of 32 MiB in one request; 64 MiB where the server says that it takes them."""
import os

h.connect_uri(os.environ["NBD_URI"])
h.set_strict_mode(0)
largest = h.get_block_size(nbd.SIZE_MAXIMUM)
length = 64 << 20 if largest >= 64 << 20 else 32 << 20
content = bytes(range(256)) * (length // 256)
h.pwrite(content, 0)
assert h.pread(length, 0) == content
h.zero(64 << 20, 0)
assert not any(h.pread(32 << 20, 32 << 20))
h.shutdown()
