"""Several connections to one disk: what one has flushed, all see."""
import os

handles = []
for _ in range(8):
    handle = nbd.NBD()
    handle.connect_uri(os.environ["NBD_URI"])
    handles.append(handle)
assert len({handle.can_multi_conn() for handle in handles}) == 1
for number, handle in enumerate(handles):
    handle.pwrite(bytes([number + 1]) * 65536, number * 65536)
    if handle.can_multi_conn():
        handles[0].flush()
for number in range(8):
    for handle in handles:
        assert handle.pread(65536, number * 65536) == bytes([number + 1]) * 65536
for handle in handles:
    handle.shutdown()
