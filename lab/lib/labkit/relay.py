"""A relay between an NBD client and a server that remembers what was written.

Every byte is passed on as it is. For each write it is noted when it came, where
it goes, and, a block of the file system each, which tagged sector comes first in
it (None: no tag) and whether the block is all zeros. If asked to, it notes old content
that comes again together with another file's.
"""

import socket
import struct
import threading
import time
from collections import namedtuple

from . import sectors, wire

_PIECE_BYTES = 1 << 20

Write = namedtuple("Write", "time block tag is_zeros")
Kept = namedtuple("Kept", "time command offset length payload flags", defaults=(0,))


class Relay:
    """Listens on `path`, and passes each connection on to the socket `upstream`.

    `writes` lists what was written, in order of arrival: a `Write` a block of
    `block_bytes`. With `keep`, `kept` lists every request
    as a `Kept`, with all that it wrote: for small disks. With `carry`, `carried`
    has the tag that each sector of the disk was last written with as part of a block that
    begins with another file's.
    """

    def __init__(self, path, upstream, block_bytes, keep=False, carry=False):
        self.path, self.upstream, self.block_bytes = path, upstream, block_bytes
        self.writes = []
        self.kept = [] if keep else None
        self.carry, self.carried = carry, {}
        self.noted = set()
        self.failure = None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(8)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def uri(self):
        return f"nbd+unix:///?socket={self.path}"

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return  # the relay is not needed any more
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.upstream)
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._replies, args=(server, client), daemon=True).start()
            threading.Thread(target=self._requests, args=(client, server), daemon=True).start()

    @staticmethod
    def _replies(server, client):
        """Server to client: nothing to know there."""
        buffer = bytearray(_PIECE_BYTES)
        try:
            while count := server.recv_into(buffer):
                client.sendall(memoryview(buffer)[:count])
        except OSError:
            pass
        for end in (client, server):
            _shut(end)

    def _requests(self, client, server):
        """Client to server, message by message."""
        try:
            server.sendall(wire.exactly(client, 4))
            while True:
                self._message(client, server)
        except (OSError, EOFError):
            pass
        except Exception as error:  # told by `check`, in the thread that asks
            self.failure = error
        for end in (client, server):
            _shut(end)

    def _message(self, client, server):
        head = wire.exactly(client, 16)
        option, _, length = struct.unpack(">QII", head)
        if option == wire.OPTION_MAGIC:
            server.sendall(head + wire.exactly(client, length))
            return
        head += wire.exactly(client, wire.REQUEST.size - 16)
        magic, flags, command, _, offset, length = wire.REQUEST.unpack(head)
        if magic != wire.REQUEST_MAGIC:
            raise ValueError(f"neither an option nor a request: {head.hex()}")
        payload = wire.exactly(client, length) if command == wire.WRITE else b""
        self._note(Kept(time.time(), command, offset, length, payload, flags))
        server.sendall(head + payload)

    def _note(self, request):
        if self.kept is not None:
            self.kept.append(request)
        if request.command == wire.WRITE:
            self._note_write(request.time, request.offset, request.payload)
        elif request.command == wire.ZERO:
            first, end = request.offset // self.block_bytes, -(-(request.offset + request.length) // self.block_bytes)
            self.writes += [Write(request.time, block, None, True) for block in range(first, end)]

    def _note_write(self, now, offset, payload):
        at = 0
        while at < len(payload):
            block, within = divmod(offset + at, self.block_bytes)
            piece = payload[at:at + self.block_bytes - within]
            found = sectors.parse(piece[:sectors.RECORD]) or next((it.tag for it in sectors.finds(piece)), None)
            is_zeros = not found and not any(piece)
            # A part of zeros takes nothing's place.
            if not is_zeros or len(piece) == self.block_bytes or block not in self.noted:
                self.noted.add(block)
                self.writes.append(Write(now, block, found, is_zeros))
            if self.carry and found:
                self.carried.update(_carried((offset + at) // sectors.SECTOR, found, piece))
            at += len(piece)

    def check(self):
        """Raises what went wrong in the relay's threads."""
        if self.failure:
            raise self.failure


def _carried(first, owner, piece):
    """Sectors and tags of other files in a piece of a block whose first tag is `owner`."""
    for at in range(0, len(piece), sectors.SECTOR):
        tag = sectors.parse(piece[at:at + sectors.RECORD])
        if tag and (tag.run, tag.file) != (owner.run, owner.file):
            yield first + at // sectors.SECTOR, tag


def _shut(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
