#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Driver, device, machine or process go away while connections are open."""

import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import PairCase, full  # noqa: E402


class Processes(PairCase):
    """A process with queue pairs is killed."""

    def kill_one(self, victim, survivor, vm):
        vm.run('kill -9 $(pidof rping)', 30, True)
        self.assertEqual(victim.wait().rc, 128 + 9)
        result = survivor.wait()
        self.assertIn('DISCONNECT EVENT', result.output)
        self.assertNotIn('mismatch', result.output)

    def test_killed_client_ends_the_server(self):
        t = self.traffic()
        self.kill_one(t.client, t.server, self.b)
        self.assert_works()

    def test_killed_server_ends_the_client(self):
        t = self.traffic()
        self.kill_one(t.server, t.client, self.a)
        self.assert_works()

    def test_killed_in_the_middle_of_bulk_data(self):
        for victim in (self.a, self.b):
            with self.subTest(victim=victim.name):
                t = self.bulk()
                victim.run('kill -9 $(pidof ib_write_bw)', 30, True)
                for result in t.wait():
                    self.assertNotEqual(result.rc, 0)
        self.assert_works()

    def test_killed_while_connecting(self):
        addr = self.pair.addr(self.a)
        self.listen(self.a, f'rping -s -P -a {addr}', f'{addr}:7174')
        # each is killed at another moment of its life
        self.b.run('for ms in 00 02 04 06 08 10 12 14 16 18 20 25 30 35 40; do '
                   f'rping -c -a {addr} >/dev/null 2>&1 & pid=$!; '
                   'usleep ${ms}0000; kill -9 $pid; wait $pid; done; true',
                   120, True)
        self.b.wait_idle()
        result = self.b.run(f'rping -c -a {addr} -v -V -C 3', 60)
        self.assertEqual(result.output.count('ping data'), 3, result.output)


class Removal(PairCase):
    """The device goes away under programs that poll."""

    def both_see_the_end(self, t):
        """Also the end without a device: what it posted is flushed"""
        for result in t.wait():
            self.assertNotIn(result.rc, (0, 128 + 9), result.output)
        self.assertRegex(t.client.output, 'Failed status 5|WR flushed')


class Posted(PairCase):
    """What was posted to a device that is not there any more is flushed."""

    def lose(self, lose, then):
        """`lose` takes a's device away while Writes to b cannot go on. `then`:
        what becomes of who sleeps once more."""
        server = self.spawn(self.b, f'rnic-gone server {self.pair.addr(self.b)}')
        server.wait_output('listening')
        client = self.spawn(self.a, f'rnic-gone client {self.pair.addr(self.b)}',
                            None)
        client.wait_output('ready')
        server.wait_output('ready')
        self.b.qmp('stop')
        try:
            client.write(b'go\n')
            client.wait_output('posted')
            lose()
            client.write(b'go\n')
            result = client.wait(120, check=True)
        finally:
            self.b.qmp('cont')
        flushed = re.search(r'flushed: 32 of 32 receives, (\d+) of 48 writes',
                            result.output)
        self.assertIsNotNone(flushed, result.output)
        self.assertGreater(int(flushed[1]), 0)
        self.assertRegex(result.output, 'then: receive Invalid argument, write '
                         'Invalid argument')
        self.assertIn(f'once more: {then}', result.output)
        server.kill(9)
        server.wait()

    def test_unplugged(self):
        self.lose(lambda: self.pair.unplug(self.a), 'gone')
        self.pair.plug(self.a)
        self.assert_works()

    def test_driver_unloaded(self):
        self.lose(lambda: self.a.run('rmmod rnic', 90, True), 'gone')
        self.pair.reload(self.a)
        self.assert_works()

    def test_device_failed(self):
        """It answers no command: the driver gives it up"""
        def fail():
            self.a.run('echo 1000 >/sys/module/rnic/parameters/cmd_timeout_ms',
                       30, True)
            self.a.qmp('qom-set', path='/machine/peripheral/rnic0',
                       property='fault-admin-delay', value=0xffffffff)
            self.a.run('rdma statistic show link rnic0/1', 60)
            self.wait_kernel(self.a, r'^rnic \S+: command \d+ got no answer')

        self.lose(fail, 'woken')
        self.a.qmp('qom-set', path='/machine/peripheral/rnic0',
                   property='fault-admin-delay', value=0)
        self.a.run('rmmod rnic', 90, True)
        self.pair.reload(self.a)
        self.assert_works()


class Unloading(Removal):
    """rmmod rnic with users."""

    def unload(self, vm):
        vm.run('rmmod rnic', 90, True)
        self.assertEqual(vm.run('rdma link', 30, True).output, '')

    def test_unload_and_reload_without_users(self):
        for _ in range(20 if full() else 3):
            self.unload(self.a)
            self.pair.reload(self.a)
        self.assert_works()

    def test_unload_with_a_listener(self):
        addr = self.pair.addr(self.a)
        ear = self.listen(self.a, f'rping -s -a {addr}', f'{addr}:7174')
        self.unload(self.a)
        self.pair.reload(self.a)
        ear.kill(9)
        ear.wait()
        self.assert_works()

    def test_unload_with_traffic_at_the_server(self):
        t = self.traffic()
        self.unload(self.a)
        server, client = t.wait()
        self.assertIn('device removal', server.output)
        self.assertIn('DISCONNECT EVENT', client.output)
        self.pair.reload(self.a)
        self.assert_works()

    def test_unload_with_traffic_at_the_client(self):
        t = self.traffic()
        self.unload(self.b)
        server, client = t.wait()
        self.assertIn('DISCONNECT EVENT', server.output)
        self.assertIn('device removal', client.output)
        self.pair.reload(self.b)
        self.assert_works()

    def test_unload_with_bulk_data(self):
        for vm in (self.a, self.b):
            with self.subTest(unloaded=vm.name):
                t = self.bulk()
                self.unload(vm)
                self.both_see_the_end(t)
                self.pair.reload(vm)
        self.assert_works()

    def test_unload_with_connections_to_itself(self):
        t = self.traffic(self.a, self.a)
        self.unload(self.a)
        t.wait()
        self.pair.reload(self.a)
        self.assert_works()

    def test_unload_with_open_device_and_objects(self):
        """A process that holds context, PD, CQ, MR and QP and does nothing"""
        holder = self.spawn(self.a, 'python3 -', b'''
import time
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.qp import QP, QPInitAttr, QPCap
import pyverbs.enums as e
c = Context(name='rnic0')
p = PD(c)
q = CQ(c, 10)
m = MR(p, 4096, e.IBV_ACCESS_LOCAL_WRITE)
qp = QP(p, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=q, rcq=q, cap=QPCap()))
print('open', flush=True)
time.sleep(1000)
''')
        holder.wait_output('open', 60)
        self.unload(self.a)
        self.assertTrue(holder.running)
        self.pair.reload(self.a)
        self.assert_works()
        holder.kill(9)
        holder.wait()

    def test_unbind_and_bind_and_renamed_net_device(self):
        """The driver is bound by hand, and its net device is renamed"""
        self.allow('^rnic .* renamed from')
        self.a.run('cd /sys/bus/pci/drivers/rnic; for d in 0000:*; do '
                   'echo $d >unbind; echo $d >bind; done', 60, True)
        self.pair.configure(self.a)
        self.a.run('d=$(ls /sys/bus/pci/drivers/rnic/0000:*/net); '
                   'ip link set $d down; ip link set $d name other; '
                   'ip link set other up; ip -6 addr add '
                   f'{self.pair.addr6(self.a)}/64 dev other nodad', 60, True)
        self.assert_works()
        self.unload(self.a)
        self.pair.reload(self.a)


class Unplugging(Removal):
    """The device is taken out of its slot."""

    def replug(self, vm):
        self.pair.unplug(vm)
        self.pair.plug(vm)

    def test_without_users(self):
        for _ in range(10 if full() else 2):
            self.replug(self.a)
        self.assert_works()

    def test_with_traffic_at_the_server(self):
        t = self.traffic()
        self.pair.unplug(self.a)
        server, client = t.wait()
        self.assertIn('device removal', server.output)
        self.assertIn('DISCONNECT EVENT', client.output)
        self.pair.plug(self.a)
        self.assert_works()

    def test_with_bulk_data_at_the_client(self):
        t = self.bulk()
        self.pair.unplug(self.b)
        self.both_see_the_end(t)
        self.pair.plug(self.b)
        self.assert_works()

    def test_with_a_listener(self):
        addr = self.pair.addr(self.a)
        ear = self.listen(self.a, f'rping -s -a {addr}', f'{addr}:7174')
        self.replug(self.a)
        ear.kill(9)
        ear.wait()
        self.assert_works()

    def test_during_verbs_of_all_kinds(self):
        ear = self.spawn(self.a, 'rnic-verbs server')
        ear.wait_output('listening')
        talk = self.spawn(self.b, 'rnic-verbs -t 5 client '
                          f'{self.pair.addr(self.a)}')
        talk.wait_output('ok bidirectional')
        self.pair.unplug(self.a)
        talk.wait(120)
        ear.wait(120)
        self.pair.plug(self.a)
        self.assert_works()


class Machine(PairCase):
    """The machine stops, goes on, is reset."""

    def test_stopped_server_goes_on_with_the_right_data(self):
        t = self.traffic(size=2000)
        for vm in (self.a, self.b):
            vm.qmp('stop')
            # that nothing moves while one end stands still
            other = self.b if vm is self.a else self.a
            before = vm.stats()
            other.run('true', 30, True)
            self.assertEqual(vm.stats(), before)
            vm.qmp('cont')
            self.pair.wait_flow()
        self.assertTrue(t.client.running and t.server.running)
        t.client.kill()
        for result in t.wait():
            self.assertNotIn('mismatch', result.output)

    def test_stopped_in_bulk_data(self):
        t = self.bulk()
        start = self.a.stats()['rx_octets']
        for n in range(1, 5):
            self.a.wait_stat('rx_octets', start + n * 10 ** 7)
            for vm in (self.a, self.b):
                vm.qmp('stop')
                vm.qmp('cont')
        self.a.wait_stat('rx_octets', start + 5 * 10 ** 7)
        self.assertTrue(t.client.running and t.server.running)
        t.client.kill()
        t.wait()

    def test_function_reset_by_the_administrator(self):
        """An FLR: as though it were unplugged and plugged in again"""
        t = self.traffic()
        self.a.run('echo 1 >/sys/class/infiniband/rnic0/device/reset', 90, True)
        server, client = t.wait()
        self.assertIn('device removal', server.output)
        self.assertIn('DISCONNECT EVENT', client.output)
        self.pair.configure(self.a)
        self.assert_works()
        self.a.run('rmmod rnic', 60, True)
        self.pair.reload(self.a)
        self.assert_works()

    def test_reset_under_traffic_tells_the_peer_and_boots(self):
        t = self.traffic()
        self.a.reset()
        self.a.mark(self.id()).wait()
        self.assertIn('DISCONNECT EVENT', t.client.wait().output)
        self.assert_works()


if __name__ == '__main__':
    unittest.main(verbosity=2)
