#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The harness itself, with guests that have no rnic."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import (CommandFailed, Image, Vm, VmDied, VmError,  # noqa: E402
                    start_all)
from rnicvm.evidence import (TRACE_HEAD, TRACE_TAIL,  # noqa: E402
                             bound_trace)


class Guest(unittest.TestCase):
    """What must hold in a guest of each kernel."""

    kernel = '6.12'

    @classmethod
    def setUpClass(cls):
        cls.vm = Vm(f'harness-{cls.kernel}', kernel=cls.kernel, device='edu',
                    driver=None)
        cls.addClassCleanup(cls.close)
        cls.vm.start().wait_ready()
        print(f'{cls.kernel}: ready after {cls.vm.boot_seconds:.1f} s')

    @classmethod
    def close(cls):
        if cls.vm:
            cls.vm.close()

    def assert_ends(self, text):
        """No process has that in its command line, at the latest soon."""
        end = time.monotonic() + 60
        while True:
            processes = self.vm.run('ps', check=True).output
            self.assertIn('/usr/lib/rnic/agent', processes)
            if text not in processes:
                return
            self.assertLess(time.monotonic(), end, f'{text} still runs')
            time.sleep(0.2)

    def test_release_is_the_one_asked_for(self):
        release = self.vm.run('uname -r', check=True).output.strip()
        self.assertEqual(release, self.vm.image.release)
        self.assertTrue(release.startswith(self.kernel + '.'), release)

    def test_status_and_both_streams_come_back(self):
        result = self.vm.run('echo out; echo err >&2; exit 3')
        self.assertEqual(result.rc, 3)
        self.assertEqual(sorted(result.output.split()), ['err', 'out'])

    def test_status_of_a_signal_is_the_shells(self):
        self.assertEqual(self.vm.run('kill -9 $$').rc, 128 + 9)

    def test_failed_command_with_check_raises_and_shows_its_output(self):
        with self.assertRaisesRegex(CommandFailed, 'no such thing') as caught:
            self.vm.run('echo no such thing; exit 2', check=True)
        self.assertEqual(caught.exception.result.rc, 2)

    def test_all_byte_values_pass_both_ways(self):
        data = bytes(range(256)) * 4096
        self.vm.push(data, '/tmp/bytes', mode=0o600)
        self.assertEqual(self.vm.pull('/tmp/bytes'), data)
        mode = self.vm.run('stat -c %a /tmp/bytes', check=True).output
        self.assertEqual(mode.strip(), '600')

    def test_commands_run_side_by_side(self):
        waiting = self.vm.spawn('echo started; cat; echo ended', stdin=None)
        waiting.wait_output('started')
        self.assertEqual(self.vm.run('echo meanwhile').output, 'meanwhile\n')
        self.assertTrue(waiting.running)
        waiting.write(b'text\n')
        waiting.wait_output('text')
        waiting.close_input()
        self.assertEqual(waiting.wait().output, 'started\ntext\nended\n')

    def test_kill_reaches_what_a_command_started(self):
        command = self.vm.spawn('sleep 4321 & echo up; wait')
        command.wait_output('up')
        command.kill(signal.SIGKILL)
        self.assertEqual(command.wait().rc, 128 + 9)
        self.assert_ends('sleep 4321')

    def test_command_over_its_limit_raises_and_is_gone(self):
        with self.assertRaisesRegex(VmError, 'before the end'):
            self.vm.run('echo before the end; exec sleep 5432', timeout=2)
        self.assert_ends('sleep 5432')

    def test_output_that_never_comes_raises_with_the_status(self):
        with self.assertRaisesRegex(CommandFailed, 'status 7'):
            self.vm.spawn('echo else; exit 7').wait_output('this')

    def test_locked_memory_is_unlimited(self):
        self.assertEqual(self.vm.run('ulimit -l').output.strip(), 'unlimited')

    def test_rdma_core_is_there(self):
        for path in ('/dev/infiniband/rdma_cm', '/root/tests/run_tests.py'):
            self.vm.run(f'test -e {path}', check=True)
        self.vm.run('ibv_devices', check=True)
        for program in ('rping', 'ib_write_bw', 'ib_send_lat', 'rdma', 'nft'):
            self.vm.run(f'command -v {program}', check=True)
        self.vm.run('python3 -c "import pyverbs.device, unittest"', check=True)

    def test_modules_for_upper_layers_load(self):
        self.vm.run('modprobe -a nvmet-rdma nvme-rdma null_blk rpcrdma '
                    'nft_reject_inet', check=True)

    def test_kernel_log_since_the_driver_is_clean_and_seen(self):
        self.assertEqual(self.vm.kmsg_problems(), [])
        self.vm.run('echo "<4>one warning" >/dev/kmsg; '
                    'echo "<6>rnic: one remark" >/dev/kmsg', check=True)
        texts = [k.text for k in self.vm.kmsg_problems()]
        self.assertEqual(texts, ['one warning', 'rnic: one remark'])
        self.assertEqual(self.vm.kmsg_problems(allow=('^one ', '^rnic: ')), [])
        self.vm.run('dmesg -c >/dev/null')

    def test_qmp_and_monitor(self):
        self.assertEqual(self.vm.qmp('query-status')['status'], 'running')
        self.assertIn('edu', self.vm.hmp('info qtree'))
        with self.assertRaisesRegex(VmError, 'no-such-command'):
            self.vm.qmp('no-such-command')
        self.vm.qmp('stop')
        self.vm.qmp_event('STOP')
        self.vm.qmp('cont')
        self.assertEqual(self.vm.run('echo on').output, 'on\n')

    def test_failure_leaves_what_guest_and_qemu_tell(self):
        self.vm.collect('a reason')
        folder = Path(self.vm.run_dir, 'failed-1')
        self.assertFalse((folder / 'incomplete').exists())
        self.assertEqual((folder / 'why').read_text(), 'a reason\n')
        self.assertIn('CPU 0', (folder / 'threads').read_text())
        self.assertIn('"running"', (folder / 'device.json').read_text())
        told = (folder / 'guest').read_text()
        for text in ('=== dmesg', '=== cat /proc/interrupts', 'CPU0', '=== ip -s link',
                     '=== rdma resource show'):
            self.assertIn(text, told)
        # A guest that stands still is not waited for, and stays so
        self.vm.qmp('stop')
        self.vm.collect('again')
        self.assertEqual(self.vm.qmp('query-status')['status'], 'paused')
        self.vm.qmp('cont')
        folder = Path(self.vm.run_dir, 'failed-2')
        self.assertTrue((folder / 'device.json').exists())
        self.assertFalse((folder / 'guest').exists())


class OldGuest(Guest):
    """The same on the older kernel."""

    kernel = '6.1'


# Two tests under the runner, the first of which waits for ever
HANGING = '''
import runpy, signal, sys, threading, unittest
runner = runpy.run_path(sys.argv[1], run_name='runner')

class Two(unittest.TestCase):
    def test_hangs(self):
        threading.Event().wait()
    def test_is_next(self):
        pass

signal.signal(signal.SIGALRM, runner['too_long'])
suite = unittest.defaultTestLoader.loadTestsFromTestCase(Two)
suite.run(runner['Lines'](limit=5))
'''


# One whose guest QEMU breaks, or does not, and that fails once or for ever
BROKEN = '''
import runpy, sys, unittest
runner = runpy.run_path(sys.argv[1], run_name='runner')
said, failures = sys.argv[2], int(sys.argv[3])

class FakeVm:
    def console(self):
        return said
    def collect(self, why):
        pass

class One(unittest.TestCase):
    vms = [FakeVm()]
    runs = 0
    def test_fails_at_first(self):
        One.runs += 1
        with self.subTest(part=1):
            self.assertGreater(One.runs, failures)
        self.assertGreater(One.runs, failures)

loader = unittest.TestLoader()
result = runner['Lines'](limit=60)
runner['run_all'](loader, loader.loadTestsFromTestCase(One), result)
print('successful', result.wasSuccessful(), One.runs)
'''


class Runner(unittest.TestCase):
    """tests/vm/run itself."""

    def broken(self, said, failures):
        done = subprocess.run(
            [sys.executable, '-B', '-c', BROKEN,
             str(Path(__file__).resolve().parent / 'run'), said, str(failures)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=120, check=False)
        return [re.match(r'not ok|#|ok|successful .*', line)[0]
                for line in done.stdout.splitlines()]

    def test_guest_that_qemu_broke_gets_one_more_try(self):
        fault = 'x\n[  622.0] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI\n'
        self.assertEqual(self.broken(fault, 1),
                         ['#', '#', 'ok', 'successful True 2'])
        self.assertEqual(self.broken(fault, 2),
                         ['#', '#', 'not ok', 'not ok', 'successful False 2'])
        self.assertEqual(self.broken('nothing', 1),
                         ['not ok', 'not ok', 'successful False 1'])

    def test_one_that_hangs_is_ended_and_the_next_runs(self):
        done = subprocess.run(
            [sys.executable, '-B', '-c', HANGING,
             str(Path(__file__).resolve().parent / 'run')],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=120, check=False)
        self.assertEqual([line.split(' ', 1)[0] for line in
                          done.stdout.splitlines()], ['not', 'ok'], done)
        self.assertIn('the test takes too long', done.stdout)
        # Where it hung
        self.assertIn('in test_hangs', done.stderr)


class Lifetime(unittest.TestCase):
    """How VMs start and end."""

    def test_two_at_a_time_and_clean_ends(self):
        vms = [Vm(name, driver=None) for name in ('one', 'two')]
        try:
            start_all(vms)
            names = [vm.run('hostname').output.strip() for vm in vms]
            self.assertEqual(names, ['one', 'two'])
            self.assertEqual(vms[0].stop(), 0)
            self.assertEqual(vms[1].power_off(), 0)
        finally:
            for vm in vms:
                vm.close()
        if not Vm.keep_all:
            self.assertFalse(any(os.path.exists(vm.run_dir) for vm in vms))

    def test_panic_is_noticed_at_once(self):
        vm = Vm('panic', driver=None)
        try:
            vm.start().wait_ready()
            with self.assertRaises(VmDied):
                vm.run('echo c >/proc/sysrq-trigger', timeout=60)
            self.assertIn('sysrq triggered crash', vm.console())
        finally:
            vm.close()

    def test_bad_device_is_reported_in_qemus_words(self):
        vm = Vm('bad', device='edu,nonsense=1', driver=None)
        try:
            with self.assertRaisesRegex(VmError, 'nonsense'):
                vm.start().wait_ready()
        finally:
            vm.close()

    def test_long_trace_keeps_its_begin_and_its_end(self):
        with tempfile.NamedTemporaryFile() as trace:
            trace.write(b'begin' + bytes(TRACE_HEAD + 2 * TRACE_TAIL) + b'end')
            trace.flush()
            bound_trace(trace.name)
            kept = Path(trace.name).read_bytes()
        self.assertTrue(kept.startswith(b'begin') and kept.endswith(b'end'))
        self.assertLess(len(kept), TRACE_HEAD + TRACE_TAIL + 100)
        self.assertIn(b'left out', kept)

    def test_image_is_prepared_once(self):
        self.assertIs(Image.prepare(bare=True), Image.prepare(bare=True))


if __name__ == '__main__':
    unittest.main(verbosity=2)
