#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The rnic and siw when something goes wrong: the network, a program, a VM,
and what one of them has no right to."""

import os
import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import SiwCase, full  # noqa: E402

# Each way: what arrives late arrives behind its successors, too
NETEM = 'delay 3ms reorder 25% 50% duplicate 10% loss 1%'


class Network(SiwCase):
    """Packets are lost, doubled and reordered in siw's guest, both ways."""

    def setUp(self):
        super().setUp()
        self.siw.run(
            'modprobe -a ifb sch_netem sch_ingress act_mirred cls_matchall && '
            'ip link set ifb0 up && '
            'tc qdisc add dev eth0 ingress && '
            'tc filter add dev eth0 ingress matchall action mirred egress '
            'redirect dev ifb0 && '
            f'tc qdisc add dev ifb0 root netem {NETEM} && '
            f'tc qdisc add dev eth0 root netem {NETEM}', 60, True)
        self.addCleanup(self.siw.run, 'tc qdisc del dev eth0 root; '
                        'tc qdisc del dev eth0 ingress; '
                        'tc qdisc del dev ifb0 root')

    def test_data_stays_whole(self):
        # the words after which netem counts what it did
        for server, client in self.roles():
            with self.subTest(server=self.what(server)):
                self.rping(server, client, size=30000,
                           count=200 if full() else 15)
            self.note('setup', 'packets lost, doubled and reordered, the '
                      f'{self.what(server)} is server', 'data is whole')
        for device in ('ifb0', 'eth0'):
            shown = self.siw.run(f'tc -s qdisc show dev {device}').output
            sent = int(re.search(r'netem.*?Sent \d+ bytes (\d+) pkt.*?'
                                 r'dropped (\d+)', shown, re.S)[1])
            self.assertGreater(sent, 300, shown)

    def test_verbs_stay_whole(self):
        self.settle(p2p='off')
        for server, client in self.roles():
            with self.subTest(server=self.what(server)):
                self.verbs_beside_siw(server, client,
                                      ['bidirectional', 'write', 'read'])


class Violations(SiwCase):
    """Terminates."""

    def setUp(self):
        super().setUp()
        self.allow(r'^siw: ')

    def settle(self, siw=(), **rnic):
        super().settle(siw, **rnic)
        # What the capture has of tests before
        self.before = {vm: len(self.all_terminates(vm))
                       for vm in (self.rnic, self.siw)}

    def terminates(self, source):
        """(layer and type, code) octets of Terminates from that address since
        settle(), as they are on the wire."""
        return self.all_terminates(source)[self.before[source]:]

    def all_terminates(self, source):
        if not os.path.exists(self.capture):
            return []
        text = self.tshark('-Y', 'iwarp_rdma.opcode == 7 and ip.src == '
                           f'{self.pair.addr(source)}', '-x')
        found = []
        for packet in text.split('\n\n'):
            octets = b''.join(bytes.fromhex(m.replace(' ', '')) for m in
                              re.findall(r'^[0-9a-f]{4}  ((?:[0-9a-f]{2} )+)',
                                         packet, re.M))
            # QN 2, MSN 1, MO 0, and what follows
            at = octets.find(bytes((0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0)))
            if at > 0:
                found.append((octets[at + 12], octets[at + 13]))
        return found

    def test_w07_siw_reads_what_is_not_there(self):
        self.settle(pcap_max=1 << 20)
        self.verbs_beside_siw(self.rnic, self.siw, ['read-unknown'])
        self.assertEqual(self.terminates(self.rnic), [(0x01, 0x00)])
        # No Terminate in return
        self.assertEqual(self.terminates(self.siw), [])
        self.note('setup', 'siw reads from an unknown STag',
                  'the Read fails at siw, Terminate 0/1/00')

    def test_w07_siw_has_no_right(self):
        """Everything that it may not do, with Writes and Reads"""
        self.settle(pcap_max=1 << 20)
        self.verbs_beside_siw(self.rnic, self.siw, ['access'])
        # In the order of tests/vm/programs/rnic-verbs/errors.c
        self.assertEqual(self.terminates(self.rnic), [
            (0x01, 0x02), (0x01, 0x02), (0x11, 0x00), (0x11, 0x00),
            (0x11, 0x01), (0x11, 0x01), (0x11, 0x01), (0x01, 0x01),
            (0x11, 0x02), (0x01, 0x03), (0x01, 0x00), (0x01, 0x01),
            (0x11, 0x03), (0x01, 0x04), (0x11, 0x00), (0x01, 0x00)])
        self.assertEqual(self.terminates(self.siw), [])
        self.note('setup', 'siw writes and reads without a right, beyond a '
                  'region, in another protection domain, or one that is gone',
                  'nothing changes; a Terminate that says so')

    def test_w08_rnic_has_no_right(self):
        """siw's Terminates, of each kind that it sends"""
        self.settle(p2p='off', pcap_max=1 << 20)
        before = self.rnic.stats()['term_received']
        self.verbs_beside_siw(self.siw, self.rnic, ['access'])
        came = self.terminates(self.siw)
        self.assertEqual(self.terminates(self.rnic), [])
        self.assertEqual(len(came), 13, came)
        self.assertEqual(self.rnic.stats()['term_received'],
                         before + 13)
        self.note('setup', 'the rnic does the same at siw',
                  'siw\'s Terminates are taken as they are')

    def test_w08_rnic_reads_what_is_not_there(self):
        """siw's Terminate has its nibbles swapped and no segment length"""
        self.settle(p2p='off', pcap_max=1 << 20)
        before = self.rnic.stats()['term_received']
        self.verbs_beside_siw(self.siw, self.rnic, ['read-unknown'])
        self.assertEqual(self.terminates(self.siw), [(0x10, 0x00)])
        self.assertEqual(self.terminates(self.rnic), [])
        self.assertEqual(self.rnic.stats()['term_received'],
                         before + 1)
        self.note('setup', 'the rnic reads from an unknown STag',
                  'the Read fails, siw\'s Terminate is taken as it is')

    def test_no_receive(self):
        self.settle(p2p='off')
        before = self.rnic.stats()
        self.verbs_beside_siw(self.rnic, self.siw, ['no-receive'])
        after = self.rnic.stats()
        self.assertEqual(after['rx_no_receive'], before['rx_no_receive'] + 1)
        self.verbs_beside_siw(self.siw, self.rnic, ['recv-too-short'])


class Ends(SiwCase):
    """One side is killed while data flows."""

    def setUp(self):
        super().setUp()
        self.allow(r'^siw: ')

    def test_program_is_killed(self):
        for server, client in self.roles():
            for killed in ('server', 'client'):
                with self.subTest(server=self.what(server), killed=killed):
                    traffic = self.bulk(server, client)
                    getattr(traffic, killed).kill(9)
                    traffic.wait(120)
                    for vm in (server, client):
                        vm.wait_idle()
        self.rping(self.rnic, self.siw, count=3)
        self.rping(self.siw, self.rnic, count=3)
        self.note('setup', 'a program of either side is killed while data '
                  'flows', 'the other one sees the end')

    def closes(self, mark):
        """Whether each connection of the device ended once."""
        said = self.rnic.traced(mark)
        ended = re.findall(r'QP (\d+): closed', said)
        self.assertEqual(len(ended), len(set(ended)), said)
        return len(ended)

    def test_w10_vm_of_siw_is_killed(self):
        mark = self.rnic.trace_size()
        traffic = self.bulk(self.siw, self.rnic)
        self.siw.process.kill()
        self.siw.process.wait()
        # The other guest's kernel would not have said a word. Its successor
        # resets the connection, as it knows nothing of it.
        self.pair.replace(self.siw)
        self.b = self.siw
        self.b.mark(self.id()).wait(60, check=True)
        traffic.client.wait(120)
        self.rnic.wait_idle()
        self.assertGreater(self.closes(mark), 0)
        self.rping(self.siw, self.rnic, count=3)
        self.note('setup', 'the VM of siw is killed while data flows',
                  'the rnic ends each connection once')

    @unittest.skipUnless(full(), 'only with RNIC_FULL')
    def test_vm_of_rnic_is_killed(self):
        traffic = self.bulk(self.siw, self.rnic)
        self.rnic.process.kill()
        self.rnic.process.wait()
        traffic.server.wait(120)
        self.siw.wait_idle()
        self.pair.replace(self.rnic)
        self.a = self.rnic
        self.a.mark(self.id()).wait(60, check=True)
        self.rping(self.rnic, self.siw, count=3)
        self.note('setup', 'the VM of the rnic is killed while data flows',
                  'siw sees the end')


if __name__ == '__main__':
    unittest.main(verbosity=2)
