"""Recovery tools of other projects, run on a raw image; and the files that they bring back."""

import os
import re
import shutil
import subprocess
from collections import namedtuple
from pathlib import Path

from .canaries import SECTOR

Recovered = namedtuple("Recovered", "exact part")
SECONDS_MAX = 120
_SCALPEL = ("png y 5000000 \\x89PNG\\x0d\\x0a\\x1a\\x0a IEND\\xae\\x42\\x60\\x82\n"
            "pdf y 5000000 %PDF %%EOF\\x0a REVERSE\n")
_INODE = re.compile(r"(\d+)(?:-\d+-\d+)?(?:\(realloc\))?:")


def _run(*argv, cwd=None, stdout=subprocess.DEVNULL):
    """Runs a tool; how it ends says nothing, what it leaves behind does."""
    try:
        return subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout,
                              stderr=subprocess.DEVNULL, timeout=SECONDS_MAX).stdout
    except subprocess.TimeoutExpired:
        return b""


def _command(*words, on_copy=False):
    """A tool that is one command: `{image}` and `{out}` stand for the image, or for a copy of it, and for a folder."""
    def run(image, out):
        source = os.path.join(out, "copy") if on_copy else image
        if on_copy:
            _run("cp", "--sparse=always", image, source)
        _run(*(word.format(image=source, out=out) for word in words), cwd=out)
        if on_copy:
            os.unlink(source)
    return run


def scalpel(image, out):
    """Carves by rules of our own."""
    rules = os.path.join(out, "rules")
    Path(rules).write_text(_SCALPEL)
    _run("scalpel", "-c", rules, "-o", os.path.join(out, "found"), image)


def sleuthkit(image, out):
    """Every deleted entry that fls lists, by its inode; and all unallocated blocks."""
    listed = _run("fls", "-r", "-d", "-p", image, stdout=subprocess.PIPE) or b""
    for inode in {match[1] for match in _INODE.finditer(listed.decode(errors="replace"))}:
        with open(os.path.join(out, inode), "wb") as file:
            _run("icat", "-r", image, inode, stdout=file)
    with open(os.path.join(out, "unallocated"), "wb") as file:
        _run("blkls", image, stdout=file)


TOOLS = {
    # The whole space, corrupted files too.
    "photorec": _command("photorec", "/d", "{out}/found", "/cmd", "{image}",
                         "partition_none,options,paranoid,keep_corrupted_file,fileopt,everything,enable,wholespace,search"),
    "foremost": _command("foremost", "-Q", "-t", "png,pdf,all", "-i", "{image}", "-o", "{out}/found"),
    "scalpel": scalpel,
    "sleuthkit": sleuthkit,
    # The tool's last resort.
    "ext4magic": _command("ext4magic", "{image}", "-M", "-d", "{out}/found", on_copy=True),
    # It replays a journal.
    "extundelete": _command("extundelete", "--restore-all", "-o", "{out}/found", "{image}", on_copy=True),
    # Every deleted file of which anything is left.
    "ntfsundelete": _command("ntfsundelete", "-f", "-u", "-m", "*", "-d", "{out}", "{image}"),
    "magicrescue": _command("magicrescue", "-r", "png", "-d", "{out}", "{image}"),
}
# Those that know one family of file systems only.
_ONLY = {"ext4magic": "ext", "extundelete": "ext", "ntfsundelete": "ntfs"}
PROGRAMS = ["photorec", "foremost", "scalpel", "fls", "icat", "blkls", "ext4magic", "extundelete", "ntfsundelete",
            "magicrescue"]


def compare(data, canaries):
    """Which of the canaries `data` holds: those it begins with, and those it has a piece of."""
    pieces = {data[at:at + SECTOR] for at in range(0, len(data), SECTOR)}
    exact = {it.name for it in canaries if data.startswith(it.content)}
    part = {it.name for it in canaries if it.token in data or not pieces.isdisjoint(it.sectors())}
    return Recovered(exact, exact | part)


def brought_back(directory, canaries):
    """The same, of all files below a directory."""
    exact, part = set(), set()
    for root, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found = compare(Path(path).read_bytes(), canaries)
                exact |= found.exact
                part |= found.part
    return Recovered(exact, part)


def raw(paths, canaries):
    """By file: which of the canaries it holds, wherever they lie in it."""
    return {f"raw {os.path.basename(path)}": _held(path, canaries) for path in paths}


def _held(path, canaries):
    data = Path(path).read_bytes()
    return Recovered({it.name for it in canaries if it.content in data}, compare(data, canaries).part)


def all_tools(image, canaries, work, fs):
    """By tool for that file system: what it brings back of the canaries. The first is no tool but the image itself."""
    found = {"raw image": _held(image, canaries)}
    for name, tool in TOOLS.items():
        if not fs.name.startswith(_ONLY.get(name, "")):
            continue
        out = os.path.join(work, name)
        os.makedirs(out)
        tool(image, out)
        found[name] = brought_back(out, canaries)
        shutil.rmtree(out, ignore_errors=True)
    return found
