"""Zeroes with NO_HOLE and FAST_ZERO, FUA, trims, cache: what is read afterwards."""
import errno
import os

h.connect_uri(os.environ["NBD_URI"])
assert h.can_flush() and h.can_fua() and h.can_trim() and h.can_zero() and h.can_cache()
assert not h.is_read_only()
block = b"d" * (1 << 20)


def zeroed(flags):
    """Writes, zeroes with `flags`, and reads."""
    h.pwrite(block, 0)
    h.zero(1 << 19, 4096, flags)
    assert h.pread(1 << 20, 0) == block[:4096] + bytes(1 << 19) + block[4096 + (1 << 19):]


zeroed(0)
zeroed(nbd.CMD_FLAG_NO_HOLE)
zeroed(nbd.CMD_FLAG_FUA)
if h.can_fast_zero():
    h.pwrite(block, 0)
    try:
        h.zero(1 << 19, 0, nbd.CMD_FLAG_FAST_ZERO)
        assert h.pread(1 << 19, 0) == bytes(1 << 19)
    except nbd.Error as error:  # not fast: refused, and nothing is changed
        assert error.errnum in (errno.ENOTSUP, errno.EOPNOTSUPP), error
        assert h.pread(1 << 20, 0) == block

h.pwrite(block, 0, nbd.CMD_FLAG_FUA)
h.trim(1 << 19, 0, nbd.CMD_FLAG_FUA)
# Odd ranges: the bytes beside the range stay.
h.pwrite(block, 0)
h.zero(1001, 777)
assert h.pread(4096, 0) == block[:777] + bytes(1001) + block[: 4096 - 1778]
h.trim(5000, 8191)
assert h.pread(8191, 0)[4096:] == block[: 8191 - 4096]
assert h.pread(1, 8191 + 5000) == b"d"
if os.environ["SERVER_KIND"] == "quietus":  # what is trimmed reads as zeros
    assert h.pread(5000, 8191) == bytes(5000)
h.cache(1 << 20, 0)
h.flush()
h.zero(64 << 20, 0)
assert h.pread(1 << 20, 0) == bytes(1 << 20)
h.shutdown()
