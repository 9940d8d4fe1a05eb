#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The rnic beside siw, the kernel's software iWARP: one VM has the one,
another VM the other. Tests with a number (W01 and so on) are the live cases of
the list of wire tests.

With RNIC_INTEROP_RESULTS=FILE what worked is noted there, for the table in
docs/interop.md.
"""

import hashlib
import random
import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import RTR, SiwCase, full  # noqa: E402
from rnicvm.perftest import bandwidth, latency  # noqa: E402
from rnicvm.siw import BIG_MTU, private_data_of  # noqa: E402

COUNTS = {4096: 200, 65536: 50, 1048576: 10}

# Settings of whoever connects: (MPA revision, CRC, peer-to-peer)
SETTINGS = [(rev, crc, p2p)
            for rev, kinds in ((2, ('off', *RTR)), (1, ('off',)))
            for p2p in kinds for crc in (True, False)]
# Each value of each
FEW = [(2, True, 'both'), (2, False, 'write'), (2, True, 'read'),
       (2, True, 'off'), (1, False, 'off')]


def settings():
    return SETTINGS if full() else FEW


class Programs(SiwCase):
    """With either as server, both as they come."""

    def each_role(self, name, function):
        for server, client in self.roles():
            with self.subTest(server=self.what(server)):
                function(server, client)
                self.note('program', name, self.what(server) + ' is server')

    def test_rping(self):
        self.each_role('rping, 32 to 65,535 octets', self.check_rping)

    def check_rping(self, server, client):
        for size in (32, 4096, 65535):
            self.rping(server, client, size=size, count=4)
        self.rping(server, client, self.pair.addr6(server), count=3)

    def test_perftest_bandwidth(self):
        self.each_role('ib_write_bw, ib_read_bw, ib_send_bw', self.check_bw)

    def check_bw(self, server, client):
        for verb in ('write', 'read', 'send'):
            for size in COUNTS if full() else (65536,):
                bandwidth(server, client, self.pair.addr(server), verb, size,
                          COUNTS[size])

    def test_perftest_latency(self):
        self.each_role('ib_read_lat, ib_send_lat', self.check_lat)

    def test_perftest_write_latency(self):
        """Whose server speaks first"""
        self.settle(mpa_gate='off')
        self.check_lat(self.rnic, self.siw, ['write'])
        self.note('program', 'ib_write_lat (the server speaks first)',
                  'rnic is server', 'with `mpa-gate=off`')
        self.check_lat(self.siw, self.rnic, ['write'])
        self.note('program', 'ib_write_lat (the server speaks first)',
                  'siw is server')

    def check_lat(self, server, client, verbs=('read', 'send')):
        for verb in verbs:
            got = latency(server, client, self.pair.addr(server), verb, 64, 50)
            self.assertGreater(got.smallest, 0)

    def test_rcopy_makes_an_identical_file(self):
        self.each_role('rcopy, 1 MB', self.check_rcopy)

    def check_rcopy(self, server, client):
        data = random.Random(1).randbytes(1_000_001)
        addr = self.pair.addr(server)
        client.push(data, '/tmp/from')
        ear = self.listen(server, 'rcopy', '0.0.0.0:7427')
        client.run(f'rcopy /tmp/from {addr}:/tmp/to', 120, True)
        digest = server.run('sha256sum /tmp/to; rm /tmp/to', 60, True).output
        self.assertEqual(digest.split()[0], hashlib.sha256(data).hexdigest())
        ear.kill()
        ear.wait()

    def test_ucmatose_with_the_rnic_as_client(self):
        self.ucmatose(self.siw, self.rnic)
        self.note('program', 'ucmatose (the server speaks first)',
                  'siw is server')

    def test_ucmatose_with_siw_as_client_and_no_gate(self):
        """siw uses no peer-to-peer mode, and this server speaks first"""
        self.settle(mpa_gate='off')
        self.ucmatose(self.rnic, self.siw)
        self.note('program', 'ucmatose (the server speaks first)',
                  'rnic is server', 'with `mpa-gate=off`')

    def test_ucmatose_with_siw_in_peer_to_peer_mode(self):
        """Then the gate is no hindrance"""
        self.settle({'peer_to_peer': 1})
        self.ucmatose(self.rnic, self.siw)

    def test_ucmatose_with_siw_as_client_meets_the_gate(self):
        """And the counter tells why"""
        before = self.rnic.stats()['gated']
        self.listen(self.rnic, 'ucmatose -c 1 -C 10 -S 3000', '0.0.0.0:7471')
        talk = self.spawn(self.siw, f'ucmatose -s {self.pair.addr(self.rnic)} '
                          '-c 1 -C 10 -S 3000')
        self.rnic.wait_stat('gated', before + 1)
        sent = self.rnic.stats()['tx_fpdus']
        self.siw.run('sleep 1')
        self.assertTrue(talk.running)
        self.assertEqual(self.rnic.stats()['tx_fpdus'], sent)

    def ucmatose(self, server, client):
        options = '-c 2 -C 10 -S 3000'
        ear = self.listen(server, f'ucmatose {options}',
                          '0.0.0.0:7471')
        result = client.run(f'ucmatose -s {self.pair.addr(server)} {options}',
                            60)
        self.assertIn('return status 0', result.output)
        self.assertIn('return status 0', ear.wait().output)

    def test_verbs_one_by_one(self):
        tests = ['send-recv', 'bidirectional', 'zero-length', 'unsignalled',
                 'write', 'read', 'reads-queued', 'fence', 'private-data',
                 'reject', 'early-receives', 'disconnect-delivers', 'abort']
        # Why not in peer-to-peer mode: see test_ready_to_receive_is_lost
        self.settle(p2p='off')
        for server, client in self.roles():
            with self.subTest(server=self.what(server)):
                self.verbs_beside_siw(server, client, tests)
                self.note('program', 'rnic-verbs: ' + ', '.join(tests),
                          self.what(server) + ' is server',
                          'works' if server is self.rnic
                          else 'with `p2p=off`')


class Matrix(SiwCase):
    """The settings of MPA. Whoever connects chooses most of them."""

    def one(self, setting, server, client, crc):
        """Data both ways, and what the device says that was agreed upon"""
        rev, _, p2p = setting
        mark = self.rnic.trace_size()
        if rev == 2:
            self.rping(server, client, count=3, size=5000)
        else:
            # rping accepts with the depths that it is shown. siw shows 0.
            self.verbs_beside_siw(server, client, ['bidirectional', 'read'])
        said = self.rnic.traced(mark)
        started = re.findall(r'startup done: (.*)', said)
        self.assertTrue(started, said)
        for line in started:
            self.assertIn(f'CRC {"on" if crc else "off"}', line)
            self.assertEqual('enhanced' in line, rev == 2, line)
            self.assertEqual('peer-to-peer' in line, p2p != 'off', line)

    @staticmethod
    def row(setting):
        rev, crc, p2p = setting
        return f'{rev} | {"asked for" if crc else "not asked for"} | {p2p}'

    def test_rnic_connects(self):
        """Also W01: siw echoes C=1"""
        for setting in settings():
            rev, crc, p2p = setting
            with self.subTest(rev=rev, crc=crc, p2p=p2p):
                wanted = {'crc': 'on' if crc else 'off', 'mpa_rev': rev}
                if p2p == 'off':
                    wanted['p2p'] = 'off'
                else:
                    wanted['rtr'] = p2p
                self.settle(**wanted)
                self.one(setting, self.siw, self.rnic, crc)
                self.note('matrix', self.row(setting), 'the rnic connects')

    def test_siw_connects(self):
        """Also W02: siw with C=0, and an rnic that wants CRC"""
        for own in ('on', 'off') if full() else ('on',):
            for setting in settings():
                rev, crc, p2p = setting
                with self.subTest(rev=rev, crc=crc, p2p=p2p, own=own):
                    self.settle({'mpa_version': rev,
                                 'mpa_crc_required': int(crc),
                                 'peer_to_peer': int(p2p != 'off'),
                                 'rtr_type': RTR.get(p2p, RTR['both'])},
                                crc=own)
                    self.one(setting, self.rnic, self.siw,
                             crc or own == 'on')
                    self.note('matrix', self.row(setting),
                              f'siw connects, `crc={own}`')

    def test_w05_fpdu_longer_than_the_standard_allows(self):
        """siw makes them as long as the path's segments"""
        self.settle(crc='on')
        self.pair.set_mtu(BIG_MTU)
        self.addCleanup(self.pair.set_mtu, 1500)
        before = self.rnic.stats()
        self.bandwidth_of(self.rnic, self.siw)
        after = self.rnic.stats()
        fpdus = after['rx_fpdus'] - before['rx_fpdus']
        octets = after['rx_octets'] - before['rx_octets']
        self.assertGreater(octets, 30 * 262144)
        self.assertEqual(after['rx_crc_errors'], before['rx_crc_errors'])
        longest = max(int(x) for x in self.tshark_fields(
            'iwarp_mpa.ulpdulength', 'iwarp_ddp'))
        self.assertGreater(longest, 64768)
        self.note('program', f'ULPDUs of {longest} octets from siw',
                  'rnic is server', f'{fpdus} of them')

    def bandwidth_of(self, server, client):
        bandwidth(server, client, self.pair.addr(server), 'write', 262144, 30)


class Setup(SiwCase):
    """Private data, rejection, no listener."""

    def exchange(self, server, client, length, verdict='accept', answer=0):
        """(the server's lines, the client's lines) of rnic-pdata"""
        addr = self.pair.addr(server)
        # siw leaves: an end behind the Reply would be too early for it
        ends = ['leave' if vm is self.siw else '' for vm in (server, client)]
        ear = self.listen(server, f'rnic-pdata server {addr} {verdict} '
                          f'{answer} {ends[0]}', f'{addr}:7473')
        talk = client.run(f'rnic-pdata client {addr} {length} {ends[1]}', 60)
        self.assertEqual(talk.rc, 0, talk.output)
        return ear.wait().output, talk.output

    def test_private_data_both_ways(self):
        """Also the first half of W04"""
        # siw counts 4 octets of its own within an 8-bit length
        most = {self.siw: 251, self.rnic: 252}
        for server, client in self.roles():
            lengths = [0, 1, 64]
            for sent, back in zip(lengths + [most[client]],
                                  lengths[::-1] + [most[server]]):
                with self.subTest(client=self.what(client), sent=sent,
                                  back=back):
                    heard, said = self.exchange(server, client, sent, 'accept',
                                                back)
                    self.assertIn('RDMA_CM_EVENT_CONNECT_REQUEST status 0 '
                                  f'length {sent}\n', heard)
                    self.assertIn('RDMA_CM_EVENT_ESTABLISHED status 0 length '
                                  f'{back}\n', said)
            self.note('setup', 'private data of 0, 1, 64 and '
                      f'{most[client]} octets from the {self.what(client)} '
                      'that connects', 'arrives, and so do '
                      f'{most[server]} octets back')

    def test_w04_more_private_data_than_siw_takes(self):
        addr = self.pair.addr(self.siw)
        ear = self.listen(self.siw, f'rnic-pdata server {addr} accept 0',
                          f'{addr}:7473')
        talk = self.rnic.run(f'rnic-pdata client {addr} 253', 60)
        self.assertNotIn('ESTABLISHED', talk.output)
        self.assertRegex(talk.output, r'RDMA_CM_EVENT_\w+ status -\d+')
        self.assertEqual(ear.output, '')
        self.note('setup', '253 octets of private data to siw',
                  'siw closes the connection')

    def test_rejected_with_private_data(self):
        """Also W06: siw sees the rnic's reason"""
        for server, client in self.roles():
            lengths = (0, 1, 148, 251) if full() else (0, 251)
            if client is self.siw:
                # Which loses it now and then if the end is there too soon
                lengths += (251,) * (40 if full() else 3)
            for i, length in enumerate(lengths):
                with self.subTest(server=self.what(server), length=length,
                                  i=i):
                    _, said = self.exchange(server, client, 5, 'reject',
                                            length)
                    if client is self.siw and length and \
                            re.search(r'EVENT_REJECTED status -\d+ length 0\n',
                                      said):
                        # The guest stood still for longer than the device
                        # holds its end back
                        _, said = self.exchange(server, client, 5, 'reject',
                                                length)
                    self.assertRegex(said, r'RDMA_CM_EVENT_REJECTED status '
                                     rf'-\d+ length {length}\n')
            self.note('setup', f'the {self.what(server)} rejects, with 0 to '
                      '251 octets of private data', 'they arrive')

    def test_private_data_that_iw_cm_cannot_count_is_rejected(self):
        """Not cut: its length has 8 bits"""
        self.settle()
        addr = self.pair.addr(self.rnic)
        ear = self.listen(self.rnic, f'rnic-pdata server {addr} accept 0',
                          f'{addr}:7473')
        for length, rejected in ((256, True), (508, True), (255, False)):
            with self.subTest(length=length):
                reply = self.raw_request(addr, 7473, bytes(4) +
                                         private_data_of(True, length))
                self.assertEqual(reply[:16], b'MPA ID Rep Frame')
                self.assertEqual(bool(reply[16] & 0x20), rejected)
        self.assertIn('length 255\n', ear.wait().output)

    def raw_request(self, addr, port, data):
        """What a raw peer on the host is answered"""
        code = (
            'import socket, sys\n'
            f's = socket.create_connection(("{addr}", {port}), 30)\n'
            's.sendall(b"MPA ID Req Frame" + bytes((0x50, 2)) + '
            f'bytes.fromhex("{len(data):04x}{data.hex()}"))\n'
            'print(s.recv(4096).hex())\n')
        done = self.pair.space.run(sys.executable, '-c', code)
        self.assertEqual(done.returncode, 0, done.stdout)
        return bytes.fromhex(done.stdout.strip())

    def test_no_listener_is_refused(self):
        for server, client in self.roles():
            with self.subTest(server=self.what(server)):
                talk = client.run('rnic-pdata client '
                                  f'{self.pair.addr(server)} 0', 60)
                self.assertRegex(talk.output, r'RDMA_CM_EVENT_REJECTED status '
                                 r'-111|Connection refused')
            self.note('setup', f'no listener at the {self.what(server)}',
                      'refused')

    def test_w03_fpdu_behind_the_reply_makes_siw_fail(self):
        """Which is why the gate is shut by default: a raw responder"""
        code = (
            'import socket\n'
            's = socket.create_server(("10.0.0.1", 7174))\n'
            'print("ready", flush=True)\n'
            'c = s.accept()[0]\n'
            'req = b""\n'
            'while len(req) < 24: req += c.recv(4096)\n'
            # Reply without peer-to-peer mode and CRC; a Send of 16 octets
            'rep = b"MPA ID Rep Frame" + bytes((0x10, 2, 0, 4, 0, 1, 0, 1))\n'
            'send = bytes.fromhex("002241430000000000000000000000010000"\n'
            '    "0000") + bytes(16) + bytes(4)\n'
            'c.sendall(rep + send)\n'
            'c.settimeout(30)\n'
            'try:\n'
            '    while c.recv(4096): pass\n'
            'except ConnectionResetError: pass\n')
        peer = self.pair.space.start(sys.executable, '-c', code)
        self.addCleanup(peer.kill)
        self.assertEqual(peer.stdout.readline(), b'ready\n')
        # which may hang afterwards
        talk = self.spawn(self.siw, 'rping -c -a 10.0.0.1 -C 1')
        talk.wait_output('RDMA_CM_EVENT_CONNECT_ERROR')
        self.note('setup', 'an FPDU right behind the Reply to siw (a raw peer)',
                  'siw fails the connection')

    def test_w09_siw_chooses_among_ready_to_receive_messages(self):
        for rtr, chosen in (('write', 0x80), ('read', 0x40), ('both', 0x80)):
            with self.subTest(rtr=rtr):
                self.settle(rtr=rtr)
                self.rping(self.siw, self.rnic, count=1)
                replies = self.tshark_fields('iwarp_mpa.privatedata',
                                             'iwarp_mpa.rep')
                block = bytes.fromhex(replies[-1].replace(':', ''))
                self.assertEqual(block[0] & 0x80, 0x80)
                self.assertEqual(block[2] & 0xc0, chosen)
                self.note('setup', f'the rnic offers `rtr={rtr}`',
                          f'siw takes {"Write" if chosen == 0x80 else "Read"}')


if __name__ == '__main__':
    unittest.main(verbosity=2)
