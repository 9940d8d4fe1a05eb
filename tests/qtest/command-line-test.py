#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What a person meets on the command line: loading the device, its help, bad
property values, the counters, migration. tests/qtest/run sets the environment.
"""
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import unittest

QEMU = os.environ['RNIC_QEMU']
DEVICE = os.environ['RNIC_DEVICE_SO']
PRELOAD = os.environ['RNIC_PRELOAD_SO']

PROPERTIES = ['allow', 'crc', 'deny', 'fabric', 'fabric-id', 'fabric-peers',
              'fault-admin-delay', 'fpdu-max', 'ioeventfd', 'iothread', 'mac', 'map',
              'max-connections', 'mpa-gate', 'mpa-rev', 'mpa-timeout-ms',
              'p2p', 'pcap', 'pcap-max', 'peer-timeout-ms', 'rfc7306', 'rtr', 'sq-scan-ms',
              'vectors']

BAD = [
    # properties, what the message must name
    ('fabric=ethernet', ["'fabric'", "'ethernet'", "'loopback'", "'direct'"]),
    ('fabric-id=95', ["'fabric-id'", '95', '94']),
    ('fabric-id=-1', ['fabric-id']),
    ('fabric-peers=all', ["'fabric-peers'", "'all'", "'user'", "'any'"]),
    ('crc=maybe', ["'crc'", "'maybe'", "'auto'", "'on'", "'off'"]),
    ('mpa-rev=3', ["'mpa-rev'", '3', '1', '2']),
    ('p2p=perhaps', ["'p2p'", "'on' or 'off'"]),
    ('rtr=send', ["'rtr'", "'send'", "'write'", "'read'", "'both'"]),
    ('mpa-gate=loose', ["'mpa-gate'", "'loose'", "'strict'", "'off'"]),
    ('mpa-timeout-ms=0', ["'mpa-timeout-ms'", '0', '1']),
    ('fpdu-max=100', ["'fpdu-max'", '100', '128', '64768']),
    ('fpdu-max=70000', ["'fpdu-max'", '70000', '64768']),
    ('max-connections=1000000', ["'max-connections'", '1000000']),
    ('vectors=1', ["'vectors'", '1', '2', '64']),
    ('vectors=65', ["'vectors'", '65', '2', '64']),
    ('mac=01:00:00:00:00:01', ["'mac'", '01:00:00:00:00:01', 'multicast']),
    ('mac=hello', ['mac', 'hello']),
    ('map=10.0.0.0', ["'map'", '10.0.0.0']),
    ('allow=1.2.3.4/99', ["'allow'", '1.2.3.4/99']),
    ('deny=nonsense', ["'deny'", 'nonsense']),
    ('pcap=/nonexistent/x.pcap', ["'pcap'", '/nonexistent/x.pcap']),
    ('pcap=x.pcap,pcap-max=1', ["'pcap-max'", '1']),
    ('iothread=none', ['none']),
    ('no-such-property=1', ['no-such-property']),
]


def run(*arguments, preload=None, stdin=''):
    env = dict(os.environ)
    if preload:
        env['LD_PRELOAD'] = preload
    return subprocess.run(arguments, env=env, input=stdin, text=True,
                          capture_output=True, timeout=180, check=False)


class Machine:
    """A machine of the distribution's QEMU, spoken to by QMP"""

    def __init__(self, *arguments, **popen):
        self.folder = tempfile.mkdtemp(prefix='rnic-')
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.folder + '/qmp')
        listener.listen(1)
        listener.settimeout(60)
        self.process = subprocess.Popen(
            [QEMU, '-plugin', DEVICE, '-accel', 'qtest', '-nodefaults',
             '-display', 'none', '-qmp', f'unix:{self.folder}/qmp',
             *arguments], **popen)
        self.file = listener.accept()[0].makefile('rw')
        listener.close()
        self.file.readline()
        self.command('qmp_capabilities')

    def reply(self, command, **arguments):
        self.file.write(json.dumps({'execute': command,
                                    'arguments': arguments}) + '\n')
        self.file.flush()
        while True:
            message = json.loads(self.file.readline())
            if 'event' not in message:
                return message

    def command(self, command, **arguments):
        return self.reply(command, **arguments)['return']

    def get(self, path, name):
        return self.command('qom-get', path=path, property=name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.command('quit')
        self.process.wait(30)
        self.file.close()
        shutil.rmtree(self.folder)


class Loading(unittest.TestCase):
    def test_preloaded_device_is_listed(self):
        result = run(QEMU, '-device', 'help', preload=PRELOAD)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r'name "rnic", bus PCI')

    def test_preload_leaves_other_programs_alone(self):
        result = run('/bin/sh', '-c', 'echo fine', preload=PRELOAD)
        self.assertEqual(result.stdout, 'fine\n')
        self.assertEqual(result.stderr, '')

    def test_help_documents_every_property(self):
        result = run(QEMU, '-device', 'rnic,help', preload=PRELOAD)
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in PROPERTIES:
            self.assertRegex(result.stdout, rf'(?m)^  {name}=<\S+> +- \S+')
        listed = set(re.findall(r'(?m)^  (\S+)=<', result.stdout))
        # Those of every PCI device
        listed -= {'acpi-index', 'addr', 'failover_pair_id', 'multifunction',
                   'rombar', 'romfile', 'romsize'}
        listed = {name for name in listed if not name.startswith('x-')}
        self.assertEqual(listed, set(PROPERTIES))

    def test_plugin_takes_no_arguments(self):
        result = run(QEMU, '-plugin', DEVICE + ',crc=off', '-M', 'none',
                     '-display', 'none')
        self.assertEqual(result.returncode, 1)
        self.assertIn('-device rnic', result.stderr)


class OtherBuild(unittest.TestCase):
    """A loader that was made for another build of QEMU"""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='rnic-')
        self.loader = self.folder + '/rnic.so'
        # The stamp is the only text of that form in the loader
        with open(DEVICE, 'rb') as file:
            image = file.read()
        changed, count = re.subn(rb'qemu_stamp_[0-9a-f]{40}',
                                 b'qemu_stamp_' + b'0' * 40, image)
        self.assertEqual(count, 1)
        with open(self.loader, 'wb') as file:
            file.write(changed)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def check(self, result):
        self.assertEqual(result.returncode, 1)
        self.assertIn('was built for QEMU', result.stderr)
        self.assertIn('scripts/vm', result.stderr)
        self.assertIn('scripts/build-qemu', result.stderr)

    def test_plugin_refuses(self):
        self.check(run(QEMU, '-plugin', self.loader, '-M', 'none',
                       '-display', 'none'))

    def test_preload_refuses(self):
        self.check(run(QEMU, '-version', preload=self.loader))

    def test_qemu_without_modules_is_refused(self):
        fake = self.folder + '/qemu-system-x86_64'
        shutil.copy('/bin/true', fake)
        result = run(fake, preload=PRELOAD)
        self.assertEqual(result.returncode, 1)
        self.assertIn('--enable-modules', result.stderr)


class Properties(unittest.TestCase):
    def test_bad_values_are_named(self):
        for properties, words in BAD:
            with self.subTest(properties=properties):
                result = run(QEMU, '-plugin', DEVICE, '-accel', 'qtest', '-S',
                             '-M', 'pc', '-nodefaults', '-display', 'none',
                             '-device', 'rnic,' + properties)
                self.assertEqual(result.returncode, 1)
                message = result.stderr.split('rnic,' + properties + ':')[-1]
                for word in words:
                    self.assertIn(word, message)

    def test_values_are_kept(self):
        with Machine('-device', 'rnic,id=r,crc=off,rtr=read,fabric-id=7,'
                     'mpa-gate=off,p2p=off,vectors=3,mac=52:54:00:00:00:07'
                     ) as vm:
            for name, value in {'crc': 'off', 'rtr': 'read', 'fabric-id': 7,
                                'mpa-gate': 'off', 'p2p': False,
                                'vectors': 3, 'fabric': 'loopback',
                                'mac': '52:54:00:00:00:07'}.items():
                self.assertEqual(vm.get('/machine/peripheral/r', name), value)

    def mac(self, *arguments):
        with Machine(*arguments, '-device', 'rnic,id=r,addr=5') as vm:
            mac = vm.get('/machine/peripheral/r', 'mac')
        # Unicast, locally administered
        self.assertEqual(int(mac[:2], 16) & 3, 2)
        return mac

    def test_mac_follows_uuid_and_place(self):
        uuid = '11111111-2222-3333-4444-555555555555'
        other = '11111111-2222-3333-4444-555555555556'
        self.assertEqual(self.mac('-uuid', uuid), self.mac('-uuid', uuid))
        self.assertNotEqual(self.mac('-uuid', uuid), self.mac('-uuid', other))
        with Machine('-uuid', uuid, '-device', 'rnic,id=a,addr=5',
                     '-device', 'rnic,id=b,addr=6') as vm:
            self.assertNotEqual(vm.get('/machine/peripheral/a', 'mac'),
                                vm.get('/machine/peripheral/b', 'mac'))

    def test_mac_without_uuid_is_random(self):
        self.assertNotEqual(self.mac(), self.mac())


class Tracing(unittest.TestCase):
    def traced(self, *arguments, preload=None):
        result = run(QEMU, '-accel', 'qtest', '-M', 'pc', '-nodefaults',
                     '-display', 'none', '-device', 'rnic,id=here',
                     '-no-shutdown', '-monitor', 'stdio', *arguments,
                     preload=preload, stdin='quit\n')
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def test_options_of_either_kind_enable_events(self):
        for way in ({'preload': PRELOAD}, {}):
            load = () if way else ('-plugin', DEVICE)
            for options in (('-trace', 'rnic_*'), ('--trace', 'enable=rnic_d*'),
                            ('-d', 'unimp,trace:rnic_device')):
                with self.subTest(way=way, options=options):
                    self.assertIn('rnic_device here: ',
                                  self.traced(*load, *options, **way))

    def test_nothing_is_traced_unasked(self):
        self.assertEqual(self.traced('-plugin', DEVICE), '')


class Running(unittest.TestCase):
    def test_counters_are_a_property(self):
        with Machine('-device', 'rnic,id=r') as vm:
            stats = vm.get('/machine/peripheral/r', 'stats')
            self.assertEqual(stats['admin_commands'], 0)
            self.assertIn('rx_crc_errors', stats)

    def test_device_fits_pci_express(self):
        with Machine('-M', 'q35', '-device', 'pcie-root-port,id=p,chassis=1',
                     '-device', 'rnic,id=a', '-device', 'rnic,id=b,bus=p'
                     ) as vm:
            for name in 'ab':
                self.assertTrue(vm.get('/machine/peripheral/' + name,
                                       'realized'))

    def test_migration_is_refused_in_words(self):
        with Machine('-device', 'rnic,id=r') as vm:
            reply = vm.reply('migrate', uri='exec:cat >/dev/null')
            self.assertIn('rnic', reply['error']['desc'])

    def test_iothread_is_not_used_behind_an_iommu(self):
        iommu = ['-device', 'intel-iommu']
        rnic = ['-object', 'iothread,id=t', '-device', 'rnic,iothread=t']
        # Only the complete machine shows what translates
        for devices in (iommu + rnic, rnic + iommu, rnic):
            with self.subTest(devices=devices):
                result = run(QEMU, '-plugin', DEVICE, '-accel', 'qtest',
                             '-machine', 'q35', '-nodefaults', '-display',
                             'none', '-monitor', 'stdio', *devices,
                             stdin='quit\n')
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual('works in the main loop, not in its '
                                 'iothread' in result.stderr,
                                 'intel-iommu' in devices, result.stderr)

    def test_open_files_limit_is_raised(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

        def lower():
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))

        with Machine('-device', 'rnic,id=r', preexec_fn=lower) as vm:
            with open(f'/proc/{vm.process.pid}/limits') as file:
                line = next(x for x in file if x.startswith('Max open files'))
            self.assertEqual(line.split()[3], line.split()[4])


class Lines(unittest.TextTestResult):
    """One line a test, in the form of the qgraph tests"""

    def stopTest(self, test):
        super().stopTest(test)
        name = '/command-line/' + test.id().split('.', 1)[1].replace('.', '/')
        wrong = [text for case, text in self.failures + self.errors
                 if case is test or getattr(case, 'test_case', None) is test]
        if wrong:
            print(f'not ok {name}: {wrong[0].splitlines()[-1]}', flush=True)
        else:
            print(f'ok {name}', flush=True)


if __name__ == '__main__':
    unittest.main(testRunner=unittest.TextTestRunner(resultclass=Lines,
                                                     verbosity=0))
