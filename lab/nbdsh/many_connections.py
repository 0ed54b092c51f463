"""Sixty-four connections to one disk at once: what one has flushed, all see."""
import os

handles = []
for _ in range(64):
    handle = nbd.NBD()
    handle.connect_uri(os.environ["NBD_URI"])
    handles.append(handle)
assert len({handle.can_multi_conn() for handle in handles}) == 1
for number, handle in enumerate(handles):
    handle.pwrite(bytes([number + 1]) * 4096, number * 4096)
    if handle.can_multi_conn():
        handles[0].flush()
for number in range(64):
    for handle in handles:
        assert handle.pread(4096, number * 4096) == bytes([number + 1]) * 4096
for handle in handles:
    handle.flush()
    handle.shutdown()
