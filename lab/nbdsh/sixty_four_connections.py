"""Sixty-four clients at once."""
import os

handles = []
for number in range(64):
    handle = nbd.NBD()
    handle.connect_uri(os.environ["NBD_URI"])
    handles.append(handle)
for number, handle in enumerate(handles):
    handle.pwrite(bytes([number + 1]) * 4096, number * 4096)
for handle in handles:
    handle.flush()
for number, handle in enumerate(reversed(handles)):
    assert handle.pread(4096, number * 4096) == bytes([number + 1]) * 4096
for handle in handles:
    handle.shutdown()
