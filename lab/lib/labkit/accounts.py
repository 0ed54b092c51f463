"""Deaths, writes and overwrites of each block, as one account.

This is the paper's way to judge ("Life or Death at Block-Level", section 7.7.1):
the workload's own log tells what died, the writes that came tell what reached the
medium, and the server's receipts tell what was destroyed.

A *layer* is content of one owner that was put into a block: of one block of one
file, since that was last freed. Later writes of the same owner replace it; at
the grade `content` each is a layer of its own, dead when the next comes.
Content without a tag (indirect blocks, directories) is one owner as well. What stands in
a journal is a copy, whatever it is of: each write is a layer of its own (the zeros that mkfs
puts there too), and none is missed by these accounts, as the journal is searched.

Invariants of `Block`:
1. `layers` are those not yet destroyed, the oldest first; the last one is what
   the block holds.
2. All but the last are dead: something else has taken their place.
3. An act destroys all dead layers. It is *excess* if there are none.
4. Where one pass is all that is due, a write destroys what it replaces.

Where only marked files are sensitive, content of others is *plain*. None of it is missed; it is
destroyed in vain by an act that found nothing else dead in the block.
"""

from bisect import bisect_left
from collections import Counter, namedtuple

Layer = namedtuple("Layer", "owner place died")
Act = namedtuple("Act", "time start length shredded")
Totals = namedtuple("Totals", "overwrites excess missed unseen plain plain_in_vain")
METADATA, ZEROS, COPY = "metadata", "zeros", "copy"


class Block:
    def __init__(self, one_pass, is_plain):
        self.one_pass, self.is_plain = one_pass, is_plain
        self.layers = []
        self.acts = self.excess = 0
        self.plain, self.plain_in_vain = set(), 0

    def written(self, layer):
        if self.one_pass:
            self.layers = []
        elif self.layers and self.layers[-1].owner == layer.owner:
            self.layers.pop()
        self.layers.append(layer)
        if layer.died is not None and self.is_plain(layer):
            self.plain.add(layer.owner)

    def acted(self, time, shredded, counts):
        """The block was overwritten. Shredded content without a tag is dead: e2fsck would miss it."""
        dead = self.dead(time, shredded)
        self.acts += counts
        self.excess += counts and not dead
        self.plain_in_vain += bool(counts and dead and all(map(self.is_plain, dead)))
        self.layers = self.layers[len(dead):]

    def dead(self, time, shredded=False):
        """The layers that are dead at `time`."""
        if not self.layers:
            return []
        top = self.layers[-1]
        is_dead = top.died is not None and top.died <= time or shredded and top.place is None
        return self.layers if is_dead else self.layers[:-1]


class Accounts:
    """All blocks of a disk, fed once with all writes and acts.

    `story` knows when content died; `is_free(block)` whether the file system says
    at the end that a block is free; blocks that `is_fixed` never hold content of
    files, those that are `in_journal` only copies; `grade` is what counts as a death;
    `one_pass` says that a policy has no more; `is_plain(file number)` whether no mark covers a file. A block of which `is_gone(block)` has died, also without a receipt.
    """

    def __init__(self, story, block_bytes, grade, is_free, is_fixed, in_journal, one_pass=False,
                 is_gone=lambda _: False, is_plain=lambda _: False):
        self.is_gone, self.is_plain_file = is_gone, is_plain
        self.story, self.block_bytes, self.grade = story, block_bytes, grade
        self.is_free, self.is_fixed, self.in_journal, self.one_pass = is_free, is_fixed, in_journal, one_pass
        self.blocks, self.events = {}, {}

    def feed(self, writes, acts, since=0):
        """Everything that happened, in any order; acts count `since` then."""
        events = self.events
        for write in writes:
            if not self.is_fixed(write.block):
                events.setdefault(write.block, []).append((write.time, 0, write))
        for act in acts:
            first, end = act.start // self.block_bytes, -(-(act.start + act.length) // self.block_bytes)
            for number in range(first, end):
                events.setdefault(number, []).append((act.time, 1, act))
        for number, of_block in events.items():
            of_block.sort(key=lambda it: it[:2])
            self.blocks[number] = self._account(number, of_block, since)

    def _account(self, number, events, since):
        block = Block(self.one_pass, self._is_plain)
        layers = self._layers(number, [it for _, is_act, it in events if not is_act])
        for time, is_act, event in events:
            if is_act:
                block.acted(time, event.shredded, counts=time >= since)
            else:
                block.written(next(layers))
        return block

    def _is_plain(self, layer):
        return layer.place is not None and self.is_plain_file(layer.place[0])

    def _layers(self, number, writes):
        """The layer of each of a block's writes."""
        for at, write in enumerate(writes):
            following = writes[at + 1] if at + 1 < len(writes) else None
            if self.in_journal(number):
                yield Layer((COPY, at), None, None)
            else:
                yield self._data(write, following) if write.tag else self._metadata(number, write, following)

    def _metadata(self, number, write, following):
        gone = following.tag is not None if following else self.is_free(number)
        version = write.time if self.grade == "content" else 0
        replaced = following if self.grade == "content" else None
        died = replaced.time if replaced else write.time if gone else None
        return Layer((ZEROS if write.is_zeros else METADATA, version), None, died)

    def _data(self, write, following):
        place = (write.tag.file, write.tag.sector // self.story.sectors_per_block)
        frees = self.story.frees.get(place, [])
        epoch = bisect_left(frees, write.tag.order)
        died = self.story.times[frees[epoch]] if epoch < len(frees) else None
        if self.grade != "content":
            return Layer((*place, epoch), place, died)
        died = min(died or following.time, following.time) if following else died
        return Layer((*place, epoch, write.time), place, died)

    def missed(self):
        """(block, kind) of all content of files that died and was never overwritten; kind: missed, or unseen."""
        for number, block in self.blocks.items():
            if block.layers and self.is_gone(number):
                continue
            for layer, after in zip(block.dead(float("inf")), [*block.layers[1:], None]):
                if layer.place is not None and not self._is_plain(layer):
                    yield number, "unseen" if after and after.place == layer.place else "missed"

    def totals(self):
        """Blocks overwritten, in excess, missed, unseen; plain content that died, and how much of it was destroyed in vain."""
        counts = Counter(kind for _, kind in self.missed())
        return Totals(sum(it.acts for it in self.blocks.values()), sum(it.excess for it in self.blocks.values()),
                      counts["missed"], counts["unseen"],
                      sum(len(it.plain) for it in self.blocks.values()), sum(it.plain_in_vain for it in self.blocks.values()))

    def history(self, number):
        """The history of a block, a line an event, in seconds since the first operation."""
        start = min(self.story.times.values(), default=0)
        free = "free" if self.is_free(number) else "in use"
        lines = [f"block {number}, {free} at the end"]
        for time, is_act, event in self.events[number]:
            what = ("shredded" if event.shredded else "rewritten") if is_act else self._owner_in_words(event)
            lines.append(f"  {time - start:9.3f}  {what}")
        return lines

    def _owner_in_words(self, write):
        if write.tag is None:
            return "zeros written" if write.is_zeros else "metadata written"
        layer = self._data(write, None)
        start = min(self.story.times.values())
        died = f"dead at {layer.died - start:.3f}" if layer.died else "alive"
        return f"file {write.tag.file}, sector {write.tag.sector}, of operation {write.tag.order} written ({died})"
