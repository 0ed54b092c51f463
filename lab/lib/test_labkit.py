#!/usr/bin/python3
"""The judges of the lab must be able to say no: each is fed a false history."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from labkit import forensics, measure, tags, wire  # noqa: E402
from labkit.servers import parse_size  # noqa: E402
from labkit.shadow import Request, Shadow  # noqa: E402
from labkit.workspace import LabError  # noqa: E402

SIZE = 64 * 1024


def write(shadow, number, offset, length):
    """An acknowledged write."""
    content = tags.content(number, offset, length)
    shadow.sent(number, Request(wire.WRITE, offset, length, content))
    return shadow.acknowledged(number, b"") or content


class ShadowTest(unittest.TestCase):
    """What may be found after a kill, and what not."""

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


class ForensicsTest(unittest.TestCase):
    """Dead content is found wherever it lies."""

    def setUp(self):
        self.shadow = Shadow(SIZE)
        self.old = write(self.shadow, 1, 4096, 4096)
        self.new = write(self.shadow, 2, 4096, 2048)

    def found(self, raw):
        """The dead tags in a file with the content `raw`."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(raw)
            file.flush()
            return forensics.dead_tags(file.name, self.shadow)

    def test_live_content_is_no_find(self):
        self.assertEqual(self.found(bytes(self.shadow.live)), set())

    def test_dead_content_in_place_is_found(self):
        raw = bytearray(self.shadow.live)
        raw[4096:4608] = self.old[:512]
        self.assertEqual(self.found(raw), {(1, 8)})

    def test_dead_content_at_an_odd_place_is_found(self):
        self.assertEqual(self.found(b"journal " * 3 + self.old[1024:1536]), {(1, 10)})

    def test_half_a_sector_is_found(self):
        self.assertEqual(self.found(bytes(512) + self.old[:100]), {(1, 8)})

    def test_dead_content_across_two_pieces_is_found(self):
        raw = bytearray(forensics.PIECE_BYTES + 4096)
        at = forensics.PIECE_BYTES - 8
        raw[at:at + 16] = self.old[:16]
        self.assertEqual(self.found(raw), {(1, 8)})


class MeasureTest(unittest.TestCase):
    """Sizes and documents."""

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


if __name__ == "__main__":
    unittest.main()
