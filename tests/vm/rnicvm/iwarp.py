# SPDX-License-Identifier: GPL-2.0-or-later
"""An iWARP peer on the host that says exactly what a test wants said.

Plain sockets in a device's loopback fabric; frames are built and taken apart
here, octet by octet from the RFCs, with nothing of the device's.
"""

import socket
import struct
import time

TIMEOUT = 60


class Closed(Exception):
    """The other end closed, in place of what was expected of it."""


def _crc_table():
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82f63b78 if n & 1 else 0)
        yield n


_TABLE = tuple(_crc_table())


def crc32c(octets):
    crc = 0xffffffff
    for octet in octets:
        crc = crc >> 8 ^ _TABLE[(crc ^ octet) & 0xff]
    return crc ^ 0xffffffff


assert crc32c(b'123456789') == 0xe3069283

# -- MPA (RFC 5044, 6581) ---------------------------------------------------

REQUEST = b'MPA ID Req Frame'
REPLY = b'MPA ID Rep Frame'
M, C, R, S = 0x80, 0x40, 0x20, 0x10     # flags of a startup frame
A, B = 0x8000, 0x4000                   # in the first word of a block
CW, D = 0x8000, 0x4000                  # in its second


def frame(key, flags=0, rev=1, pdata=b'', length=None):
    """A startup frame; `length`: another PD_Length than that of pdata."""
    return key + struct.pack('>BBH', flags, rev, len(pdata) if length is None
                             else length) + pdata


def block(ird=4, ord_=4):
    """The enhanced block, from its two words."""
    return struct.pack('>HH', ird, ord_)


def fpdu(ulpdu, crc=True, length=None):
    """The FPDU of a ULPDU; `length`: another ULPDU_Length than its own."""
    octets = struct.pack('>H', len(ulpdu) if length is None else length)
    octets += ulpdu
    octets += bytes(-len(octets) % 4)
    return octets + struct.pack('<I', crc32c(octets) if crc else 0)


# -- DDP and RDMAP (RFC 5041, 5040) -----------------------------------------

WRITE, READ_REQUEST, READ_RESPONSE, SEND, TERMINATE = 0, 1, 2, 3, 7
LAST = 0x40


def tagged(opcode, stag, to, payload=b'', ddp=0xc1):
    return struct.pack('>BBIQ', ddp, 0x40 | opcode, stag, to) + payload


def untagged(opcode, qn, msn, payload=b'', mo=0, ddp=0x41, rdmap=0x40):
    return struct.pack('>BBIIII', ddp, rdmap | opcode, 0, qn, msn, mo) + payload


def send(msn, payload=b'', **other):
    return untagged(SEND, 0, msn, payload, **other)


def read_request(msn, size, stag, to, sink=0x11223344, sink_to=0):
    return untagged(READ_REQUEST, 1, msn,
                    struct.pack('>IQIIQ', sink, sink_to, size, stag, to))


def terminate(layer, etype, code):
    return untagged(TERMINATE, 2, 1, bytes([layer << 4 | etype, code, 0, 0]))


class Connection:
    """One TCP connection to a device, after startup() one of iWARP."""

    def __init__(self, sock):
        self.sock = sock
        self.crc = False
        sock.settimeout(TIMEOUT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @classmethod
    def open(cls, source, target, port):
        """To a device that listens; addresses of the host."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.settimeout(TIMEOUT)
        sock.bind((source, 0))
        sock.connect((target, port))
        return cls(sock)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def write(self, octets):
        self.sock.sendall(octets)

    def read(self, count):
        octets = b''
        while len(octets) < count:
            try:
                more = self.sock.recv(count - len(octets))
            except ConnectionResetError:
                more = b''
            if not more:
                raise Closed(f'{len(octets)} of {count} octets, then the end')
            octets += more
        return octets

    def read_frame(self, key):
        """(flags, rev, private data) of a startup frame."""
        octets = self.read(20)
        if octets[:16] != key:
            raise AssertionError(f'{octets[:16]} instead of {key}')
        flags, rev, length = struct.unpack('>BBH', octets[16:])
        return flags, rev, self.read(length)

    def put(self, ulpdu):
        self.write(fpdu(ulpdu, self.crc))

    def get(self):
        """The next ULPDU; its pad and CRC are checked."""
        octets = self.read(2)
        length = struct.unpack('>H', octets)[0]
        pad = -(2 + length) % 4
        octets += self.read(length + pad + 4)
        if any(octets[2 + length:-4]):
            raise AssertionError('a pad that is not zero')
        if struct.unpack('<I', octets[-4:])[0] != \
                (crc32c(octets[:-4]) if self.crc else 0):
            raise AssertionError('bad CRC')
        return octets[2:2 + length]

    def read_to_end(self):
        """What comes until the other end closes."""
        octets = b''
        try:
            while more := self.sock.recv(65536):
                octets += more
        except ConnectionResetError:
            pass
        return octets

    def wait_terminate(self):
        """(layer, type, code) of the Terminate that ends the connection; what
        came before it is dropped, and nothing may come behind it."""
        while True:
            ulpdu = self.get()
            if ulpdu[1] & 0x0f == TERMINATE:
                break
        if rest := self.read_to_end():
            raise AssertionError(f'{len(rest)} octets behind a Terminate')
        return ulpdu[18] >> 4, ulpdu[18] & 0x0f, ulpdu[19]

    def fin(self):
        self.sock.shutdown(socket.SHUT_WR)

    def rst(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                             struct.pack('ii', 1, 0))
        self.sock.close()

    def wait_acked(self, timeout=TIMEOUT):
        """Until all that was written has reached the device's socket."""
        import fcntl    # pylint: disable=import-outside-toplevel
        import termios  # pylint: disable=import-outside-toplevel
        end = time.monotonic() + timeout
        while struct.unpack('i', fcntl.ioctl(self.sock, termios.TIOCOUTQ,
                                             b'\0\0\0\0'))[0]:
            if time.monotonic() > end:
                raise TimeoutError('not acknowledged')
            time.sleep(0.001)

    def request(self, flags=S, rev=2, words=(4, 4), pdata=b''):
        """Send a Request and take the Reply; its (flags, words, pdata)."""
        head = block(*words) if flags & S else b''
        self.write(frame(REQUEST, flags, rev, head + pdata))
        return self._answered(flags, self.read_frame(REPLY))

    def _answered(self, flags, answer):
        got, _rev, pdata = answer
        self.crc = bool((flags | got) & C)
        words = None
        if got & S:
            words, pdata = struct.unpack('>HH', pdata[:4]), pdata[4:]
        return got, words, pdata
