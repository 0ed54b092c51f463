"""An NBD client that knows exactly which requests were acknowledged.

Written for the tests that kill the server: nothing is retried, buffered or
hidden. Fixed newstyle, simple replies (proto.md of the NBD project).
"""

import os
import socket
import struct

READ, WRITE, DISCONNECT, FLUSH, TRIM, ZERO = 0, 1, 2, 3, 4, 6
FUA, NO_HOLE = 1, 2

OPTION_MAGIC = 0x49484156454F5054
REQUEST, REQUEST_MAGIC = struct.Struct(">IHHQQI"), 0x25609513
_REPLY_MAGIC = 0x67446698
_OPT_GO = 7
_REP_ACK, _REP_INFO = 1, 3
_INFO_EXPORT = 0


class Disconnected(Exception):
    """The server is gone."""


class Client:
    """One connection to an export, by default the first, of a unix socket."""

    def __init__(self, path, timeout=30, export=""):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.read_lengths = {}
        self.cookie = 0
        try:
            self.socket.connect(path)
            self.size, self.flags = self._negotiate(export.encode())
        except OSError as error:
            self.socket.close()
            raise Disconnected(str(error)) from error
        except Disconnected:
            self.socket.close()
            raise

    def close(self):
        """Closes the socket without a word."""
        self.socket.close()

    def _receive(self, count):
        parts = []
        while count > 0:
            try:
                part = self.socket.recv(min(count, 1 << 20))
            except ConnectionError as error:
                raise Disconnected(str(error)) from error
            if not part:
                raise Disconnected("end of stream")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _negotiate(self, name):
        magic, option_magic, _ = struct.unpack(">8sQH", self._receive(18))
        assert magic == b"NBDMAGIC" and option_magic == OPTION_MAGIC, "not a newstyle server"
        go = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
        self.socket.sendall(struct.pack(">IQII", 3, OPTION_MAGIC, _OPT_GO, len(go)) + go)
        export = None
        while True:
            _, _, kind, length = struct.unpack(">QIII", self._receive(20))
            body = self._receive(length)
            if kind == _REP_ACK:
                return export
            if kind != _REP_INFO:
                raise Disconnected(f"the server refused GO with {kind:#x}: {body!r}")
            if struct.unpack(">H", body[:2])[0] == _INFO_EXPORT:
                export = struct.unpack(">QH", body[2:12])

    def send(self, command, offset, length, payload=b"", flags=0):
        """Sends one request; its cookie."""
        self.cookie += 1
        header = REQUEST.pack(REQUEST_MAGIC, flags, command, self.cookie, offset, length)
        if command == READ:
            self.read_lengths[self.cookie] = length
        try:
            self.socket.sendall(header + payload)
        except (ConnectionError, BrokenPipeError) as error:
            raise Disconnected(str(error)) from error
        return self.cookie

    def receive(self):
        """Waits for one reply: its cookie, its error (0: none), what was read."""
        magic, error, cookie = struct.unpack(">IIQ", self._receive(16))
        assert magic == _REPLY_MAGIC, f"reply magic {magic:#x}"
        length = self.read_lengths.pop(cookie, 0)
        data = self._receive(length) if length and not error else b""
        return cookie, error, data

    def call(self, command, offset, length, payload=b"", flags=0):
        """One request and its reply, with nothing else in flight; what was read."""
        sent = self.send(command, offset, length, payload, flags)
        cookie, error, data = self.receive()
        assert cookie == sent, "a reply to something else"
        if error:
            raise OSError(error, f"command {command} at {offset}+{length}")
        return data

    def many(self, requests, depth=64):
        """All `requests`, (command, offset, length, payload), with as many in flight, and a flush; OSError if one failed."""
        flying = 0
        for request in requests:
            self.send(*request)
            flying += 1
            if flying == depth:
                self._must_receive()
                flying -= 1
        for _ in range(flying):
            self._must_receive()
        self.call(FLUSH, 0, 0)

    def _must_receive(self):
        _, error, _ = self.receive()
        if error:
            raise OSError(error, os.strerror(error))


def exactly(source, count):
    """`count` bytes from a socket; EOFError if it ends before."""
    data = bytearray(count)
    view = memoryview(data)
    while view:
        got = source.recv_into(view)
        if not got:
            raise EOFError
        view = view[got:]
    return bytes(data)
