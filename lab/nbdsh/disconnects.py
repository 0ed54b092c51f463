"""Clients that leave in the middle of everything; the next one is served."""
import os
import socket
import struct

path = os.environ["NBD_SOCKET"]
go = struct.pack(">IQII", 3, 0x49484156454F5054, 7, 6) + struct.pack(">IH", 0, 0)
write = struct.pack(">IHHQQI", 0x25609513, 0, 1, 1, 0, 4096) + b"z" * 4096
conversation = go + write
for cut in [*range(0, len(go) + 40), len(conversation) - 1, len(conversation)]:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(path)
    client.sendall(conversation[:cut])
    client.close()
h.connect_uri(os.environ["NBD_URI"])
assert len(h.pread(512, 0)) == 512
h.shutdown()
