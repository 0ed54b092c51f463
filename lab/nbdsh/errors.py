"""Requests that must be refused, and with what; the connection goes on."""
import errno
import os

h.connect_uri(os.environ["NBD_URI"])
h.set_strict_mode(0)  # let the server be the judge
size = h.get_size()


def refused(codes, action):
    """`action` fails with one of `codes`, and the next request works."""
    try:
        action()
    except nbd.Error as error:
        assert error.errnum in codes, (error.errnum, error.string)
    else:
        raise SystemExit("not refused")
    assert len(h.pread(512, 0)) == 512


refused([errno.EINVAL], lambda: h.pread(512, size))
refused([errno.EINVAL], lambda: h.pread(1024, size - 512))
refused([errno.ENOSPC, errno.EINVAL], lambda: h.pwrite(b"x" * 512, size))
refused([errno.ENOSPC, errno.EINVAL], lambda: h.pwrite(b"x" * 1024, size - 512))
refused([errno.ENOSPC, errno.EINVAL], lambda: h.zero(1024, size - 512))
refused([errno.EINVAL, errno.ENOSPC], lambda: h.trim(1024, size - 512))
refused([errno.EINVAL], lambda: h.pread(512, (1 << 63) - 512))
if os.environ["SERVER_KIND"] == "quietus":
    refused([errno.EINVAL], lambda: h.pread(512, 0, 1 << 14))
    refused([errno.EINVAL], lambda: h.trim(512, (1 << 64) - 512))
# The last bytes are there.
h.pwrite(b"y" * 512, size - 512)
assert h.pread(512, size - 512) == b"y" * 512
h.shutdown()
