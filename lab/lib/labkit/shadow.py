"""The content that a disk must hold after its server was killed.

Invariants that `Shadow` keeps:
1. `live` is the content that every acknowledged request left behind.
2. A request in flight overlaps no other, so each of its sectors has, after a
   kill, one of just two contents: the old and the new.
3. Once a sector has been read after a kill, that content is what it has.
"""

from . import tags
from .tags import SECTOR
from .wire import FLUSH, READ

BLOCK = 4096


class Request:
    """A request under way; `after` is what it makes of its range, which `is_durable` with its reply, if so told."""

    def __init__(self, command, offset, length, after=b"", is_durable=False):
        self.command, self.offset, self.length, self.after = command, offset, length, after
        self.is_durable = is_durable

    @property
    def end(self):
        """The first byte after it."""
        return self.offset + self.length


class Shadow:
    """The expected content of a disk of `size` bytes, at first zeros."""

    def __init__(self, size):
        self.live = bytearray(size)
        self.in_flight = {}
        self.uncertain = []

    def is_free(self, offset, length):
        """Whether no request in flight touches the range."""
        return all(offset >= other.end or other.offset >= offset + length
                   for other in self.in_flight.values())

    def sent(self, cookie, request):
        self.in_flight[cookie] = request

    def acknowledged(self, cookie, data):
        """Takes a reply without an error; complaints, if it was a wrong read."""
        request = self.in_flight.pop(cookie)
        now = self.live[request.offset:request.end]
        if request.command == READ:
            return [] if now == data else [self._complaint(request.offset, now, data)]
        if request.after:
            self.changed(request.offset, request.after)
        return []

    def failed(self, cookie):
        """Takes a reply with an error: the request, which may or may not have happened."""
        request = self.in_flight.pop(cookie)
        if request.after:
            self.uncertain.append(request)
        return request

    def changed(self, offset, content):
        """The disk holds `content` there now."""
        self.live[offset:offset + len(content)] = content

    def killed(self):
        """The server is gone: what was in flight may or may not have happened."""
        self.uncertain += [it for it in self.in_flight.values() if it.after]
        self.in_flight.clear()

    def is_dead(self, tag):
        """Whether the content with that tag is not what the disk holds there."""
        _, sector = tag
        start = sector * SECTOR
        return tags.of(self.live[start:start + SECTOR]) != tag

    def check(self, offset, data):
        """Compares what was read at `offset` after a restart; complaints."""
        expected = self.live[offset:offset + len(data)]
        if expected == data:
            return []
        complaints = []
        for at in range(0, len(data), SECTOR):
            old, new = expected[at:at + SECTOR], data[at:at + SECTOR]
            if old == new:
                continue
            if not self._may_be(offset + at, new):
                complaints.append(self._complaint(offset + at, old, new))
            self.live[offset + at:offset + at + SECTOR] = new
        return complaints

    def settled(self):
        """The whole disk was read: nothing is uncertain any more."""
        self.uncertain.clear()

    def _may_be(self, offset, content):
        return any(it.offset <= offset < it.end
                   and it.after[offset - it.offset:offset - it.offset + SECTOR] == content
                   for it in self.uncertain)

    @staticmethod
    def _complaint(offset, expected, found):
        return (f"byte {offset}: expected {describe(expected)}, found {describe(found)}")


class Unflushed(Shadow):
    """The same of a disk that need not keep, over a kill, all that was acknowledged and not flushed.

    Changes are numbered: a flush covers those up to the `number` at the time when it was sent.
    """

    def __init__(self, size):
        super().__init__(size)
        self.number = 0

    def sent(self, cookie, request):
        super().sent(cookie, request)
        request.covers = self.number

    def acknowledged(self, cookie, data):
        request = self.in_flight[cookie]
        complaints = super().acknowledged(cookie, data)
        if request.command == FLUSH:
            self._flushed(request.covers)
        elif request.is_durable:
            self._written_through(range(request.offset // SECTOR, request.end // SECTOR))
        return complaints

    def _flushed(self, covered):
        """The changes up to this number are durable."""
        raise NotImplementedError

    def _written_through(self, sectors):
        """The present content of these sectors is durable."""
        raise NotImplementedError


class FlushedShadow(Unflushed):
    """The same, where nothing that was not flushed need be kept.

    Each sector then has what was `kept`, or any of what was acknowledged `since`: by
    sector, (number of the request, content), the oldest first.
    """

    def __init__(self, size):
        super().__init__(size)
        self.kept, self.since = bytearray(size), {}

    def _flushed(self, covered):
        self._keep(self.since, covered)

    def _written_through(self, sectors):
        self._keep(sectors, self.number)

    def changed(self, offset, content):
        super().changed(offset, content)
        self.number += 1
        for at in range(0, len(content), SECTOR):
            self.since.setdefault((offset + at) // SECTOR, []).append((self.number, content[at:at + SECTOR]))

    def _keep(self, sectors, covered):
        for sector in list(sectors):
            found = [content for number, content in self.since[sector] if number <= covered]
            later = [it for it in self.since.pop(sector) if it[0] > covered]
            if found:
                self.kept[sector * SECTOR:(sector + 1) * SECTOR] = found[-1]
            if later:
                self.since[sector] = later

    def settled(self):
        super().settled()
        self.kept[:] = self.live
        self.since.clear()

    def _may_be(self, offset, content):
        later = [it for _, it in self.since.get(offset // SECTOR, ())]
        return content in (self.kept[offset:offset + SECTOR], *later) or super()._may_be(offset, content)


class DiedShadow(FlushedShadow):
    """The same, which also knows what died for good: after a flush that covers a trim, no earlier write of those sectors may come back.

    Content that was only written over has not died. `died` has, by sector, the last write that is covered.
    """

    def __init__(self, size):
        super().__init__(size)
        self.died, self.deaths, self.writes = {}, [], 0

    def sent(self, cookie, request):
        super().sent(cookie, request)
        tag = tags.of(request.after[:16])
        self.writes = max(self.writes, tag[0] if tag else 0)

    def changed(self, offset, content):
        super().changed(offset, content)
        if not any(content):
            self.deaths.append((self.number, self.writes, range(offset // SECTOR, (offset + len(content)) // SECTOR)))

    def _flushed(self, covered):
        super()._flushed(covered)
        for _, writes, sectors in (it for it in self.deaths if it[0] <= covered):
            self.died.update(dict.fromkeys(sectors, writes))
        self.deaths = [it for it in self.deaths if it[0] > covered]

    def killed(self):
        super().killed()
        self.deaths.clear()

    def is_undead(self, tag):
        """Whether the content with that tag died for good."""
        number, sector = tag
        return number <= self.died.get(sector, 0)


class SealedShadow(Unflushed):
    """The same of a sealed disk: writes over dead bytes may be lost until they are flushed. Zeros are found then.

    `new` has, by sector, the number of the first write since its bytes were dead; `died` the blocks with content that died
    as a whole since the account was last taken.
    """

    def __init__(self, size):
        super().__init__(size)
        self.new, self.died = {}, set()

    def _flushed(self, covered):
        self.new = {sector: number for sector, number in self.new.items() if number > covered}

    def _written_through(self, sectors):
        for sector in sectors:
            self.new.pop(sector, None)

    def changed(self, offset, content):
        self.number += 1
        for at in range(offset, offset + len(content), SECTOR):
            if not any(content[at - offset:at - offset + SECTOR]):
                self.new.pop(at // SECTOR, None)
            elif not any(self.live[at:at + SECTOR]):
                self.new.setdefault(at // SECTOR, self.number)
        if not any(content):
            whole = range(-(-offset // BLOCK), (offset + len(content)) // BLOCK)
            self.died |= {block for block in whole if self.has_content(block)}
        super().changed(offset, content)

    def has_content(self, block):
        return any(self.live[block * BLOCK:(block + 1) * BLOCK])

    def settled(self):
        super().settled()
        self.new.clear()

    def _may_be(self, offset, content):
        return offset // SECTOR in self.new and not any(content) or super()._may_be(offset, content)


def describe(content):
    """One sector's content in words."""
    tag = tags.of(bytes(content[:16]))
    if tag:
        return f"write {tag[0]} of sector {tag[1]}"
    return "zeros" if not any(content) else bytes(content[:16]).hex()
