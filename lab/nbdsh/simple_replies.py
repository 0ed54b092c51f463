"""A client that asks for no structured replies is served too."""
import os

h.set_request_structured_replies(False)
h.connect_uri(os.environ["NBD_URI"])
assert not h.get_structured_replies_negotiated()
assert not h.can_df()
h.pwrite(b"b" * 1000, 3333)
assert h.pread(1002, 3332) == b"\0" + b"b" * 1000 + b"\0"
h.shutdown()
