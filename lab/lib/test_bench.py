#!/usr/bin/python3
"""The common frame of the benchmarks, with stand-ins for the servers."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from labkit import bench  # noqa: E402
from labkit import backups, wire  # noqa: E402
from labkit.bench import Benchmark, Run, detect, latency, medians, ratio, shrink  # noqa: E402
from labkit.bench import flash as bench_flash  # noqa: E402
from labkit.bench import io as bench_io  # noqa: E402
from labkit.bench import vault as bench_vault  # noqa: E402
from labkit.relay import Kept  # noqa: E402
from labkit.servers import Server  # noqa: E402
from labkit.workspace import LabError, Workspace  # noqa: E402

LISTEN = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); [s.accept() for _ in iter(int, 1)]"
Sample = namedtuple("Sample", "value")


class StandIn(Server):
    """Accepts connections, and does nothing else."""

    kind = "stand-in"

    def argv(self):
        return [sys.executable, "-c", LISTEN, self.socket]


class OurStandIn(StandIn):
    """Stands for quietus."""

    kind = "quietus"


class Dying(StandIn):
    """A server that ends at once with status 3."""

    kind = "dying"

    def argv(self):
        return ["sh", "-c", "exit 3"]


class Bench(Benchmark):
    """A benchmark whose figures are given, by server; with 0 the server stays, with None the sample fails."""

    Sample = Sample
    figures, order, kinds = {}, [], {}
    bar = ()

    def peers(self):
        return {"peer": ["sh"], "other": ["sh"], "absent": ["sh", "no-such-program"]}

    def cases(self):
        return [(work, kind) for work in ("read", "write") for kind in self.figures]

    def sample(self, work, kind):
        self.order.append((work, kind))
        server = self.server(self.kinds.get(kind, StandIn))
        figure = self.figures[kind].pop(0)
        if figure is None:
            raise OSError("connection reset")
        if figure:
            server.remove()
        return Sample(figure)

    def render(self, samples):
        return "; ".join(f"{' '.join(case)} {medians(found, 'value')[0]}" for case, found in samples.items())

    def missed(self, samples):
        return self.bar


def options(**given):
    """As a command line would give them."""
    return SimpleNamespace(**{"repetitions": 1, "only": "", "peers": None, "samples": None, "json": False, "update": None,
                              "require": False, "size": "64K", **given})


class RunTest(unittest.TestCase):
    def setUp(self):
        self.work = Workspace()
        self.addCleanup(self.work.close)
        self.said, self.printed = io.StringIO(), io.StringIO()
        for redirect in (contextlib.redirect_stderr(self.said), contextlib.redirect_stdout(self.printed)):
            redirect.__enter__()
            self.addCleanup(redirect.__exit__, None, None, None)

    def run_of(self, figures, kinds=None, bar=(), **given):
        it = Bench(options(**given), self.work)
        it.figures, it.order, it.kinds, it.bar = figures, [], kinds or {}, bar
        return Run(it, "stand-in", it.options)

    def measured(self, *arguments, **given):
        run = self.run_of(*arguments, **given)
        run.measure()
        return run

    def test_servers_take_turns_in_each_repetition(self):
        run = self.measured({"quietus": [1, 2, 3, 4], "peer": [5, 6, 7, 8]}, repetitions=2)
        once = [("read", "quietus"), ("read", "peer"), ("write", "quietus"), ("write", "peer")]
        self.assertEqual(run.bench.order, once * 2)
        self.assertEqual(run.samples["write", "peer"], [Sample(6), Sample(8)])

    def test_medians_are_compared(self):
        run = self.measured({"quietus": [9, 1, 8, 2, 100, 3], "peer": [4, 4, 4, 4, 4, 4]}, repetitions=3)
        self.assertEqual(medians(run.samples["write", "quietus"], "value"), [2])
        self.assertEqual(ratio(run.samples, ("read", "quietus"), ("read", "peer"), "value"), 9 / 4)
        self.assertIsNone(ratio(run.samples, ("read", "quietus"), ("read", "other"), "value"))

    def test_a_peer_that_is_not_installed_is_said_and_skipped(self):
        run = self.measured({"quietus": [1, 2], "absent": []})
        self.assertEqual(set(run.samples), {("read", "quietus"), ("write", "quietus")})
        run.publish()
        self.assertIn("absent is skipped: not installed: no-such-program\n", self.said.getvalue())
        self.assertIn("Not measured: absent (not installed: no-such-program)", self.printed.getvalue())
        self.assertEqual(run.status(), 0)

    def test_a_peer_that_fails_does_not_count_and_is_said(self):
        with tempfile.NamedTemporaryFile("w+") as document:
            document.write("<!-- bench-stand-in: begin -->\nold\n<!-- bench-stand-in: end -->\n")
            document.flush()
            run = self.run_of({"quietus": [1, 2], "peer": [1, 2], "other": [3, 4]}, {"other": Dying}, update=document.name)
            run.samples["read", "other"] = [Sample(1000)]  # of earlier
            run.measure()
            self.assertEqual({kind for _, kind in run.samples}, {"quietus", "peer"})
            self.assertEqual(run.bench.order.count(("write", "other")), 0, "what has failed is not tried again")
            run.publish()
            document.seek(0)
            self.assertIn("old", document.read())
        self.assertRegex(self.printed.getvalue(), r"Not measured: other \(failed in read, other: dying ended with 3")
        self.assertEqual(run.status(), 125)

    def test_the_server_of_a_peer_that_fails_is_stopped_and_no_other(self):
        run = self.measured({"quietus": [0, 0], "peer": [None]}, {"quietus": OurStandIn})
        self.assertRegex(run.out["peer"], "^failed in read, peer: connection reset$")
        self.assertEqual([(it.kind, it.process.poll() is None) for it in run.bench.started],
                         [("quietus", True), ("stand-in", False), ("quietus", True)])

    def test_quietus_may_not_fail(self):
        self.assertRaisesRegex(LabError, "^read, quietus: dying ended with 3", self.measured, {"quietus": [1]}, {"quietus": Dying})

    def test_a_missed_bar_counts_where_that_is_wanted(self):
        for given, always, status in (({}, False, 0), ({"require": True}, False, 1), ({}, True, 1)):
            run = self.measured({"quietus": [1, 2]}, bar=["too slow"], **given)
            run.bench.fails_always = always
            self.assertEqual(run.status(), status)
        self.assertEqual(self.said.getvalue().count("bar missed: too slow\n"), 3)

    def test_only_the_chosen_cases_are_measured(self):
        figures = {"quietus": [1, 2], "peer": [3, 4], "other": [5, 6]}
        self.assertEqual(set(self.measured(dict(figures), only="^write", peers="peer").samples),
                         {("write", "quietus"), ("write", "peer")})
        self.assertEqual({kind for _, kind in self.measured({"quietus": [1, 2], "peer": []}, peers="none").samples}, {"quietus"})
        self.assertRaisesRegex(LabError, "unknown peer nbd; expected some of peer, other, absent", self.measured, figures, peers="nbd")
        self.assertRaisesRegex(LabError, "fits no case; cases: read, quietus; ", self.measured, figures, only="nothing")
        self.assertRaisesRegex(LabError, "is not a regular expression", self.measured, figures, only="(")

    def test_samples_that_were_kept_are_counted(self):
        kept = self.work.file("samples")
        self.measured({"quietus": [1, 2], "peer": [3, 4]}, samples=kept)
        with open(kept, "a") as file:
            for name, case in (("another", ["read", "quietus"]), ("stand-in", ["read", "absent"])):
                file.write(json.dumps({"benchmark": name, "case": case, "repetition": 0, "value": 1000}) + "\n")
        run = self.measured({"quietus": [5, 6], "absent": []}, samples=kept, json=True)
        self.assertEqual(run.samples, {("read", "quietus"): [Sample(1), Sample(5)], ("write", "quietus"): [Sample(2), Sample(6)]})
        told = [json.loads(line) for line in self.printed.getvalue().splitlines()]
        self.assertEqual([(it["case"], it["value"]) for it in told], [(["read", "quietus"], 5), (["write", "quietus"], 6)])

    def test_progress_says_how_long_it_still_takes(self):
        bench.progress(5, 20, 10, "read")
        self.assertEqual(self.said.getvalue(), "5/20, 30 s left: read\n")


class CommandTest(unittest.TestCase):
    LAB_BENCH = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "bench")

    def test_every_benchmark_is_listed_and_has_the_options_that_it_gives_a_default(self):
        listed = subprocess.run([self.LAB_BENCH], capture_output=True, text=True, check=True).stdout
        self.assertEqual([line.split()[1] for line in listed.splitlines()], bench.NAMES)
        for name in bench.NAMES:
            it, _ = bench.arguments(name, ["--short"])
            for option, value in {**it.defaults, **it.short}.items():
                _, given = bench.arguments(name, [f"--{option.replace('_', '-')}", str(value)])
                self.assertEqual(getattr(given, option), value)

    def test_a_benchmark_that_is_unknown_is_an_error(self):
        done = subprocess.run([self.LAB_BENCH, "speed"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 125)
        self.assertIn("unknown benchmark 'speed'; expected io, ", done.stderr)

    def test_an_interrupt_ends_all_that_was_started(self):
        script = ("import sys, test_bench, time\nfrom labkit.workspace import Workspace, run_main\n"
                  "def main():\n    with Workspace() as work:\n        server = test_bench.Bench(test_bench.options(), work)\\\n"
                  "            .server(test_bench.StandIn)\n        print(server.process.pid, work.path, flush=True)\n"
                  "        time.sleep(600)\nrun_main(main)\n")
        # A shell in the background has its commands ignore the signal.
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                                   cwd=os.path.dirname(os.path.realpath(__file__)),
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        pid, path = process.stdout.readline().split()
        self.assertTrue(os.path.exists(f"/proc/{pid}") and os.path.exists(path))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        process.stdout.close()
        self.assertFalse(os.path.exists(f"/proc/{pid}") or os.path.exists(path))


class Copies(backups.Backup):
    """Stands for a backup program: a snapshot is a copy of the tree, and forgetting unlinks it."""

    kind = "quietus"

    def argv(self, *words):
        return list(words)

    def init(self):
        return ["mkdir", self.path]

    def put(self, tree):
        self.snapshots.append(os.path.join(self.path, str(len(self.snapshots))))
        return self.run("cp", "-a", tree, self.snapshots[-1])[1]

    def restore(self, into):
        os.makedirs(into + os.path.dirname(self.tree_path))
        return self.run("cp", "-a", self.snapshots[-1], into + self.tree_path)[1]

    def list(self):
        return self.run("ls", self.snapshots[-1])[1]

    def forget(self, snapshots):
        return self.run("rm", "-r", *snapshots)[1]


class Forgetful(Copies):
    def forget(self, snapshots):
        return self.run("true")[1]


class BackupsTest(unittest.TestCase):
    def setUp(self):
        self.work = Workspace()
        self.addCleanup(self.work.close)

    def test_memory_is_that_of_the_command_and_not_of_the_lab(self):
        ballast = bytearray(os.urandom(1 << 20) * 100)
        self.assertLess(backups.timed(["true"])[1].peak_mib, len(ballast) / (1 << 20) / 2)
        large = [sys.executable, "-c", "b = bytearray(b'1') * (80 << 20)"]
        self.assertGreater(backups.timed(large)[1].peak_mib, 80)

    def test_a_command_that_fails_is_told_with_what_it_said(self):
        self.assertRaisesRegex(LabError, "sh -c echo no; exit 3: status 3: no$", backups.timed, ["sh", "-c", "echo no; exit 3"])

    def test_needles_are_counted_wherever_they_lie(self):
        tree = backups.Tree(self.work.file("tree"), 1 << 20, 1, canary_bytes=128 << 10)
        contents, = tree.canaries
        needles = backups.Needles({content[:16]: backups.PIECE for content in contents}, contents)
        self.assertEqual((needles.bytes(), needles.found_in(backups.files_below(tree.path))), (128 << 10, 128 << 10))
        path = self.work.file("image")
        with open(path, "wb") as file:
            file.seek(1 << 20)
            # Beyond a hole, at no boundary, and one piece without its end.
            file.write(b"x" * 77 + contents[0][:3 * 512] + b"y" + contents[1][512:1500])
        self.assertEqual(needles.found_in([path]), 4 * 512)
        whole = backups.Needles({contents[0][:16]: len(contents[0])}, contents[:1])
        self.assertEqual(whole.found_in([path]), 3 * 512)

    def test_windows_overlap_and_leave_out_holes(self):
        path = self.work.file("image")
        with open(path, "wb") as file:
            file.write(bytes(range(256)) * 64)
            file.seek(1 << 20)
            file.write(b"end" * 5000)
        found = list(backups.windows(path, 10, 5000))
        self.assertEqual(found[1][:10], found[0][-10:])
        self.assertLess(sum(map(len, found)), 64 << 10)
        self.assertTrue(found[-1].rstrip(b"\0").endswith(b"end"))

    def test_trees_of_one_seed_are_equal_and_an_edit_changes_its_share(self):
        trees = [backups.Tree(self.work.file(name), 2 << 20, 7) for name in ("one", "other")]
        backups.same(trees[0].path, trees[1].path)
        self.assertEqual(sum(map(os.path.getsize, backups.files_below(trees[0].path))), 2 << 20)
        trees[0].edit(0.1)
        self.assertRaisesRegex(LabError, "differs", backups.same, trees[0].path, trees[1].path)
        changed = sum(a != b for one, other in zip(*(tree.files for tree in trees))
                      for a, b in zip(Path(one[0]).read_bytes(), Path(other[0]).read_bytes()))
        self.assertTrue((2 << 20) // 20 < changed <= (2 << 20) // 10, changed)
        trees[1].edit(0.1)
        backups.same(trees[0].path, trees[1].path)

    def bench_of(self, program):
        self.addCleanup(setattr, bench_vault, "is_root", bench_vault.is_root)
        self.addCleanup(setattr, bench_vault, "BACKUPS", bench_vault.BACKUPS)
        bench_vault.is_root, bench_vault.BACKUPS = lambda: False, {"quietus": program}
        return bench_vault.Bench(options(size="1M", seed=1, programs=None), self.work)

    def test_steps_go_on_where_the_one_before_ended_also_if_it_is_not_measured(self):
        bench = self.bench_of(Copies)
        Copies.tree_path = os.path.join(self.work.path, "disk1/tree")
        for step, count in (("incremental put", 2), ("unchanged put", 3), ("restore", 3), ("list", 3)):
            bench.sample(step, "quietus")
            if step != "list":
                self.assertEqual(len(bench.stories["first put", "quietus"].backup.snapshots), count)
        self.assertEqual(bench.stories, {})
        self.assertEqual(os.listdir(self.work.path), [])

    def test_what_is_left_of_a_forget_is_a_missed_bar(self):
        for program, left in ((Copies, 0), (Forgetful, 4 << 20)):
            bench = self.bench_of(program)
            samples = {("forget 4 of 8", "quietus"): [bench.sample("forget 4 of 8", "quietus")]}
            found, = samples["forget 4 of 8", "quietus"]
            self.assertEqual((found.canaries, found.before, found.after, found.medium), (4 << 20, 4 << 20, left, -1))
            self.assertEqual(len(list(bench.missed(samples))), 1 if left else 0)
            self.assertIn(f"| 4.00 MiB | 4.00 MiB | {left >> 20}.00 MiB | not searched |", bench.render(samples))

    def test_times_are_compared_with_each_peer(self):
        its = lambda seconds: [bench_vault.Bench.Sample(seconds, 1, 2, 3, 4, 0, 0, 0, 0)]
        samples = {("list", "quietus"): its(3), ("list", "borg"): its(2), ("restore", "quietus"): its(1)}
        self.assertIn("2 MiB of memory; repository 4 MiB | 1.50 |", bench_vault.costs(samples))
        self.assertRegex(bench_vault.costs(samples), r"\| restore \| .* \| - \| - \|")


class TablesTest(unittest.TestCase):
    def test_io_compares_with_the_better_peer(self):
        profile, its = "read 1 MiB, depth 8", bench_io.Bench.Sample
        samples = {(profile, kind): [its(value)] for kind, value in (("quietus", 30), ("nbdkit", 20), ("qemu-nbd", 40))}
        self.assertEqual(bench_io.compared(samples, profile), 0.75)
        del samples[profile, "qemu-nbd"]
        self.assertEqual(bench_io.compared(samples, profile), 1.5)
        del samples[profile, "nbdkit"]
        it = SimpleNamespace(options=options(require=True), has_seals=False, is_sealed=False)
        self.assertRaisesRegex(LabError, "no peer was measured", list, bench_io.Bench.missed(it, samples))

    def test_detection_is_held_against_the_same_without(self):
        its = detect.Bench.Sample
        case = ("ext2", "PostMark", "implicit")
        samples = {(*case, "1"): [its(10.3, 0, 0)]}
        self.assertNotIn("%", detect.running_times(samples))
        samples[(*case, "none")] = [its(10, 0, 0)]
        self.assertIn("10.3 s (+3.0%)", detect.running_times(samples))
        self.assertEqual(list(detect.Bench.missed(None, samples)), ["ext2, PostMark, 1 passes: detection costs 3.0% of the time"])

    def test_an_overlay_that_never_became_small_is_told(self):
        its = [shrink.Bench.Sample(1, 1, 1, 1, small, 1, 1) for small in (None, 2, None)]
        self.assertEqual(shrink.in_words(its)[4], "never")
        self.assertEqual(shrink.seconds_small(its[1:2]), 2)

    def test_deletions_of_all_repetitions_are_one_row(self):
        row = {"never": 1, "left": 0, "seconds": [2.0], "commits": 1, "halt": 0}
        samples = {("ext4",): [latency.Bench.Sample({"": row}), latency.Bench.Sample({"": {**row, "seconds": [5.0], "commits": 3}})]}
        row, = latency.by_row(samples)
        self.assertEqual(latency.in_words(*row),
                         ["ext4", "4", "2.00 s", "5.00 s", "5.00 s", "5.00 s", "3", "0", "2", "0"])
        self.assertEqual(list(latency.Bench.missed(None, samples)), ["ext4: 2 files never destroyed, 0 sectors left"])

    def test_a_commit_ends_once_its_block_is_durable(self):
        commit, other = bench_flash.COMMIT.ljust(4096, b"\0"), bytes(4096)
        asked = [(wire.WRITE, other + commit, 0), (wire.WRITE, other, 0), (wire.FLUSH, b"", 0), (wire.FLUSH, b"", 0), (wire.WRITE, commit, wire.FUA)]
        commits = bench_flash.Commits()
        found = [commits.ends_with(Kept(0, command, 0, len(payload), payload, flags)) for command, payload, flags in asked]
        self.assertEqual(found, [False, False, True, False, True])

    def test_time_on_flash_is_held_against_the_same_stream_without_deletion(self):
        its = bench_flash.Bench.Sample(*range(len(bench_flash.Bench.Sample._fields)))
        case = ("slc-2k", "sealed", "5 % random")
        samples = {(*case, "off"): [its._replace(micros=100)], (*case, "at once"): [its._replace(micros=109)]}
        bench = SimpleNamespace(columns=bench_flash.COLUMNS, bars=bench_flash.BARS, paper=bench_flash.PAPER)
        row = bench_flash.Bench.overheads(bench, samples, *case[:2], "at once")
        self.assertEqual(row[1], "1.09 random, - local (bar 1.08)")
        self.assertEqual(list(bench_flash.Bench.missed(bench, samples)),
                         ["sealed, at once, 5 % random: 1.090 times the time without deletion (bar 1.08)"])


if __name__ == "__main__":
    unittest.main()
