"""The client suites; importing a module registers its suites."""

from . import libnbd_tools, qemu_tools, nbdsh, tester, libnbd_tests, fio, tls, kernel, newest  # noqa: F401
