"""Negotiation step by step: list, info, then go; and a name that is not served."""
import os

h.set_opt_mode(True)
h.connect_uri(os.environ["NBD_URI"])
assert h.aio_is_negotiating()
names = []
h.opt_list(lambda name, description: names.append(name) and 0)
assert names, "no export is listed"
h.set_export_name("")
h.opt_info()
assert h.get_size() == 64 << 20
if os.environ["SERVER_KIND"] != "nbdkit":  # it serves any name
    h.set_export_name("no such export")
    try:
        h.opt_info()
        raise SystemExit("an unknown export was described")
    except nbd.Error:
        pass
    h.set_export_name("")
h.opt_go()
assert h.aio_is_ready()
assert h.pread(512, 0) == bytes(512)
h.shutdown()
