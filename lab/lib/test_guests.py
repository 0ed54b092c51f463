#!/usr/bin/python3
"""Tests of which guest guest-run chooses, with guests that die, hang or are not there.

Programs of the same names stand in for QEMU and user-mode Linux. No guest boots.
"""

import os
import stat
import subprocess
import tempfile
import unittest

LAB = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
QEMU = f"qemu-system-{os.uname().machine}"
BOOTS = 'for word in "$@"; do case $word in *labrun=*) run=${word#*labrun=}; echo 0 > "${run%% *}/status" ;; esac; done'
PANICS = 'echo "Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b" >&2; exit 1'
AMX = 'echo "ptrace set fp regs failed, errno = 14"; echo "Call Trace:"; exit 1'
HANGS = "exec sleep 1000"
QUIET = "exit 1"


def qemu(kvm, tcg):
    """A QEMU that does the one with KVM, and the other without."""
    return f'case "$*" in *"-accel kvm"*) {kvm} ;; *) {tcg} ;; esac'


class Choice(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.bin = os.path.join(self.folder.name, "bin")
        self.state = os.path.join(self.folder.name, "state")
        os.makedirs(self.bin)
        os.makedirs(os.path.join(self.state, "kernel"))
        open(os.path.join(self.state, "kernel", "initrd"), "w").close()
        # The machine's own programs, but for the guests.
        for folder in reversed(os.environ["PATH"].split(":")):
            for name in os.listdir(folder) if os.path.isdir(folder) else []:
                if not name.startswith("qemu-system") and name != "linux.uml":
                    link = os.path.join(self.bin, name)
                    if os.path.lexists(link):
                        os.unlink(link)
                    os.symlink(os.path.join(folder, name), link)

    def program(self, name, script):
        """Puts a program into the PATH."""
        path = os.path.join(self.bin, name)
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def run_guest(self, *arguments, **environment):
        """guest-run with only those programs, and a time limit for each try."""
        inherited = {name: value for name, value in os.environ.items() if name not in ("LAB_GUEST", "UML_KERNEL")}
        return subprocess.run([os.path.join(LAB, "guest-run"), *arguments], text=True, capture_output=True, timeout=120,
                              env={**inherited, "PATH": self.bin, "LAB_STATE": self.state, "LAB_TRY_SECONDS": "3",
                                   **environment})

    def which(self, *arguments, **environment):
        """The choice, and what came of each form."""
        first, *rest = self.run_guest("--which", *arguments, **environment).stdout.splitlines()
        return first, {line.split()[0]: line.partition("): ")[2] for line in rest}

    def all_three(self, kvm, uml, tcg):
        self.program(QEMU, qemu(kvm, tcg))
        self.program("linux.uml", uml)

    @unittest.skipUnless(os.access("/dev/kvm", os.R_OK | os.W_OK), "/dev/kvm cannot be opened here")
    def test_kvm_that_boots_is_chosen(self):
        self.all_three(BOOTS, BOOTS, BOOTS)
        self.assertEqual(self.which()[0], "kvm")

    @unittest.skipUnless(os.access("/dev/kvm", os.R_OK | os.W_OK), "/dev/kvm cannot be opened here")
    def test_kvm_that_hangs_gives_way(self):
        self.all_three(HANGS, BOOTS, BOOTS)
        choice, reasons = self.which()
        self.assertEqual(choice, "uml")
        self.assertEqual(reasons["kvm"], "no end within 3 s")

    @unittest.skipUnless(os.uname().machine == "x86_64", "user-mode Linux is x86-64's")
    def test_kernel_that_panics_gives_way(self):
        self.all_three(QUIET, PANICS, BOOTS)
        choice, reasons = self.which()
        self.assertEqual(choice, "tcg")
        self.assertIn("the kernel panicked: Kernel panic - not syncing: Attempted to kill init!", reasons["uml"])

    @unittest.skipUnless(os.uname().machine == "x86_64", "user-mode Linux is x86-64's")
    def test_processor_with_too_many_registers_is_named(self):
        self.all_three(QUIET, AMX, BOOTS)
        self.assertIn("AMX", self.which()[1]["uml"])

    @unittest.skipUnless(os.uname().machine == "x86_64", "user-mode Linux is x86-64's")
    def test_no_qemu_leaves_user_mode_linux(self):
        self.program("linux.uml", BOOTS)
        self.assertEqual(self.which()[0], "uml")

    def test_nothing_that_boots_is_an_error(self):
        self.all_three(QUIET, QUIET, QUIET)
        self.assertEqual(self.which()[0], "none")
        done = self.run_guest("--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("lab/guest-run --which says why", done.stderr)

    def test_the_choice_is_remembered_until_it_is_asked_again(self):
        self.all_three(QUIET, QUIET, BOOTS)
        self.assertEqual(self.which()[0], "tcg")
        self.all_three(BOOTS, BOOTS, QUIET)
        self.assertEqual(self.which()[0], "tcg")
        self.assertNotEqual(self.which("--again")[0], "tcg")

    def test_who_names_a_form_gets_it(self):
        self.all_three(QUIET, BOOTS, BOOTS)
        self.assertEqual(self.which(LAB_GUEST="tcg")[0], "tcg")
        self.assertEqual(self.which("--guest", "tcg")[0], "tcg")
        self.assertEqual(self.run_guest("--guest", "tcg", "--", "true").returncode, 0)

    def test_an_unknown_form_is_refused(self):
        done = self.run_guest("--guest", "xen", "--which")
        self.assertEqual(done.returncode, 125)
        self.assertIn('unknown form of guest "xen"', done.stderr)

    def test_a_guest_that_dies_says_so_in_one_line_and_where_its_messages_are(self):
        self.all_three(QUIET, QUIET, PANICS)
        done = self.run_guest("--guest", "tcg", "--", "true")
        self.assertEqual(done.returncode, 125)
        line, = done.stderr.splitlines()
        self.assertIn("the kernel panicked", line)
        with open(line.rpartition(" ")[2]) as log:
            self.assertIn("exitcode=0x0000000b", log.read())


unittest.main()
