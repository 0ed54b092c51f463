"""Disks on raw flash, read by docs/formats/flash.md alone: not what counts, but all that a chip still shows."""

import tomllib

from .attacker import PAGE, Attacker, master_key, slots

_RECORD = b"QFLASHR1"
_RUN_BYTES, _ITEM_BYTES = 16, 9


def _number(data):
    return int.from_bytes(data, "little")


def _runs(page):
    """Each run that a record names: the page in which it begins, and its units."""
    listed, gaps, count = (_number(page[at:at + 2]) for at in (34, 36, 38))
    at = 40 + 4 * listed + 16 * gaps
    for _ in range(count):
        begin, units, marks = (_number(page[at + of:at + of + 2]) for of in (8, 10, 12))
        first = at + _RUN_BYTES
        at = first + _ITEM_BYTES * (units + marks)
        if at > len(page):
            return
        yield begin, [_number(page[it:it + 5]) for it in range(first, first + _ITEM_BYTES * units, _ITEM_BYTES)]


def versions(raw, page_bytes, block_pages):
    """Every version of each unit that the pages of a chip show, by its number. Stale records and sequences do not matter here."""
    found = {}
    for at in range(0, len(raw), page_bytes):
        if raw[at:at + 8] == _RECORD:
            block = at - at % (page_bytes * block_pages)
            for begin, units in _runs(raw[at:at + page_bytes]):
                for number, unit in enumerate(units):
                    start = block + begin * page_bytes + number * PAGE
                    found.setdefault(unit, set()).add(raw[start:start + PAGE])
    return found


class Media:
    """The media of a sealed disk on the chip, with all versions of each page: `toml` is the text of its disk.toml."""

    NAMES = ("medium", "journal", "map", "stubs", "root")

    def __init__(self, toml):
        self.config = tomllib.loads(toml)
        self.parts, start = {}, 0
        for name in self.NAMES:
            pages = self.config["flash"].get(f"{name}_bytes", 0) // PAGE
            self.parts[name] = range(start, start + pages)
            start += pages

    def pages(self, name, *found):
        """All versions of the pages of a medium in these findings, by number."""
        part = self.parts[name]
        return {unit - part.start: set().union(*(it.get(unit, ()) for it in found)) for unit in part if any(unit in it for it in found)}


def opened(toml, keys, secret, roots_in, *found):
    """What an attacker opens who has the credential, all versions of all pages in `found`, and the roots of `roots_in`: the content of
    blocks, 4096 bytes each, and how many cells there are."""
    media = Media(toml)
    journal = media.pages("journal", *found)
    attacker = Attacker(media.config["size_bytes"], bytes.fromhex(media.config["uuid"].replace("-", "")), media.pages("map", *found), master_key(keys, secret))
    for number, pages in media.pages("root", roots_in).items():
        for page in pages if number else ():
            # It looks into both slots.
            attacker.open(bytes(PAGE) + page + page)
    staged = [slot for head in journal[0] for slot in slots(journal, head)]
    return attacker.contents(media.pages("medium", *found), staged), attacker
