"""Content that is alive, dead or lost on a disk, by the tags of its sectors."""

import os
import re
from collections import namedtuple

from . import sectors, trace
from .forensics import raw_files

Verdict = namedtuple("Verdict", "dead lost")
# Names that only the workload gives (labkit/styles.py), as they stand in directories.
_NAMES = re.compile(rb"spool\d+|tree\d+|table\d+|temp\d+|program\.(?:new|so)")


def present(path):
    """Every tag in a file: to whether it is there as a whole sector in its place."""
    found = {}
    for find in sectors.finds_in_file(path):
        is_whole = find.length == sectors.SECTOR and find.position % sectors.SECTOR == 0
        found[find.tag] = found.get(find.tag, False) or is_whole
    return found


def judge(live, found):
    """The tags that should be gone, and those that should be there whole."""
    return Verdict(dead=set(found) - live, lost={tag for tag in live if not found.get(tag)})


def judge_disk(live, medium, others, any_piece=False):
    """A `Verdict` of the medium, with what the `others` hold that is dead.

    With `any_piece` content is not lost as long as something is left of each sector."""
    found = present(medium)
    verdict = judge(live, dict.fromkeys(found, True) if any_piece else found)
    beside = {path: judge(live, present(path)).dead for path in others}
    return verdict, {path: dead for path, dead in beside.items() if dead}


def slack(medium, dead, live, block_bytes, fixed=(), carried=None):
    """Those of the dead tags that lie only in the very block in which the same file still ends,
    in `fixed` blocks, or, in a block of a living file, in a sector that has been `carried`: the
    guest wrote them there again itself (see `Relay`)."""
    held, found, carried = {}, {}, carried or {}
    for find in sectors.finds_in_file(medium):
        block, owner = find.position // block_bytes, (find.tag.run, find.tag.file)
        if find.tag in dead:
            again = carried.get(find.position // sectors.SECTOR) == find.tag
            found.setdefault(find.tag, set()).add((block, owner, again))
        elif find.tag in live:
            held.setdefault(block, set()).add(owner)

    def excused(block, owner, again):
        return block in fixed or owner in held.get(block, ()) or again and block in held
    return {tag for tag, places in found.items() if all(excused(*place) for place in places)}


def residue(medium, journal, block_bytes):
    """Residue: content and names in the journal's blocks that a finished journal need not hold, a line a block."""
    found = []
    with open(medium, "rb") as file:
        for block in sorted(journal):
            file.seek(block * block_bytes)
            what = _residue_of(file.read(block_bytes))
            found += [f"block {block}: {what}"] if what else []
    return found


def residue_behind_the_tail(journal, head=0):
    """The same of a journal's content while it is in use: of what no replay would read. `head`: see `trace.log_in_use`."""
    block_bytes, in_use = trace.log_in_use(journal, head)
    found = {at: _residue_of(journal[at * block_bytes:(at + 1) * block_bytes])
             for at in range(len(journal) // block_bytes) if at not in in_use}
    return [f"block {at} of the journal: {what}" for at, what in found.items() if what]


def _residue_of(data):
    tag = next((find.tag for find in sectors.finds(data)), None)
    if tag:
        return f"{tag}"
    name = _NAMES.search(data)
    return f"the name {name[0].decode()}" if name else None


def places(tags, paths):
    """Where each of `tags` lies in the files `paths`, in words."""
    found = {tag: [] for tag in tags}
    for path in paths:
        for find in sectors.finds_in_file(path):
            if find.tag in found:
                found[find.tag].append(f"{os.path.basename(path)} at {find.position} ({find.length} bytes)")
    return {tag: ", ".join(places) for tag, places in found.items()}


def files_of(server):
    """The other files of a disk."""
    return [path for path in raw_files(server) if path != server.medium]


def damaged(model, survey):
    """The names whose file is not as the model says, and those that should not be there."""
    wanted = {path: file.tags for path, file in model.by_path().items()}
    return sorted(path for path in wanted.keys() | survey.keys() if wanted.get(path) != survey.get(path))


def difference(wanted, found):
    """In words, how a file's tags are not those that were promised; None if they are."""
    if found is None:
        return "not there"
    if len(found) != len(wanted):
        return f"{len(found)} sectors in place of {len(wanted)}"
    for at, (tag, other) in enumerate(zip(wanted, found)):
        if tag != other:
            return f"sector {at} is {other or 'zeros'} in place of {tag or 'zeros'}"
    return None
