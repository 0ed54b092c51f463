"""A TPM in software, which can be busy."""

import contextlib
import os
import socket
import struct
import subprocess
import threading

from . import wire
from .servers import accepts
from .workspace import need, wait_until

NV_WRITE = 0x137
# TPM_RC_RETRY, "the TPM was not able to start the command".
RETRY = bytes.fromhex("80010000000a00000922")
_HEAD = struct.Struct(">HII")


class Tpm:
    """swtpm, and a way to it in which writes are answered with "try again later" while `is_busy`."""

    def __init__(self, work):
        need("swtpm")
        directory = work.directory("tpm")
        self.inner, self.path, self.is_busy, self.refused = (os.path.join(directory, "inner"), os.path.join(directory, "way"), False, 0)
        work.spawn(["swtpm", "socket", "--tpm2", "--flags", "not-need-init,startup-clear", f"--tpmstate=dir={directory}",
                    f"--server=type=unixio,path={self.inner}"], stderr=subprocess.DEVNULL)
        wait_until("swtpm takes connections", lambda: accepts(self.inner))
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def root(self, index=0x01800150):
        """As `create --root` takes it."""
        return f"tpm:socket:{self.path}:{index:#010x}"

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client):
        with client, socket.socket(socket.AF_UNIX) as inner, contextlib.suppress(EOFError):
            inner.connect(self.inner)
            while True:
                command = _message(client)
                if self.is_busy and _HEAD.unpack(command[:_HEAD.size])[2] == NV_WRITE:
                    self.refused += 1
                    client.sendall(RETRY)
                else:
                    inner.sendall(command)
                    client.sendall(_message(inner))


def _message(stream):
    """A command or a response, whole; EOFError at the end of the stream."""
    head = wire.exactly(stream, _HEAD.size)
    return head + wire.exactly(stream, _HEAD.unpack(head)[1] - _HEAD.size)
