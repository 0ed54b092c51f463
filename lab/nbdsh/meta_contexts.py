"""LIST and SET META CONTEXT; block status of what was written, trimmed, never used."""
import os

h.set_opt_mode(True)
h.connect_uri(os.environ["NBD_URI"])
contexts = []
h.opt_list_meta_context(lambda name: contexts.append(name) and 0)
assert "base:allocation" in contexts, contexts
ours = os.environ["SERVER_KIND"] == "quietus"
assert not ours or "quietus:liveness" in contexts, contexts
h.add_meta_context("base:allocation")
if ours:
    h.add_meta_context("quietus:liveness")
h.add_meta_context("unknown:context")
h.opt_go()
assert h.can_meta_context("base:allocation")
assert not h.can_meta_context("unknown:context")

h.pwrite(b"c" * (1 << 20), 4 << 20)
h.trim(1 << 19, 4 << 20)


def status(length, offset, flags=0):
    """For each context, its (length, flags) from `offset` on."""
    found = {}

    def extents(context, at, entries, _error):
        assert at == offset
        found[context] = list(zip(entries[::2], entries[1::2]))

    h.block_status(length, offset, extents, flags)
    return found


found = status(64 << 20, 0)
for entries in found.values():
    assert all(length > 0 for length, _ in entries), found
assert sum(length for length, _ in found["base:allocation"]) <= 64 << 20
half = 1 << 19
live = status(half, (4 << 20) + half, nbd.CMD_FLAG_REQ_ONE)["base:allocation"]
assert live == [(half, 0)], live
trimmed = status(half, 4 << 20, nbd.CMD_FLAG_REQ_ONE)["base:allocation"]
assert len(trimmed) == 1, trimmed
if ours:
    liveness = status(half, (4 << 20) + half)["quietus:liveness"]
    assert liveness[0] == (half, 0), liveness
    unused = status(1 << 20, 32 << 20)["quietus:liveness"]
    assert unused == [(1 << 20, 1)], unused
h.shutdown()
