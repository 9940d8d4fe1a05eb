#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest's connections with a peer on the host that misbehaves. After each
case a good connection works, everything posted has completed once, and memory
around it is unchanged; in the end the kernel log is clean."""

import re
import socket
import struct
import sys
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from rnicvm import Device, OwnVmCase, Vm, iwarp  # noqa: E402
from rnicvm.fabric import host_address  # noqa: E402
from rnicvm.iwarp import (A, B, C, CW, D, M, R, READ_REQUEST,  # noqa: E402
                          READ_RESPONSE, REPLY, REQUEST, S, SEND, WRITE,
                          block, fpdu, frame, read_request, send, tagged,
                          terminate, untagged)

GUEST, HOST = '10.0.0.1', '10.0.0.2'
PORT = 7471
REGION = 16384      # rnic-echo's
RECV_LEN = 256
# So that what waits for it does not take long, and a loaded machine is quick
# enough for all else
MPA_TIMEOUT_MS = 4000

_OVER = re.compile(r'conn (\d+): over receives (\d+) = (\d+) \+ (\d+) '
                   r'sends (\d+) = (\d+) \+ (\d+) failed (\d+) memory (\w+)')


class Wire(OwnVmCase):
    """One VM for all of it."""

    @classmethod
    def new_vms(cls):
        built = Device.prepare()
        cls.guest = host_address(cls.fabric(), GUEST)
        cls.host = host_address(cls.fabric(), HOST)
        cls.vm = Vm('wire', qemu=built.qemu, load=built.load(), cpus=2,
                    device=f'rnic,id=rnic0,fabric-id={cls.fabric()},'
                           f'mpa-timeout-ms={MPA_TIMEOUT_MS}',
                    addr=f'{GUEST}/24')
        return [cls.vm]

    def setUp(self):
        super().setUp()
        self.before = self.vm.stats()
        self.judged = 0     # connections of rnic-echo
        self.addCleanup(self.check_errors)

    def check_errors(self):
        self.assertEqual(self.since('guest_errors'), 0)

    def since(self, name):
        return self.vm.stats()[name] - self.before[name]

    def wait_over(self, program, count, timeout=60, memory_is=('clean',)):
        """Until so many connections of rnic-echo are over; judges them."""
        end = time.monotonic() + timeout
        while len(over := _OVER.findall(program.output)) < count:
            if time.monotonic() > end or not program.running:
                self.fail(f'{len(over)} of {count} connections are over:\n'
                          f'{program.output[-1500:]}')
            time.sleep(0.02)
        self.assertEqual(len(over), count, program.output[-1500:])
        judged, self.judged = self.judged, count
        for number, *counts, memory in over[judged:]:
            recvs, recv_ok, recv_flushed, sends, send_ok, send_flushed, \
                failed = map(int, counts)
            with self.subTest(conn=number):
                self.assertIn(memory, memory_is)
                self.assertEqual(recv_ok + recv_flushed + send_ok
                                 + send_flushed + failed, recvs + sends)


class Responder(Wire):
    """The guest listens."""

    def setUp(self):
        super().setUp()
        self.echo = self.spawn(self.vm, f'rnic-echo listen {GUEST} {PORT}')
        self.echo.wait_output('listening')
        self.count = 0      # connections that the guest was told of

    def open(self):
        return iwarp.Connection.open(self.host, self.guest, PORT)

    def connect(self, flags=S, words=(4, 4)):
        """Up to the Reply; the guest's region comes with it."""
        peer = self.open()
        self.addCleanup(peer.sock.close)
        self.count += 1
        answer, words, pdata = peer.request(flags, words=words)
        self.assertFalse(answer & (R | M))
        peer.stag, peer.addr = struct.unpack('>IQ', pdata)
        return peer, words

    def good(self, crc=False):
        """A connection that does everything, and ends in order."""
        peer, words = self.connect(S | (C if crc else 0), (A | 4, CW | D | 4))
        self.assertTrue(words[0] & A and words[1] & CW)
        peer.put(tagged(WRITE, 1, 0))
        peer.put(send(1, b'echo this'))
        self.assertEqual(peer.get(), send(1, b'echo this'))
        data = bytes(range(200))
        peer.put(tagged(WRITE, peer.stag, peer.addr + 1000, data))
        peer.put(read_request(1, 200, peer.stag, peer.addr + 1000))
        self.assertEqual(peer.get(),
                         tagged(READ_RESPONSE, 0x11223344, 0, data))
        peer.fin()
        self.assertEqual(peer.read_to_end(), b'')
        peer.sock.close()

    def settle(self, **judgement):
        """What must hold after each case."""
        self.good()
        self.wait_over(self.echo, self.count, **judgement)

    # -- setup ------------------------------------------------------------

    def test_hostile_setup(self):
        def request(**other):
            return frame(REQUEST, **other)
        closed = {
            'S30 http': b'GET / HTTP/1.1\r\n\r\n',
            'S30 zeros': bytes(20),
            'S30 ones': b'\xff' * 20,
            'S31 reply key': frame(REPLY),
            'S32 one letter': frame(b'MPA ID Req FramE'),
            'S32 lower case': frame(REQUEST.lower()),
            'S33 rev 3': request(rev=3),
            'S33 rev 255': request(flags=S, rev=255, pdata=block()),
            'S34 rev 0': request(rev=0),
            'S35 pd length 513': request(length=513),
            'S35 pd length 65535': request(length=65535),
            'S39 block of 0': request(flags=S, rev=2),
            'S39 block of 3': request(flags=S, rev=2, pdata=b'abc'),
            'S47 glued': request() + b'\0\0\0\0',
            'S50 two requests': request() + request(),
        }
        for name, octets in closed.items():
            with self.subTest(case=name), self.open() as peer:
                peer.write(octets)
                self.assertEqual(peer.read_to_end(), b'')
            self.settle()
        self.assertEqual(self.since('term_sent'), 0)

    def test_half_a_request(self):
        half = frame(REQUEST, pdata=bytes(50), length=100)
        for name, end in (('S38 fin', 'fin'), ('S38 rst', 'rst'),
                          ('S37 silence', None)):
            with self.subTest(case=name), self.open() as peer:
                peer.write(half)
                if end:
                    peer.wait_acked()
                    getattr(peer, end)()
                if end != 'rst':
                    self.assertEqual(peer.read_to_end(), b'')
            self.settle()

    def test_silent_clients(self):
        """S46"""
        silent = [self.open() for _ in range(200)]
        self.settle()
        for peer in silent:
            self.assertEqual(peer.read_to_end(), b'')
            peer.sock.close()
        self.settle()

    def test_gone_before_the_rtr(self):
        """S49, at each moment"""
        for end in ('fin', 'rst'):
            for _ in range(3):
                with self.subTest(case=f'{end} before the RTR'):
                    peer, _ = self.connect(words=(A | 4, CW | D | 4))
                    getattr(peer, end)()
                self.settle()
                with self.subTest(case=f'{end} before the Reply'), \
                        self.open() as peer:
                    self.count += 1
                    peer.write(frame(REQUEST, S, 2, block()))
                    # The guest may be about to accept it
                    self.echo.wait_output(f'conn {self.count}: \\S*REQUEST')
                    getattr(peer, end)()
                self.settle()

    def test_missing_rtr(self):
        peer, _ = self.connect(words=(A | 4, CW | D | 4))
        self.assertEqual(peer.read_to_end(), b'')
        self.settle()

    # -- frames -----------------------------------------------------------

    def hostile(self, name, octets, code, crc):
        """`octets`: a function of the connection. `code`: the Terminate's;
        None: the end without one."""
        with self.subTest(case=name, crc=crc):
            peer, _ = self.connect(S | (C if crc else 0))
            self.assertEqual(peer.crc, crc)
            peer.write(octets(peer))
            # What comes behind it counts for nothing
            peer.write(fpdu(send(1, b'and on'), crc))
            if code:
                self.assertEqual(peer.wait_terminate(), code)
            else:
                self.assertEqual(peer.read_to_end(), b'')
            peer.sock.close()
        self.settle()

    def test_hostile_frames(self):
        def ulpdu(make):
            return lambda peer: fpdu(make(peer), peer.crc)

        def end(peer):
            return peer.addr + REGION
        cases = {
            'F11 ulpdu of 0': (lambda p: fpdu(b'', p.crc), (2, 0, 3)),
            'F13 send of 17': (ulpdu(lambda p: send(1)[:17]), (2, 0, 3)),
            'F14 read request of 47': (
                ulpdu(lambda p: read_request(1, 4, p.stag, p.addr) + b'x'),
                (0, 2, 0xff)),
            'D05 write past the end': (
                ulpdu(lambda p: tagged(WRITE, p.stag, end(p) - 4, b'12345')),
                (1, 1, 1)),
            'D06 write before the start': (
                ulpdu(lambda p: tagged(WRITE, p.stag, p.addr - 1, b'12345')),
                (1, 1, 1)),
            'D08 write that wraps': (
                ulpdu(lambda p: tagged(WRITE, p.stag, 2 ** 64 - 4,
                                       b'12345678')), (1, 1, 3)),
            'D09 unknown stag': (
                ulpdu(lambda p: tagged(WRITE, p.stag ^ 0xa500, p.addr, b'1')),
                (1, 1, 0)),
            'D15 send on qn 1': (
                ulpdu(lambda p: untagged(SEND, 1, 1, b'1')), (1, 2, 1)),
            'D16 msn 2': (ulpdu(lambda p: send(2, b'1')), (1, 2, 3)),
            'D21 longer than the receive': (
                ulpdu(lambda p: send(1, bytes(RECV_LEN + 1))), (1, 2, 5)),
            'D22 mo near 4 GiB': (
                ulpdu(lambda p: send(1, bytes(32), mo=0xfffffff0)),
                (1, 2, 4)),
            'D26 ddp version 2': (
                ulpdu(lambda p: tagged(WRITE, p.stag, p.addr, b'1', ddp=0xc2)),
                (1, 1, 4)),
            'R06 read of 4 GiB': (
                ulpdu(lambda p: read_request(1, 2 ** 32 - 1, p.stag, p.addr)),
                (0, 1, 1)),
            'R09 read of an unknown stag': (
                ulpdu(lambda p: read_request(1, 1, p.stag ^ 0xa500, p.addr)),
                (0, 1, 0)),
            'R15 response to nothing': (
                ulpdu(lambda p: tagged(READ_RESPONSE, p.stag, p.addr, b'1')),
                (0, 2, 6)),
            'R24 rdmap version 2': (
                ulpdu(lambda p: send(1, b'1', rdmap=0x80)), (0, 2, 5)),
            'R25 opcode 12': (ulpdu(lambda p: untagged(12, 0, 1, b'1')),
                              (0, 2, 6)),
            'R26 tagged send': (
                ulpdu(lambda p: tagged(SEND, p.stag, p.addr, b'1')),
                (0, 2, 6)),
            'R28 terminate': (ulpdu(lambda p: terminate(0, 1, 0)), None),
            'R30 terminate with msn 2': (
                ulpdu(lambda p: untagged(7, 2, 2, bytes(4))), None),
        }
        for crc in (False, True):
            for name, (octets, code) in cases.items():
                self.hostile(name, octets, code, crc)
        terminates = sum(code is not None for _, code in cases.values())
        self.assertEqual(self.since('term_sent'), 2 * terminates)

    def test_bad_crc(self):
        """F07 to F10"""
        def bit(position, mask=1):
            def spoilt(_peer):
                octets = bytearray(fpdu(send(1, b'hello')))
                octets[position] ^= mask
                return bytes(octets)
            return spoilt

        def order(_peer):
            octets = fpdu(send(1, b'hello'))
            return octets[:-4] + octets[:-5:-1]
        for name, octets in (('crc', bit(-4)), ('header', bit(15)),
                             ('payload', bit(20, 0x80)), ('order', order)):
            self.hostile(name, octets, (2, 0, 2), True)
        self.assertEqual(self.since('rx_crc_errors'), 4)

    # -- ends -------------------------------------------------------------

    def test_ends(self):
        def begun(p):
            return fpdu(tagged(WRITE, p.stag, p.addr, bytes(500)), p.crc)[:300]

        def unfinished(p):
            return fpdu(send(1, b'1', ddp=0x01), p.crc)

        starts = {
            'idle': lambda p: b'',
            'F16 within an FPDU': begun,
            'within a length': lambda p: b'\0',
            'F17 within a message': unfinished,
            'F20 length and nothing': lambda p: b'\xff\xff',
        }
        for end in ('fin', 'rst'):
            for name, start in starts.items():
                for crc in (False, True):
                    with self.subTest(case=f'{end} {name}', crc=crc):
                        peer, _ = self.connect(S | (C if crc else 0))
                        peer.write(start(peer))
                        peer.wait_acked()
                        getattr(peer, end)()
                        if end == 'fin':
                            self.assertEqual(peer.read_to_end(), b'')
                        peer.sock.close()
                    self.settle(memory_is=(
                        'clean', *['begun'] * name.startswith('F17')))
        self.assertEqual(self.since('term_sent'), 0)

    def test_silence(self):
        """Peers that stop within an FPDU are in nobody's way, also many."""
        stuck = []
        for _ in range(8):
            peer, _ = self.connect()
            peer.write(b'\xff\xff\xc1')
            stuck.append(peer)
        for _ in range(2):
            self.good(crc=True)
        for peer in stuck:
            peer.sock.close()
        self.settle()

    def test_terminate_and_rst(self):
        """F18"""
        peer, _ = self.connect()
        peer.put(terminate(0, 1, 0))
        peer.wait_acked()
        peer.rst()
        self.settle()
        self.assertEqual(self.since('term_received'), 1)


class Initiator(Wire):
    """The guest connects."""

    def setUp(self):
        super().setUp()
        self.listener = socket.socket()
        self.addCleanup(self.listener.close)
        self.listener.bind((self.host, 0))
        self.listener.listen(8)
        self.listener.settimeout(iwarp.TIMEOUT)

    def accept(self):
        """A connection of the guest up to its Request."""
        peer = iwarp.Connection(self.listener.accept()[0])
        self.addCleanup(peer.sock.close)
        flags, rev, pdata = peer.read_frame(REQUEST)
        self.assertEqual((flags & (M | R | S), rev), (S, 2))
        words = struct.unpack('>HH', pdata[:4])
        self.assertEqual((words[0] & (A | B), words[1] & (CW | D)),
                         (A, CW | D))
        peer.crc = bool(flags & C)
        return peer

    def good(self):
        peer = self.accept()
        peer.write(frame(REPLY, S, 2, block(A | 4, CW | 4) + b'welcome'))
        self.assertEqual(peer.get(), tagged(WRITE, 1, 0))
        hello = peer.get()
        self.assertEqual(hello[:18], send(1)[:18])
        peer.put(send(1, hello[18:]))
        self.assertEqual(peer.read_to_end(), b'')
        peer.sock.close()

    def each(self, cases, judge):
        """rnic-echo connects for each case, and well after each."""
        port = self.listener.getsockname()[1]
        echo = self.spawn(self.vm, f'rnic-echo connect {HOST} {port} {2 * len(cases)}')
        for i, (name, case) in enumerate(cases.items()):
            with self.subTest(case=name):
                peer = self.accept()
                judge(peer, case)
                peer.sock.close()
                echo.wait_output(f'conn {2 * i + 1}: over')
            self.good()
            echo.wait_output(f'conn {2 * i + 2}: over')
        self.assertEqual(echo.wait(60).rc, 0)
        self.wait_over(echo, 2 * len(cases))
        # One answer to each connect, and no connection of the hostile ones
        told = re.findall(r'conn (\d+): RDMA_CM_EVENT_(\S+)', echo.output)
        for i in range(1, 2 * len(cases) + 1):
            mine = [event for number, event in told if int(number) == i]
            established = mine.count('ESTABLISHED')
            self.assertEqual(established, (i + 1) % 2, mine)
            self.assertEqual(len(mine), 2 if established else 1, mine)
        return echo

    def test_hostile_replies(self):
        def reply(flags=S, rev=2, pdata=b'', **other):
            return frame(REPLY, flags, rev, pdata, **other)
        good = block(A | 4, CW | 4)
        self.each({
            'S30 http': b'HTTP/1.1 400 Bad Request\r\n\r\n',
            'S31 request key': frame(REQUEST, S, 2, good),
            'S32 one letter': frame(b'MPA ID Rep FramE', S, 2, good),
            'S33 rev 3': reply(rev=3, pdata=good),
            'S34 rev 0': reply(rev=0, pdata=good),
            'S35 pd length 513': reply(pdata=good, length=513),
            'S35 pd length 65535': reply(pdata=good, length=65535),
            'S39 block of 3': reply(pdata=good[:3]),
            'S45 plain': reply(flags=0),
            'S45 plain rev 1': reply(flags=0, rev=1),
            'S45 rev 1 with s': reply(rev=1, pdata=good),
            'S08 reject': reply(flags=S | R, pdata=good + b'no'),
        }, self.expect_closed)
        self.assertEqual(self.since('term_sent'), 0)

    def expect_closed(self, peer, octets):
        peer.write(octets)
        self.assertEqual(peer.read_to_end(), b'')

    def test_unusable_replies(self):
        def judge(peer, case):
            words, code = case
            peer.write(frame(REPLY, S, 2, block(*words)))
            self.assertEqual(peer.wait_terminate(), (2, 0, code))
        self.each({
            'S41 not peer-to-peer': ((4, 4), 7),
            'S42 form that it lacks': ((A | B | 4, 4), 7),
            'S42 no form': ((A | 4, 4), 7),
            'S43 ord of 200': ((A | 4, CW | 200), 6),
        }, judge)

    def test_ends_without_a_reply(self):
        def judge(peer, case):
            octets, end = case
            peer.write(octets)
            peer.wait_acked()
            if end == 'rst':
                peer.rst()
            elif end == 'fin':
                peer.fin()
                self.assertEqual(peer.read_to_end(), b'')
            else:
                self.assertEqual(peer.read_to_end(), b'')
        half = frame(REPLY, S, 2, block(A | 4, CW | 4), length=100)
        self.each({
            'fin': (b'', 'fin'),
            'rst': (b'', 'rst'),
            'S38 half and fin': (half, 'fin'),
            'S38 half and rst': (half, 'rst'),
            'S37 half and silence': (half, None),
            'S48 silence': (b'', None),
        }, judge)


if __name__ == '__main__':
    unittest.main()
