# SPDX-License-Identifier: GPL-2.0-or-later
"""A service of the host, which no guest may reach."""

# Listens at an address, prints its port, and tells whether anybody came when
# its input ends
SERVICE = '''
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.socket(family)
s.bind((sys.argv[1], 0))
s.listen(5)
print(s.getsockname()[1], flush=True)
sys.stdin.read()
s.setblocking(False)
try:
    print('somebody', s.accept())
except BlockingIOError:
    print('nothing')
'''
