#!/usr/bin/python3
"""The judges of the lab must be able to say no: each is fed a false history."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from labkit import (  # noqa: E402
    canaries, cells, containers, extfs, fatfs, filesystems, flash, flashlayer, forensics, guest, measure, nand, recovery, replay,
)
from labkit import options, sectors, styles, tags, trace, verdicts, wire  # noqa: E402
from labkit.accounts import Accounts, Act  # noqa: E402
from labkit.bases import Base, alive_bytes  # noqa: E402
from labkit.checker import Check  # noqa: E402
from labkit.cuts import Cut  # noqa: E402
from labkit.epochs import Epochs  # noqa: E402
from labkit.guest import Story  # noqa: E402
from labkit.latencies import Destroyed, percentile  # noqa: E402
from labkit.layout import Layout  # noqa: E402
from labkit.model import Model  # noqa: E402
from labkit.record import Record  # noqa: E402
from labkit.relay import Kept, Relay, Write  # noqa: E402
from labkit.servers import parse_size  # noqa: E402
from labkit.shadow import BLOCK, DiedShadow, FlushedShadow, Request, SealedShadow, Shadow  # noqa: E402
from labkit.suite import Prepared, Skip, Stage, Suite  # noqa: E402
from labkit.workspace import LabError, wait_until  # noqa: E402
import test_keytree  # noqa: E402

SIZE = 64 * 1024


def write(shadow, number, offset, length):
    content = tags.content(number, offset, length)
    shadow.sent(number, Request(wire.WRITE, offset, length, content))
    return shadow.acknowledged(number, b"") or content


def in_file(raw, read):
    """The answer of `read` for the path of a file with that content."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(raw)
        file.flush()
        return read(file.name)


class Rows(unittest.TestCase):
    """Tests with tables."""

    def rows(self, look, *rows):
        """Each row has its name, what `look` is given, and what it has to answer."""
        for name, *given, wanted in rows:
            with self.subTest(name):
                self.assertEqual(look(*given), wanted)


class ShadowTest(unittest.TestCase):
    """Content that may be found after a kill, and content that may not."""

    def setUp(self):
        self.shadow = Shadow(SIZE)
        self.content = write(self.shadow, 1, 4096, 4096)

    def test_an_acknowledged_write_may_not_be_lost(self):
        self.shadow.killed()
        self.assertEqual(len(self.shadow.check(4096, bytes(4096))), 8)

    def test_an_acknowledged_trim_may_not_be_undone(self):
        self.shadow.sent(2, Request(wire.TRIM, 4096, 4096, bytes(4096)))
        self.shadow.acknowledged(2, b"")
        self.shadow.killed()
        self.assertEqual(len(self.shadow.check(4096, self.content)), 8)

    def test_a_write_in_flight_is_old_or_new_sector_by_sector(self):
        new = tags.content(2, 4096, 4096)
        self.shadow.sent(2, Request(wire.WRITE, 4096, 4096, new))
        self.shadow.killed()
        self.assertEqual(self.shadow.check(4096, new[:512] + self.content[512:]), [])
        self.shadow.settled()
        self.assertEqual(len(self.shadow.check(4096, new)), 7, "what was once read stays")

    def test_a_write_in_flight_is_nothing_else(self):
        self.shadow.sent(2, Request(wire.WRITE, 4096, 4096, tags.content(2, 4096, 4096)))
        self.shadow.killed()
        self.assertEqual(len(self.shadow.check(4096, tags.content(3, 4096, 4096))), 8)

    def test_a_read_of_stale_content_is_noticed(self):
        self.shadow.sent(2, Request(wire.READ, 4096, 512))
        self.assertEqual(len(self.shadow.acknowledged(2, bytes(512))), 1)

    def test_ranges_in_flight_do_not_overlap(self):
        self.shadow.sent(2, Request(wire.WRITE, 8192, 4096, bytes(4096)))
        self.assertFalse(self.shadow.is_free(12287, 1))
        self.assertTrue(self.shadow.is_free(12288, 512))


class ForensicsTest(Rows):
    """Dead content is found wherever it lies."""

    def test_dead_content_and_nothing_else_is_found(self):
        shadow = Shadow(SIZE)
        old = write(shadow, 1, 4096, 4096)
        write(shadow, 2, 4096, 2048)
        in_place, across = bytearray(shadow.live), bytearray(forensics.PIECE_BYTES + 4096)
        in_place[4096:4608] = old[:512]
        across[forensics.PIECE_BYTES - 8:forensics.PIECE_BYTES + 8] = old[:16]
        self.rows(lambda raw: in_file(raw, lambda path: forensics.dead_tags(path, shadow)),
                  ("live content", bytes(shadow.live), set()),
                  ("in place", in_place, {(1, 8)}),
                  ("at an odd place", b"journal " * 3 + old[1024:1536], {(1, 10)}),
                  ("half a sector", bytes(512) + old[:100], {(1, 8)}),
                  ("across two pieces", across, {(1, 8)}))


class EpochsTest(unittest.TestCase):
    def account(self, shown):
        """An account of a disk whose epochs show this, by number; None: not readable."""
        account = Epochs(None)
        account.closed = lambda: [(number, 0.0) for number in shown]
        account.read = shown.get
        return account

    def test_an_epoch_that_changes_or_cannot_be_read_is_noticed(self):
        shown = {1: b"a", 2: b"b"}
        account = self.account(shown)
        self.assertEqual(account.check(), [])
        self.assertEqual((account.check(), account.compared), ([], 2))
        shown.update({1: b"x", 2: None})
        self.assertEqual(account.check(), ["epoch 1 does not show what it showed before",
                                           "epoch 2 is kept, and cannot be read"])

    def test_an_epoch_is_compared_with_what_the_disk_held_when_it_closed(self):
        account = self.account({7: b"other"})
        account.server = SimpleNamespace(tool=lambda verb: {"epoch": 7})
        account.close(b"content")
        self.assertEqual(account.check(), ["epoch 7 does not show what it showed before"])

    def test_an_epoch_that_was_forgotten_is_no_complaint(self):
        shown = {1: b"a"}
        account = self.account(shown)
        account.read = lambda number: shown.clear()
        self.assertEqual(account.check(), [])


class SectorsTest(unittest.TestCase):
    """A sector is known by whatever is left of it."""

    tag = sectors.Tag(1, 2, 3, 4, 5, 6)

    def test_a_whole_sector_is_one_find(self):
        found = list(sectors.finds(bytes(512) + sectors.content([self.tag]) * 2))
        self.assertEqual([(it.position, it.length, it.tag) for it in found],
                         [(512, 512, self.tag), (1024, 512, self.tag)])

    def test_a_rest_at_an_odd_place_is_found(self):
        rest = bytes(7) + sectors.content([self.tag])[480:]
        self.assertEqual([it.tag for it in sectors.finds(rest)], [self.tag])

    def test_a_changed_record_names_no_file(self):
        changed = bytearray(sectors.record(self.tag))
        changed[12] ^= 1
        self.assertEqual(list(sectors.finds(bytes(changed))), [])

    def test_foreign_bytes_are_no_zeros(self):
        self.assertIsNone(sectors.whole(bytes(512)))
        self.assertRaises(ValueError, sectors.whole, bytes(511) + b"x")
        self.assertRaises(ValueError, sectors.whole, sectors.content([self.tag])[:511] + b"x")


def told(*operations):
    """A story of these operations; each `done` is of the one before."""
    story = Story(1, 1024)
    for operation in operations:
        order = story.model.order
        story.hear(f"done {order}" if operation == "done" else f"op {order + 1} {operation}")
    return story


class StoryTest(unittest.TestCase):
    """Promised content, and content that is dead for good."""

    def test_a_sync_promises_everything_and_a_touch_ends_it(self):
        story = told("create 1 a 4", "create 2 b 4", "sync", "done", "append 1 1")
        self.assertEqual(list(story.promised), [2])
        self.assertEqual(story.promised[2][0], {"b"})

    def test_an_fsync_promises_one_file(self):
        story = told("create 1 a 4", "create 2 b 4", "fsync 2", "done")
        self.assertEqual(list(story.promised), [2])

    def test_a_sync_that_did_not_end_promises_nothing(self):
        self.assertEqual(told("create 1 a 4", "sync").promised, {})

    def test_a_death_counts_once_it_is_synced(self):
        story = told("create 1 a 4", "sync", "done", "delete 1 a")
        tag = sectors.Tag(1, 1, 0, 3, 0, 1)
        self.assertFalse(story.is_durably_dead(tag))
        for line in ("op 4 sync", "done 4"):
            story.hear(line)
        self.assertTrue(story.is_durably_dead(tag))

    def test_a_lost_line_of_the_log_is_noticed(self):
        self.assertRaises(LabError, told("create 1 a 4").hear, "op 3 sync")


class ModelTest(unittest.TestCase):
    def test_the_last_of_two_names_takes_the_content_with_it(self):
        model = Model(1)
        for operation in ("create 1 a 2", "link 1 a b", "delete 1 a"):
            model.apply(operation)
        self.assertEqual(len(model.live()), 2)
        model.apply("delete 1 b")
        self.assertEqual(model.live(), set())

    def test_what_comes_after_a_truncation_is_of_another_generation(self):
        model = Model(1)
        for operation in ("create 1 a 4", "truncate 1 1", "truncate 1 3", "append 1 1"):
            model.apply(operation)
        tags_now = model.files[1].tags
        self.assertEqual([tag and tag.generation for tag in tags_now], [0, None, None, 2])

    def test_every_style_runs_for_ever_and_repeats(self):
        for style in styles.STYLES:
            runs = []
            for _ in range(2):
                model = Model(1)
                lines = []
                for operation in styles.operations(style, model, 7, 20000):
                    model.apply(operation)
                    lines.append(operation)
                    if model.order == 3000:
                        break
                runs.append((lines, model.sectors, len(model.live())))
            self.assertEqual(runs[0], runs[1], style)
            self.assertLess(runs[0][1], 40000, style)


class RelayTest(unittest.TestCase):
    def noted(self, *writes):
        """A relay that has seen writes of (offset, content), in blocks of 1 KiB."""
        with tempfile.TemporaryDirectory() as directory:
            relay = Relay(os.path.join(directory, "socket"), "nowhere", 1024, carry=True)
            for offset, content in writes:
                relay._note_write(0, offset, content)
            relay.listener.close()
            return relay

    def test_zeros_take_the_place_of_a_block_only_as_a_whole(self):
        noted = self.noted((0, bytes(512)), (512, bytes(512)), (1024, bytes(1024)), (1024, bytes(1024))).writes
        self.assertEqual([(it.block, it.is_zeros) for it in noted], [(0, True), (1, True), (1, True)])

    def test_old_content_behind_another_files_is_carried(self):
        first, other = sectors.Tag(1, 1, 0, 0, 0, 1), sectors.Tag(1, 2, 0, 1, 0, 2)
        mixed, alone = sectors.content([first, other]), sectors.content([other, other])
        self.assertEqual(self.noted((2048, mixed), (4096, alone)).carried, {5: other})


class VerdictsTest(Rows):
    """Missed, lost and damaged, from raw content."""

    def setUp(self):
        self.story = told("create 1 a 4", "create 2 b 4", "delete 1 a")
        self.dead = sectors.content([sectors.Tag(1, 1, 0, at, 0, 1) for at in range(4)])
        self.live = sectors.content(self.story.model.files[2].tags)

    def judged(self, raw):
        """How many sectors of a medium with that content are dead, and how many are lost."""
        return in_file(raw, lambda path: tuple(map(len, verdicts.judge_disk(self.story.model.live(), path, [])[0])))

    def test_what_is_left_and_what_is_lost_is_counted(self):
        live, dead = self.live, self.dead
        self.rows(self.judged,
                  ("all is well", bytes(512) + live, (0, 0)),
                  ("a sector left over", live + dead[:512], (1, 0)),
                  ("32 bytes left over", live + bytes(3) + dead[1000:1064], (1, 0)),
                  ("a live sector that is gone", live[512:], (0, 1)),
                  ("a live sector that is damaged", live[:1000] + bytes(24) + live[1024:], (0, 1)))

    def slack(self, raw, dead, carried=None):
        """The slack among `dead` on a medium with that content, in blocks of 1 KiB."""
        return in_file(raw, lambda path: verdicts.slack(path, dead, self.story.model.live(), 1024, carried=carried))

    def test_slack_is_only_what_lies_in_its_own_files_last_block_or_was_written_again(self):
        cut, other = sectors.Tag(1, 2, 0, 7, 0, 2), sectors.Tag(1, 1, 0, 1, 0, 1)
        head, rest, behind = self.live[:512], sectors.content([cut]), self.live[:512] + self.dead[512:1024]
        self.rows(self.slack,
                  ("in the last block", head + rest, {cut}, {cut}),
                  ("in the next block", self.live + rest, {cut}, set()),
                  ("of another file", behind, {other}, set()),
                  ("a copy elsewhere is left", head + rest + rest, {cut}, set()),
                  ("the guest wrote it again", behind, {other}, {1: other}, {other}),
                  ("it wrote another sector again", behind, {other}, {0: other}, set()),
                  ("no file lives there", bytes(512) + self.dead[512:1024], {other}, {1: other}, set()))

    def test_a_journal_may_hold_neither_content_nor_names(self):
        self.rows(lambda raw: in_file(raw, lambda path: len(verdicts.residue(path, {1, 2}, 1024))),
                  ("content in block 1; block 0 is no journal", self.dead + bytes(2048), 1),
                  ("nor of the living", bytes(1024) + bytes(7) + self.live + bytes(1017), 2),
                  ("a name", bytes(2048) + b"....spool7...." + bytes(1010), 1),
                  ("content in block 0 alone", self.dead[:1024] + bytes(2048), 0))

    def test_a_file_that_changed_is_damaged(self):
        tags_of_b = self.story.model.files[2].tags
        self.rows(lambda found: verdicts.damaged(self.story.model, found),
                  ("as it was", {"b": list(tags_of_b)}, []),
                  ("zeros at its end", {"b": tags_of_b[:3] + [None]}, ["b"]),
                  ("a file that was deleted", {"b": list(tags_of_b), "a": []}, ["a"]))


class ClockTest(unittest.TestCase):
    def test_what_is_heard_late_was_when_the_guest_says(self):
        story, now = Story(1, 1024), guest.time.time
        try:
            for heard, line in [(100.2, "at 100"), (100.2, "op 1 create 1 a 2"), (100.5, "at 500"), (107, "at 900"),
                                (107, "op 2 delete 1 a"), (107, "end")]:
                guest.time.time = lambda heard=heard: heard
                story.hear(line)
        finally:
            guest.time.time = now
        self.assertEqual(story.times, {1: 100.1, 2: 100.9})


class DifferenceTest(unittest.TestCase):
    def test_each_way(self):
        one, other = sectors.Tag(1, 1, 0, 0, 0, 1), sectors.Tag(1, 2, 0, 0, 0, 1)
        self.assertIsNone(verdicts.difference([one, None], [one, None]))
        self.assertEqual(verdicts.difference([one], None), "not there")
        self.assertIn("0 sectors in place of 1", verdicts.difference([one], []))
        self.assertIn("is zeros in place of", verdicts.difference([one], [None]))
        self.assertIn("file=2", verdicts.difference([one], [other]))


class AccountsTest(Rows):
    """Table 8's columns, from histories of one block."""

    first, second = sectors.Tag(1, 1, 0, 0, 0, 1), sectors.Tag(1, 2, 0, 0, 0, 3)

    @staticmethod
    def totals(operations, writes, acts, grade="generation", **options):
        """(overwrites, excess, missed, unseen) of block 7. Operation n happened at time 10 n; writes are (time, tag), of zeros
        with (); acts (time, shredded)."""
        story = told(*operations)
        story.times = {order: 10 * order for order in story.times}
        accounts = Accounts(story, 1024, grade, lambda _: False, lambda _: False, options.pop("journal", ()).__contains__, **options)
        accounts.feed([Write(time, 7, tag or None, tag == ()) for time, tag in writes],
                      [Act(time, 7 * 1024, 1024, shredded) for time, shredded in acts])
        return tuple(accounts.totals())[:4]

    def of_reused(self, *rows, **options):
        """Rows of writes, acts and totals: file 1 is deleted at 20, and file 2 takes its block."""
        operations = ("create 1 a 2", "delete 1 a", "create 2 b 2")
        self.rows(lambda writes, acts: self.totals(operations, writes, acts, **options), *rows)

    def test_what_dies_in_a_block_is_overwritten_once_or_missed(self):
        came, taken = (15, self.first), (35, self.second)
        self.of_reused(("a death that is overwritten is neither missed nor in vain", [came], [(25, True)], (1, 0, 0, 0)),
                       ("an unseen death is missed", [came], [], (0, 0, 1, 0)),
                       ("content that never came need not be overwritten", [], [], (0, 0, 0, 0)),
                       ("another file's content does not hide a miss", [came, taken], [], (0, 0, 1, 0)),
                       ("a conservative overwrite reaches what lies below", [came, taken], [(36, False)], (1, 0, 0, 0)),
                       ("a second overwrite is in vain", [came], [(25, True), (26, True)], (2, 1, 0, 0)),
                       ("overwriting what lives is in vain", [taken], [(36, False)], (1, 1, 0, 0)),
                       ("an untagged block dies when a file takes it", [(5, None), taken], [(30, False)], (1, 0, 0, 0)),
                       ("an untagged block lives until then", [(5, None)], [(30, False)], (1, 1, 0, 0)))

    def test_where_one_pass_is_due_the_next_write_is_that_pass(self):
        came, taken = (15, self.first), (35, self.second)
        self.of_reused(("nothing more is due", [came, taken], [], (0, 0, 0, 0)),
                       ("an overwrite is in vain", [came, taken], [(36, False)], (1, 1, 0, 0)),
                       ("without that write the death is missed", [came], [], (0, 0, 1, 0)), one_pass=True)

    def test_a_copy_in_the_journal_may_be_destroyed_once_and_is_missed_by_the_search_alone(self):
        writes, acts = [(15, self.first), (35, None), (36, self.second)], [(36, False), (37, True), (38, True)]
        self.of_reused(("three acts on three copies", writes, acts, (3, 1, 0, 0)),
                       ("no act", writes, [], (0, 0, 0, 0)),
                       ("no copy", [], [(37, True)], (1, 1, 0, 0)),
                       ("zeros", [(5, ())], [(37, True), (38, True)], (2, 1, 0, 0)), journal={7})

    def test_a_block_that_one_file_frees_and_takes_again_is_unseen(self):
        writes = [(15, self.first), (35, sectors.Tag(1, 1, 1, 0, 0, 3))]
        self.assertEqual(self.totals(("create 1 a 2", "truncate 1 0", "append 1 2"), writes, []), (0, 0, 0, 1))

    def test_overwriting_in_place_is_a_death_for_one_grade_only(self):
        writes = [(15, self.first), (25, sectors.Tag(1, 1, 0, 0, 1, 2))]
        self.rows(lambda acts, grade: self.totals(("create 1 a 2", "overwrite 1 0 2"), writes, acts, grade),
                  ("for others it is none", [], "generation", (0, 0, 0, 0)),
                  ("it is unseen", [], "content", (0, 0, 0, 1)),
                  ("it is seen", [(26, False)], "content", (1, 0, 0, 0)))


class RecordTest(unittest.TestCase):
    def test_a_line_tells_of_every_place_and_instant(self):
        died = {"event": "died", "from_ms": 4000, "unit": 512, "kinds": [{"cause": "trim"}], "runs": [[0, 0, 8, 2]]}
        kinds = [{"act": act, "cause": "trim", "passes": 1} for act in ("shredded", "rewritten")]
        receipt = {"event": "receipt", "from_ms": 5000, "unit": 512, "kinds": kinds,
                   "runs": [[0, 0, 0, 2, 6, 2, -8, 1], [250, 1, 16, 2]]}
        acts = Record([died, receipt]).acts()
        self.assertEqual([(it.time, it.start, it.length, it.shredded) for it in acts],
                         [(5.0, 0, 1024, True), (5.0, 4096, 1024, True), (5.0, 1024, 512, True),
                          (5.25, 8192, 1024, False)])

    def test_a_record_goes_on_from_file_to_file(self):
        with tempfile.TemporaryDirectory() as directory:
            for name, number in (("audit.jsonl", 3), ("audit-000000000000.jsonl", 0), ("audit-000000000002.jsonl", 2),
                                 ("audit-aside-0.jsonl", 9)):
                Path(directory, name).write_text(json.dumps({"n": number, "event": "opened"}) + "\n")
            record = Record.read(os.path.join(directory, "audit.jsonl"))
        self.assertEqual([line["n"] for line in record.lines], [0, 2, 3])

    def test_a_layout_is_what_dumpe2fs_says(self):
        layout = extfs.parse("Group 0: (Blocks 1-8192)\n  Primary superblock at 1, Group descriptors at 2-2\n"
                                    "  Block bitmap at 4 (+3)\n  Inode table at 6-7 (+5)\n  Free blocks: 9, 11-12\n")
        self.assertEqual((layout.free, layout.fixed), ({9, 11, 12}, {1, 2, 4, 6, 7}))
        layout = layout.in_clusters(4)
        self.assertEqual((layout.free, layout.fixed), (set(), {0, 1}))
        self.assertEqual(Layout({3, 4, 5, 6, 7, 8}, {0}, {1, 9}).in_clusters(4).free, {1})


class LatencyTest(Rows):
    destroyed = Destroyed([Act(5.0, 2048, 2048, True), Act(7.0, 1024, 1024, False)],
                          [Write(1.0, 1, None, False), Write(6.0, 3, None, False)], 1024)

    def at(self, blocks, since):
        """The instant, to a hundredth of a second."""
        found = self.destroyed.at(blocks, since)
        return found and round(found, 2)

    def test_the_last_block_that_was_overwritten_since_counts(self):
        self.rows(self.at,
                  ("the last of two", {1, 2}, 2, 7),
                  ("the last of two others", {2, 3}, 2, 5),
                  ("what came before does not count", {3}, 5.5, 6),
                  ("nor does it for one of two", {1, 2}, 6, None),
                  ("a block without an overwrite is never destroyed", {1, 9}, 0, None))

    def test_percentiles_are_values(self):
        self.assertEqual([percentile([5, 1, 3, 2], it) for it in (50, 75, 99, 100)], [2, 3, 5, 5])


class TraceTest(unittest.TestCase):
    def setUp(self):
        commit = struct.pack(">II", trace.JOURNAL_MAGIC, trace.COMMIT).ljust(1024, b"\0")
        tag = sectors.Tag(1, 1, 0, 0, 0, 1)
        kinds = [(wire.WRITE, 4096, sectors.content([tag, tag])), (wire.TRIM, 4096, b""), (wire.WRITE, 8192, commit),
                 (wire.WRITE, 4608, bytes(512)), (wire.WRITE, 20480, commit)]
        self.trace = trace.Trace([Kept(at, kind, offset, len(data) or 1024, data)
                               for at, (kind, offset, data) in enumerate(kinds)])

    def test_a_disk_is_what_was_written_last(self):
        self.assertTrue(any(self.trace.image(3).read(4608, 512)))
        self.assertFalse(any(self.trace.image().read(4608, 512)))
        self.assertEqual(self.trace.image().read(4600, 16), self.trace.image(1).read(4600, 8) + bytes(8))

    def test_the_first_request_that_touches_a_span(self):
        spans = [trace.Span(5000, 5100)]
        self.assertEqual(self.trace.first(wire.TRIM, spans), 1)
        self.assertEqual(self.trace.first(wire.WRITE, spans, 1), 3)
        self.assertIsNone(self.trace.first(wire.TRIM, [trace.Span(5120, 6000)]))

    def test_a_commit_record_counts_in_the_journal_only(self):
        self.assertEqual(self.trace.journal_blocks(trace.COMMIT, {8, 9}, 1024), [2])
        self.assertEqual(self.trace.journal_blocks(trace.REVOKE, {8}, 1024), [])

    def test_a_transaction_waits_for_the_one_before(self):
        def out_of_turn(*requests):
            kept = []
            for at, request in enumerate(requests):
                data = struct.pack(">3I", trace.JOURNAL_MAGIC, *request).ljust(1024, b"\0") if request else b""
                kept.append(Kept(at, wire.WRITE if request else wire.FLUSH, 8192 + 1024 * at, len(data), data))
            return trace.Trace(kept).out_of_turn(set(range(8, 99)), 1024)
        first, commit, flush = (trace.DESCRIPTOR, 4), (trace.COMMIT, 4), None
        self.assertEqual(out_of_turn(first, commit, flush, (trace.DESCRIPTOR, 5), (trace.COMMIT, 5)), (2, 0))
        self.assertEqual(out_of_turn(first, commit, (trace.DESCRIPTOR, 5), flush, (trace.COMMIT, 5)), (2, 1))
        self.assertEqual(out_of_turn(first, commit, flush, (trace.DESCRIPTOR, 6)), (1, 1))

    def test_a_log_is_in_use_from_its_tail_to_its_newest_commit(self):
        def journal(start, *commits):
            blocks = [bytearray(1024) for _ in range(8)]
            struct.pack_into(">5I", blocks[0], 12, 1024, 7, 1, 20, start)
            for at, number in commits:
                struct.pack_into(">3I", blocks[at], 0, trace.JOURNAL_MAGIC, trace.COMMIT, number)
            return b"".join(blocks)
        in_use = lambda *it: trace.log_in_use(journal(*it))[1] - {0, 7}  # noqa: E731
        self.assertEqual(in_use(0, (2, 20)), set())
        self.assertEqual(in_use(2, (3, 20), (4, 21), (6, 19)), {2, 3, 4})
        self.assertEqual(in_use(5, (6, 20), (2, 21), (4, 19)), {5, 6, 1, 2})
        self.assertEqual(in_use(5, (4, 19)), set())
        apart = bytearray(2048) + journal(0, (7, 20))
        struct.pack_into(">5I", apart, 2048 + 12, 1024, 10, 3, 20, 8)
        self.assertEqual(trace.log_in_use(apart, 2048)[1], {0, 1, 2, 8, 9}, "on its own device")
        old = bytearray(journal(5, (6, 20)))
        old[4 * 1024 + 500:4 * 1024 + 506] = old[5 * 1024 + 500:5 * 1024 + 506] = b"spool7"
        self.assertEqual(verdicts.residue_behind_the_tail(bytes(old)), ["block 4 of the journal: the name spool7"])

    def test_a_files_sectors_are_found_where_they_were_put(self):
        self.assertEqual(self.trace.spans_of(1), {trace.Span(4096, 4608), trace.Span(4608, 5120)})
        self.assertEqual(self.trace.spans_of(2), set())


class CheckTest(Rows):
    """Content that a checker took is not lost by the disk; all else is."""

    def setUp(self):
        self.tags = [sectors.Tag(1, 7, 0, at, 0, 3) for at in range(2)]
        self.directory = b"\0\0letter\0\0".ljust(512, b"\0")
        self.before = sectors.content(self.tags) + self.directory
        self.damaged = bytes(4) + self.before[4:512]

    def check(self, offset, payload, before=None):
        return Check(before or self.before, [Kept(0, wire.WRITE, offset, len(payload), payload)])

    def test_content_is_taken_if_it_was_there_and_the_check_overwrote_it(self):
        damaged, of_one = self.damaged, ["foreign", self.tags[1]]
        renamed = self.directory.replace(b"\0\0\0\0", b"\0\1\0\0")
        self.rows(lambda found, *check: self.check(*check).explains("a/letter", self.tags, found),
                  ("it was there, and overwritten", of_one, 0, damaged, True),
                  ("it was not there before", of_one, 0, bytes(512), damaged + self.before[512:], False),
                  ("the check touched one of two sectors", ["foreign", "foreign"], 0, damaged, False),
                  ("the check wrote what was there", of_one, 0, self.before[:512], False),
                  ("the file is shorter", ["foreign"], 0, damaged, False),
                  ("the check removed the name", None, 1024, bytes(512), True),
                  ("the check changed the folder and left the name", None, 1024, renamed, False),
                  ("the name is gone, and the check did not touch the folder", None, 0, damaged, False))

    def test_what_is_left_of_a_damaged_sector_is_known_by_what_it_is_now(self):
        self.assertEqual(self.check(0, self.damaged).damaged(), {self.tags[0]: self.damaged[:16].hex()})
        self.assertEqual(self.check(0, bytes(512)).damaged(), {})

    def test_no_more_of_the_disk_is_copied_than_the_sectors_that_the_check_wrote(self):
        lengths = []

        class Disk(bytes):
            """Notes how much of it is taken."""

            def __getitem__(self, part):
                found = super().__getitem__(part)
                lengths.append(len(found))
                return found

        self.check(0, bytes(1024), Disk(self.before))
        self.assertEqual(lengths, [512, 512])


class ReplayTest(unittest.TestCase):
    OBSERVER = "quietus_detect/src/disk/mod.rs:<quietus_detect::disk::Disk as quietus_core::watch::Observer>"
    WATCHER = OBSERVER.replace("Observer", "Watcher")

    def test_what_the_watcher_took_is_part_of_the_total(self):
        annotated = (f"Ir\n1,000 (100.0%)  PROGRAM TOTALS\n  300 (30.0%)  {self.OBSERVER}::observe\n"
                     f" 290 (29.0%)  a.rs:{self.OBSERVER}::observe\n   20 ( 2.0%)  {self.WATCHER}::watches [/q]\n")
        self.assertEqual(replay.counts(annotated), (1000, 320))

    def test_a_profile_without_a_total_is_none(self):
        self.assertRaises(LabError, replay.counts, "Ir\n")

    def test_a_process_takes_processor_time(self):
        before = replay.processor_seconds(os.getpid())
        sum(range(1_000_000))
        self.assertGreater(replay.processor_seconds(os.getpid()), before)


class FatTest(unittest.TestCase):
    @staticmethod
    def volume(bits, entries):
        """A volume of clusters of 1 KiB, of which the FAT has these entries after the first two."""
        sectors_per_fat, reserved, root = (34, 4, 512) if bits == 16 else (600, 32, 0)
        boot = bytearray(512)
        struct.pack_into("<HBHBHHBH", boot, 11, 512, 2, reserved, 2, root, 0, 0xF8, sectors_per_fat if bits == 16 else 0)
        clusters = 8000 if bits == 16 else 70000
        data = reserved + 2 * sectors_per_fat + root * 32 // 512
        struct.pack_into("<I", boot, 32, data + 2 * clusters)
        if bits == 32:
            struct.pack_into("<I", boot, 36, sectors_per_fat)
            struct.pack_into("<I", boot, 44, 2)
        fat = struct.pack(f"<{2 + len(entries)}{'H' if bits == 16 else 'I'}", 0xFFF8, 0xFFFF, *entries)
        return data // 2, clusters, bytes(boot) + bytes((reserved - 1) * 512) + fat

    def layout(self, bits, entries):
        """A volume's layout, the first block of data and the number of clusters."""
        first, clusters, raw = self.volume(bits, entries)
        raw = raw.ljust((first + clusters) * 1024, b"\0")[:(first + clusters) * 1024]
        return in_file(raw, lambda path: fatfs.layout(path, 1024)), first, clusters

    def test_an_entry_of_zero_is_a_free_cluster(self):
        for bits in (16, 32):
            layout, first, clusters = self.layout(bits, [3, 0xFFFF, 0, 7])
            self.assertEqual(len(layout.free), clusters - 3, bits)
            self.assertEqual([block in layout.free for block in range(first, first + 5)], [False, False, True, False, True])
            self.assertEqual(layout.fixed, set(range(first)))

    def test_entries_of_12_bits_share_a_byte(self):
        volume = fatfs.Volume.__new__(fatfs.Volume)
        volume.fat, volume.bits = 0, 12
        self.assertEqual([volume.entry(bytes.fromhex("f8ffff034000"), at) for at in range(4)], [0xFF8, 0xFFF, 3, 4])

    def test_clusters_that_are_no_blocks_are_refused(self):
        _, _, raw = self.volume(16, [0])
        in_file(raw, lambda path: self.assertRaises(LabError, fatfs.layout, path, 4096))


class FileSystemsTest(unittest.TestCase):
    @staticmethod
    def chosen(fs, mode=None, discard=False):
        """The file systems, their words for mount."""
        options = SimpleNamespace(fs=fs, mode=mode, block=None, cluster=None, mkfs="", mount_opts="", discard=discard)
        return [(it.slug, it.mount()) for it in filesystems.chosen(options, 256 << 20)]

    def test_each_mode_is_one_of_its_own(self):
        self.assertEqual(self.chosen("ext3,ext4", "journal,none"),
                         [("ext3-journal", "data=journal"), ("ext4-journal", "data=journal"), ("ext4-none", "")])
        self.assertEqual(self.chosen("ext2,ext3"), [("ext2", ""), ("ext3-ordered", "data=ordered")])
        self.assertEqual(self.chosen("ext4", "none", True), [("ext4-none", "discard")])
        self.assertEqual(sum(slug.startswith("ext4") for slug, _ in self.chosen("all")), 4)

    def test_what_is_not_known_is_refused(self):
        self.assertRaises(LabError, self.chosen, "minix")
        self.assertRaises(LabError, self.chosen, "ext3", "none")


class RecoveryTest(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        self.made = canaries.make(os.path.join(self.home.name, "made"), "c", 1, "seed")

    def test_a_file_that_begins_with_all_of_it_is_exact(self):
        found = recovery.brought_back(self.home.name, self.made)
        self.assertEqual(found.exact, {it.name for it in self.made})

    def test_one_sector_is_a_part(self):
        for canary in self.made:
            found = recovery.compare(bytes(512) + canary.content[1024:1536], self.made)
            self.assertEqual((found.exact, found.part), (set(), {canary.name}))

    def test_a_token_is_a_part(self):
        self.assertEqual(recovery.compare(b"xx" + self.made[0].token, self.made).part, {self.made[0].name})

    def test_something_else_is_nothing(self):
        other = canaries.make(os.path.join(self.home.name, "other"), "c", 1, "another")
        for canary in other:
            self.assertEqual(recovery.compare(canary.content, self.made), (set(), set()))


class MeasureTest(unittest.TestCase):
    def test_a_command_line_told_again_can_be_given_again(self):
        self.assertEqual(options.in_full(SimpleNamespace(serve=["--settle=3s"], size="4G", seconds=1.5, keep=True, fast=True)),
                         "--serve=--settle=3s --size 4G --seconds 1.5 --fast")

    def test_sizes(self):
        self.assertEqual(parse_size("16T"), 1 << 44)
        self.assertRaises(LabError, parse_size, "16X")

    def test_a_section_is_replaced_and_the_rest_stays(self):
        with tempfile.NamedTemporaryFile("w+", suffix=".md") as file:
            file.write("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n")
            file.flush()
            with open(os.devnull, "w") as sys.stdout:
                measure.publish(file.name, "x", "new")
            sys.stdout = sys.__stdout__
            with open(file.name) as changed:
                self.assertEqual(changed.read(), "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb\n")
            self.assertRaises(LabError, measure.publish, file.name, "y", "")


class SealedShadowTest(unittest.TestCase):
    """Content that may be found after a kill of a sealed disk's server."""

    def setUp(self):
        self.shadow = SealedShadow(SIZE)
        self.first = write(self.shadow, 1, BLOCK, BLOCK)

    def done(self, number, command, offset=0, length=0):
        after = bytes(length) if command == wire.TRIM else b""
        self.shadow.sent(number, Request(command, offset, length, after))
        self.shadow.acknowledged(number, b"")

    def wrong(self, content):
        """How many sectors of the block may not be as in `content`."""
        self.shadow.killed()
        return len(self.shadow.check(BLOCK, content))

    def test_a_write_over_dead_bytes_may_be_lost_until_a_flush(self):
        self.assertEqual(self.wrong(bytes(BLOCK)), 0)

    def test_a_flushed_write_may_not_be_lost(self):
        self.done(2, wire.FLUSH)
        self.assertEqual(self.wrong(bytes(BLOCK)), 8)

    def test_a_write_that_the_flush_did_not_cover_may_be_lost(self):
        self.shadow.sent(2, Request(wire.FLUSH, 0, 0))
        write(self.shadow, 3, 2 * BLOCK, BLOCK)
        self.shadow.acknowledged(2, b"")
        self.assertEqual(self.wrong(bytes(BLOCK)), 8)
        self.assertEqual(self.shadow.check(2 * BLOCK, bytes(BLOCK)), [])

    def test_a_write_over_live_bytes_may_not_be_lost(self):
        self.done(2, wire.FLUSH)
        write(self.shadow, 3, BLOCK, BLOCK)
        self.assertEqual(self.wrong(bytes(self.first)), 8)

    def test_what_was_trimmed_may_not_come_back(self):
        self.done(2, wire.FLUSH)
        self.done(3, wire.TRIM, BLOCK, BLOCK)
        write(self.shadow, 4, BLOCK, BLOCK)
        self.assertEqual(self.wrong(bytes(self.first)), 8)
        self.assertEqual(self.shadow.died, {1})

    def test_blocks_that_had_no_content_have_not_died(self):
        self.done(2, wire.TRIM, 0, 3 * BLOCK)
        self.done(3, wire.TRIM, 0, 3 * BLOCK)
        self.assertEqual(self.shadow.died, {1})


class CellsTest(unittest.TestCase):
    """What a root has, and what it opens."""

    DISK = bytes(range(16))

    def root(self, *slots):
        root = bytearray(12288)
        root[:28] = b"QUIETTOP" + bytes(4) + self.DISK
        for slot in slots:
            at, content = test_keytree.slot({"disk": self.DISK, **slot})
            root[at:at + len(content)] = content
        return root

    def test_one_root_two_roots_and_remains_are_told_apart(self):
        one, two = {"purge": 3, "cell": bytes([3]) * 32}, {"purge": 4, "cell": bytes([4]) * 32}
        self.assertEqual(cells.slots(self.root(one)), ([(3, one["cell"])], True))
        self.assertEqual(len(cells.slots(self.root(one, two))[0]), 2)
        torn = self.root(one)
        torn[4096 + 20] = 1
        self.assertEqual(cells.slots(torn), ([(3, one["cell"])], False))
        torn[8192 + 20] ^= 1
        self.assertEqual(cells.slots(torn)[0], [])

    def test_a_tree_opens_under_its_root_alone(self):
        size, cell = 16 << 20, bytes([3]) * 32
        page = {"disk": self.DISK, "size": size, "under": cell, "level": 1, "index": 0, "seed": bytes([5]) * 32, "birth": 1,
                "stored": 0, "log": bytes([6]) * 32}
        at, _, content = test_keytree.page(page)
        tree = bytearray(at + 8192)
        tree[at:at + 4096] = content
        found = cells.Tree(self.root({"purge": 3, "cell": cell}), tree, size).cells
        seed = test_keytree.derived(page["seed"], 36)
        self.assertEqual((len(found), found[4095]), (4096, test_keytree.derived(seed, 4095 - 36 * 112)))
        with self.assertRaises(LabError):
            cells.Tree(self.root({"purge": 3, "cell": bytes(32)}), tree, size)


class CutTest(unittest.TestCase):
    """A process that is killed before one of its writes."""

    def test_the_write_is_not_done_and_the_ones_before_are(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "file")
            code = f"import os; f = os.open({path!r}, os.O_CREAT | os.O_WRONLY); input(); [os.pwrite(f, b'x', at) for at in range(5)]"
            process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
            wait_until("the file", lambda: os.path.exists(path))
            cut = Cut(process, directory, 3).start()
            process.stdin.write(b"\n")
            process.stdin.flush()
            cut.join(20)
            process.wait(20)
            process.stdin.close()
            self.assertEqual((cut.is_cut, len(cut.seen), os.path.getsize(path)), (True, 3, 2))


class FlushedShadowTest(unittest.TestCase):
    """Content that may be found after a kill where only a flush is a promise."""

    def setUp(self):
        self.shadow = FlushedShadow(SIZE)
        self.first = write(self.shadow, 1, 4096, 4096)

    def flush(self, number):
        """One that is answered."""
        self.shadow.sent(number, Request(wire.FLUSH, 0, 0))
        self.shadow.acknowledged(number, b"")

    def test_what_was_not_flushed_may_be_lost_and_nothing_else_be_found(self):
        self.shadow.killed()
        self.assertEqual(self.shadow.check(4096, bytes(4096)), [])
        self.assertEqual(len(self.shadow.check(4096, tags.content(9, 4096, 4096))), 8)

    def test_what_was_flushed_may_not_be_lost(self):
        self.flush(2)
        self.shadow.killed()
        self.assertEqual(len(self.shadow.check(4096, bytes(4096))), 8)

    def test_a_flush_keeps_only_what_was_acknowledged_before_it_was_sent(self):
        self.shadow.sent(2, Request(wire.FLUSH, 0, 0))
        write(self.shadow, 3, 8192, 4096)
        self.shadow.acknowledged(2, b"")
        self.shadow.killed()
        self.assertEqual(self.shadow.check(8192, bytes(4096)), [])
        self.assertEqual(len(self.shadow.check(4096, bytes(4096))), 8)

    def test_what_was_written_durably_is_kept_and_what_it_replaced_is_not(self):
        new = tags.content(2, 4096, 4096)
        self.shadow.sent(2, Request(wire.WRITE, 4096, 4096, new, is_durable=True))
        self.shadow.acknowledged(2, b"")
        self.shadow.killed()
        self.assertEqual(len(self.shadow.check(4096, self.first)), 8)


class DiedShadowTest(unittest.TestCase):
    """Content that died, of a disk that keeps what was flushed."""

    def request(self, shadow, number, command, after=b""):
        shadow.sent(number, Request(command, 0, len(after), after))
        shadow.acknowledged(number, b"")

    def test_only_a_death_that_a_flush_covers_is_for_good(self):
        shadow = DiedShadow(SIZE)
        write(shadow, 1, 0, 512)
        self.request(shadow, 2, wire.TRIM, bytes(512))
        self.assertFalse(shadow.is_undead((1, 0)))
        self.request(shadow, 3, wire.FLUSH)
        write(shadow, 4, 0, 512)
        self.assertEqual([shadow.is_undead(it) for it in ((1, 0), (1, 1), (4, 0))], [True, False, False])

    def test_what_was_written_over_or_died_before_a_kill_has_not_died_for_good(self):
        shadow = DiedShadow(SIZE)
        write(shadow, 1, 0, 512)
        write(shadow, 2, 0, 512)
        self.request(shadow, 3, wire.TRIM, bytes(512))
        shadow.killed()
        self.request(shadow, 4, wire.FLUSH)
        self.assertFalse(shadow.is_undead((1, 0)) or shadow.is_undead((2, 0)))


class BaseTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = os.path.join(self.directory.name, "base")
        Path(self.path).write_bytes(b"golden" * 4096)

    def test_a_base_that_was_changed_is_told(self):
        base = Base(self.path)
        base.check()
        os.chmod(self.path, 0o600)
        with open(self.path, "r+b") as file:
            file.write(b"G")
        self.assertRaises(LabError, base.check)

    def test_only_blocks_in_use_that_differ_are_alive(self):
        image = self.path + ".new"
        Path(image).write_bytes(b"golden" * 4096)
        for block in (1, 3):
            with open(image, "r+b") as file:
                file.seek(block * 4096 + 7)
                file.write(b"new")
        self.assertEqual(alive_bytes(self.path, image, set(), 4096), 8192)
        self.assertEqual(alive_bytes(self.path, image, {0, 3}, 4096), 4096)

    def test_what_is_free_is_told_in_bytes(self):
        image = self.path + ".ext2"
        extfs.make(image, "ext2", 8 << 20)
        free = extfs.free_ranges(image)
        blocks = {block for start, length in free for block in range(start // 4096, (start + length) // 4096)}
        self.assertEqual(blocks, extfs.layout(image, 4096).free)


class SuiteTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.calls = os.path.join(self.directory.name, "calls")

    def prepared(self, last):
        """A directory made by a script that says something, and then does `last`."""
        script = os.path.join(self.directory.name, "script")
        Path(script).write_text(f"#!/bin/sh\necho called >> {self.calls}\necho one\necho 'no mirror' >&2\n{last}\n")
        os.chmod(script, 0o700)
        return Prepared(script, os.path.join(self.directory.name, "made"))

    def stage(self, newest):
        options = SimpleNamespace(store="in-place", server="quietus")
        return Stage(None, options, {"fetch-clients": self.prepared('mkdir "$1/bin"; touch "$1/bin/nbd-thing"; chmod +x "$1"/bin/*')}, newest)

    def test_a_directory_is_made_once_and_when_it_is_wanted(self):
        made = self.prepared("true")
        self.assertFalse(os.path.exists(self.calls))
        self.assertEqual([made.path("bin", "x") for _ in range(2)], [os.path.join(made.directory, "bin", "x")] * 2)
        self.assertEqual(Path(self.calls).read_text(), "called\n")

    def test_a_directory_that_cannot_be_made_is_skipped_with_the_reason_and_not_tried_again(self):
        made = self.prepared("exit 3")
        for _ in range(2):
            self.assertRaisesRegex(Skip, "^no mirror ", made.path)
        self.assertEqual(Path(self.calls).read_text(), "called\n")

    def test_the_newest_programs_come_first_and_only_where_they_are_meant(self):
        it = Suite("thing", None, ["nbd-thing"], None, False)
        self.assertRaisesRegex(Skip, "not installed: nbd-thing", self.stage(it.newest).check_needs, it)
        newest = it.with_newest()
        self.assertEqual(newest.name, "newest thing")
        stage = self.stage(newest.newest)
        stage.check_needs(newest)
        self.assertTrue(stage.path.startswith(os.path.join(self.directory.name, "made", "bin") + os.pathsep))

    def test_a_suite_of_another_server_is_skipped(self):
        self.assertRaisesRegex(Skip, "only nbdkit", self.stage(False).check_needs, Suite("thing", None, [], "nbdkit", False))


class FlashTest(unittest.TestCase):
    """The judge of raw NOR flash with a root."""

    @staticmethod
    def record(number, cell):
        body = b"QNOR" + bytes([2 + number % 2, 0, 0, 0]) + bytes(8) + number.to_bytes(4, "little") + cell + bytes(4)
        return body + flash.crc32c(body) + bytes(4)

    def judge(self):
        """One that saw purges 1 and 2, and a cell that opens only as the second."""
        judge = flash.Judge(lambda cell: cell == self.cells[2])
        judge.note(self.record(1, self.cells[1]) + self.record(2, self.cells[2]))
        return judge

    def setUp(self):
        self.cells = {number: bytes(range(32 * number, 32 * number + 32)) for number in (1, 2, 3)}

    def test_one_cell_that_opens_is_right_wherever_it_lies(self):
        raw = b"\xff" * 100 + self.record(2, self.cells[2]) + bytes(64)
        self.assertEqual(flash.cells(raw), {self.cells[2]: 2})
        self.assertEqual(self.judge().complaints(raw), [])

    def test_part_of_an_earlier_cell_is_found_outside_of_a_record(self):
        for at in range(0, 32, 8):
            raw = self.record(2, self.cells[2]) + b"\0\0\0" + self.cells[1][at:at + 8]
            self.assertIn(f"bytes [{at}] of the cell of purge 1 are left", self.judge().complaints(raw))

    def test_two_cells_none_and_one_that_does_not_open_are_wrong(self):
        for numbers, what in (((2, 3), "purges [2, 3]"), ((), "purges []"), ((3,), "does not open")):
            raw = b"".join(self.record(number, self.cells[number]) for number in numbers)
            self.assertIn(what, str(self.judge().complaints(raw)))

    def test_a_record_that_was_cut_off_has_no_cell(self):
        self.assertEqual(flash.cells(self.record(2, self.cells[2])[:50] + b"\xff" * 14), {})

    def test_a_cell_opens_the_top_page_under_it_in_either_place_and_no_other(self):
        disk, size, page = bytes(16), 1 << 30, 4096
        associated = b"QKEYPAGE" + disk + b"\2" + bytes(8)
        tag, cipher = test_keytree.seal(self.cells[1], bytes(12), associated, bytes(page - 32))
        sealed = b"QKEYPAGE" + tag + bytes(8) + cipher
        for place in (0, 1):
            tree = bytes(flash.PAGES_AT + place * page) + sealed + bytes(page)
            self.assertTrue(flash.opens(self.cells[1], tree, disk, size))
            self.assertFalse(flash.opens(self.cells[2], tree, disk, size))
            self.assertFalse(flash.opens(self.cells[1], tree, disk, 1 << 20))


class NandTest(unittest.TestCase):
    """The judges of a raw chip of NAND flash with a disk."""

    DISK = bytes(range(16))

    def slot(self, number, cell, at_rest=bytes(4096 - 40)):
        body = number.to_bytes(4, "little") + cell
        return body + nand.crc32c(self.DISK + body) + at_rest

    def test_tags_are_found_whole_or_in_part(self):
        whole = tags.content(7, 0, 1024)
        raw = b"\xff" * 2048 + whole + bytes(3) + tags.content(8, 512, 512)[:16] + b"\xff" * 500 + tags.content(9, 0, 512)[1:40]
        self.assertEqual(nand.found_in(raw), {(7, 0), (7, 1), (8, 1), (9, 0)})
        self.assertEqual(nand.found_in(tags.MAGIC), set())

    def test_a_cell_of_before_is_found_on_a_chip_and_a_piece_of_it(self):
        one, two = bytes([1]) * 32, bytes([2]) * 32
        cells = nand.Cells(self.DISK)
        self.assertEqual(cells.note(self.slot(1, one) + b"\xff" * 4096), [1])
        both = b"\xff" * 2048 + self.slot(1, one) + self.slot(2, two)
        self.assertEqual((cells.note(both), cells.left(both)), ([1, 2], [1]))
        alone = self.slot(2, two)
        self.assertEqual((cells.note(alone), cells.left(alone), cells.purge), ([2], [], 2))
        self.assertEqual(cells.left(alone + one[:8]), [1])

    def test_a_slot_of_another_disk_or_a_torn_one_is_none(self):
        whole = self.slot(1, bytes([1]) * 32)
        self.assertEqual(nand.slots(whole, bytes(16)), [])
        self.assertEqual(nand.slots(bytes(1) + whole[1:], self.DISK), [])

    def test_all_versions_of_a_unit_are_found_in_a_chip(self):
        def run(sequence, begin, *units):
            head = struct.pack("<QHHHH", sequence, begin, len(units), 1, 0)
            return head + b"".join(struct.pack("<IBI", unit, 0, 0) for unit in units) + bytes(9)

        def record(*runs):
            head = b"QFLASHR1" + self.DISK + bytes(4) + struct.pack("<IHHHH", 1, 0, 1, 1, len(runs))
            return (head + bytes(4 + 16) + b"".join(runs)).ljust(2048, b"\0")
        one, two, three = (bytes([number]) * 4096 for number in (1, 2, 3))
        header = b"QFLASHH1".ljust(2048, b"\0")
        first = run(1, 1, 5, 6)
        block = header + one + two + record(first) + three + record(run(2, 6, 5), first)
        chip = b"\xff" * 16 * 2048 + block.ljust(16 * 2048, b"\xff")
        self.assertEqual(flashlayer.versions(chip, 2048, 16), {5: {one, three}, 6: {two}})


class ContainersTest(unittest.TestCase):
    # "abcd" ten times: four literals, a match of 32 bytes, four literals.
    BLOCK = b"\x4fabcd\x04\x00\x0d\x40abcd"

    def slot(self, stored, codec, raw):
        """A container of one chunk."""
        head = b"QuietusContainer" + struct.pack("<II16sQII", 1, 0, bytes(16), 7, 1, len(stored))
        entry = struct.pack("<32sQIIIB3xII", b"f" * 32, 5, 0, len(stored), raw, codec, 0, 0)
        return head.ljust(4096, b"\0") + entry.ljust(4096, b"\0") + stored.ljust(4096, b"\0")

    def test_chunks_are_found_where_the_format_says(self):
        pool = bytes(12288) + self.slot(b"as it is", 0, 8) + self.slot(self.BLOCK, 1, 40)
        found = list(containers.chunks(pool, 12288))
        self.assertEqual([it.stored for it in found], [b"as it is", self.BLOCK])
        self.assertEqual([containers.content(it) for it in found], [b"as it is", b"abcd" * 10])

    def test_a_long_literal_and_a_match_that_overlaps_itself(self):
        literal = bytes(range(20))
        self.assertEqual(containers.lz4_block(b"\xf3\x05" + literal + b"\x01\x00\x00"), literal + bytes([19]) * 7)


class StepsTest(unittest.TestCase):
    """The runner of `make test`: a step that fails must be seen, wherever it runs."""

    def ran(self, *lines):
        """The exit status of the steps, and what was printed."""
        with tempfile.NamedTemporaryFile("w", suffix=".steps") as file:
            file.write("\n".join(lines))
            file.flush()
            steps = os.path.join(os.path.dirname(os.path.realpath(__file__)), "steps")
            done = subprocess.run([steps, file.name], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def test_steps_beside_run_in_order_and_are_shown(self):
        status, printed = self.ran("# a note", "sleep 0.2", "& echo first", "& echo second", "echo third")
        self.assertEqual((status, printed.count("(beside)")), (0, 2))
        said = [printed.index(f"\n{it}\n") for it in ("first", "second", "third")]
        self.assertEqual(said, sorted(said))

    def test_a_failure_beside_ends_the_run(self):
        status, printed = self.ran("sleep 60", "& exit 7", "& echo later", "echo never")
        self.assertEqual((status, "later" in printed, "never" in printed), (7, False, False))


if __name__ == "__main__":
    unittest.main()
