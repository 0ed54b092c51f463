"""The common options of the lab's commands, and how a command line is told again with its results."""

import argparse
import os
import shlex
import sys

from .measure import machine, publish

# Options that change nothing of what is measured or judged.
_ASIDE = ["short", "json", "samples", "binary", "update", "require", "dir", "keep", "explain"]


def command(text, section=None, keeps=False, **options):
    """A parser for a command with that help; with `--update` for a `section`, and `--keep`."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter, **options)
    parser.add_argument("--dir", help="directory of the disks (default $LAB_DIR or /var/tmp)")
    if section:
        parser.add_argument("--update", metavar="DOCUMENT", help=f"put the table into its section `{section}`")
    if keeps:
        parser.add_argument("--keep", action="store_true", help="keep the files of the disks")
    return parser


def add_more_options(parser, *verbs):
    """`--create` and `--serve`: options of those verbs of quietus."""
    for verb in verbs:
        parser.add_argument(f"--{verb}", action="append", default=[], metavar="OPTION", help=f"one more option of quietus {verb}")


def in_full(options):
    """The options of a measurement, to give them again."""
    words = []
    for name, value in vars(options).items():
        if name not in _ASIDE and value not in (None, False, "", []):
            option = f"--{name.replace('_', '-')}"
            for each in value if isinstance(value, list) else [value]:
                text = f"{each:g}" if isinstance(each, float) else str(each)
                # A value that begins with a dash would be taken for an option.
                words += [option] if each is True else [f"{option}={text}"] if text.startswith("-") else [option, text]
    return shlex.join(words)


def tell(options, section, table, note="", name=None, document=None):
    """Prints the command, the machine, the note and the table, and puts them into that section of the
    document: `--update`, if any."""
    command_line = f"lab/{name or os.path.basename(sys.argv[0])} {in_full(options)}"
    publish(options.update if document is None else document, section, f"`{command_line}`; {machine()}. {note}".rstrip() + f"\n\n{table}")
