"""MTD devices in a guest, the kernel's modules below them, and a block device above our server."""

import ctypes
import fcntl
import os
import re
import struct
import subprocess
import threading

from .workspace import LabError, wait_until

# linux/include/uapi/mtd/mtd-abi.h
MEMERASE64, MTDFILEMODE, MEMREADOOB64 = 0x40104D14, 0x4D13, 0xC0184D16
_RAW = 3
# mtdchar_readoob gives no more at once.
_SPARE_BYTES_MAX = 4096
# linux/include/uapi/linux/nbd.h
NBD_SET_SOCK, NBD_SET_BLKSIZE, NBD_DO_IT, NBD_CLEAR_SOCK = 0xAB00, 0xAB01, 0xAB03, 0xAB04
NBD_SET_SIZE_BLOCKS, NBD_DISCONNECT, NBD_SET_FLAGS = 0xAB07, 0xAB08, 0xAB0A


def run(*command):
    """A program that has to succeed; its output."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"{' '.join(command[:3])} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def load_module(*words):
    # guest-init made this: the modules do not lie where modprobe looks.
    run("/run/modprobe", *words)


class Device:
    """The MTD device whose driver calls it `name`."""

    def __init__(self, name):
        with open("/proc/mtd") as file:
            found = re.search(rf'^(mtd\d+): .* "{re.escape(name)}"$', file.read(), re.M)
        if not found:
            raise LabError(f"no MTD device {name!r}: its driver found no chip")
        self.device = f"/dev/{found[1]}"

    def fact(self, name):
        with open(f"/sys/class/mtd/{os.path.basename(self.device)}/{name}") as file:
            return file.read().strip()

    def size(self, name="size"):
        """One of its facts that is a number."""
        return int(self.fact(name))

    def erase(self, blocks=None):
        """Erases the first blocks, or all, as flash_erase does: bad blocks stay as they are."""
        size = self.size("erasesize")
        with open(self.device, "r+b", buffering=0) as file:
            for at in range(0, (blocks * size) if blocks else self.size(), size):
                try:
                    fcntl.ioctl(file, MEMERASE64, struct.pack("QQ", at, size))
                except OSError:
                    if not blocks:
                        continue
                    raise

    def corrected(self):
        """All bytes of a chip as its driver corrects them, those of bad blocks too."""
        with open(f"{self.device}ro", "rb", buffering=0) as file:
            return b"".join(file.read(1 << 18) for _ in range(0, self.size(), 1 << 18))

    def raw_nand(self):
        """All bytes of a NAND chip as its cells have them, bad blocks and all: the data areas, and the spare areas."""
        page, spare = self.size("writesize"), self.size("oobsize")
        spares, at_once = ctypes.create_string_buffer(_SPARE_BYTES_MAX), _SPARE_BYTES_MAX // spare * page
        with open(f"{self.device}ro", "rb", buffering=0) as file:
            fcntl.ioctl(file, MTDFILEMODE, _RAW)
            data = b"".join(file.read(1 << 18) for _ in range(0, self.size(), 1 << 18))
            found = []
            for at in range(0, self.size(), at_once):
                fcntl.ioctl(file, MEMREADOOB64, struct.pack("QIIQ", at, 0, at_once // page * spare, ctypes.addressof(spares)))
                found.append(spares.raw)
        return data, b"".join(found)


class BlockDevice:
    """nbd.ko on the socket of a client."""

    path = "/dev/nbd0"

    def __init__(self, client):
        self.client = client
        client.socket.settimeout(None)
        self.fd = os.open(self.path, os.O_RDWR)
        for request, value in ((NBD_SET_BLKSIZE, 512), (NBD_SET_SIZE_BLOCKS, client.size // 512), (NBD_SET_FLAGS, client.flags),
                               (NBD_SET_SOCK, client.socket.fileno())):
            fcntl.ioctl(self.fd, request, value)
        self.thread = threading.Thread(target=lambda: fcntl.ioctl(self.fd, NBD_DO_IT))
        self.thread.start()
        wait_until("the size of /dev/nbd0", lambda: int(open("/sys/block/nbd0/size").read()) == client.size // 512)

    def close(self):
        fcntl.ioctl(self.fd, NBD_DISCONNECT)
        self.thread.join()
        fcntl.ioctl(self.fd, NBD_CLEAR_SOCK)
        os.close(self.fd)
        self.client.close()
