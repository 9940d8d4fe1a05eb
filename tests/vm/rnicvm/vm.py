# SPDX-License-Identifier: GPL-2.0-or-later
"""One virtual machine."""

import atexit
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from typing import NamedTuple

from .accel import accel_arguments, kernel_arguments
from .agent import Agent
from .errors import VmError
from .evidence import bound_trace, collect
from .fabric import wait_claim
from .image import Image, cache_dir
from .iommu import iommu_arguments
from .kept import hold, keep_newest
from .qmp import Qmp

BOOT_LIMIT = 240
# How many run folders stay in the cache: failures leave some, and so does
# whoever is killed
RUNS_KEPT = 60

# What the kernel says about any module that is not its own
TAINT_LINES = (r'^rnic: loading out-of-tree module taints kernel',
               r'^rnic: module verification failed: signature and/or required '
               r'key missing - tainting kernel')

# What the driver says of a device that it found, and the kernel of one that was
# plugged in
DEVICE_LINES = (r'^rnic \S+: rnic\d+: iWARP adapter, ',
                r'^rnic \S+: enabling device ')

# What it says of any guest whose host is busy
LOAD_LINES = (r'^hrtimer: interrupt took \d+ ns',
              r'^clocksource: ', r'^TSC found unstable',
              r'^workqueue: \S+( \[\S+\])? hogged CPU for >\d+us',
              r'^perf: interrupt took too long',
              r'^sched: (RT throttling|DL replenish) ',
              r'^INFO: NMI handler ')

# and of any device that a virtual IOMMU translates for
IOMMU_LINES = (r'^rnic \S+: Adding to iommu group \d+$',
               r'^rnic \S+: Removing from iommu group \d+$')

# Events of the device that are rare, and tell why a test failed
TRACED = ('rnic_guest_error', 'rnic_no_receive', 'rnic_term', 'rnic_device',
          'rnic_addr', 'rnic_cm', 'rnic_mpa', 'rnic_qp_state', 'rnic_qp_gated',
          'rnic_admin', 'rnic_dma_refused', 'rnic_engine')

_running = weakref.WeakSet()


def running_vms():
    """All VMs of this process whose QEMU was started and not ended."""
    return list(_running)


@atexit.register
def _kill_all():
    for vm in list(_running):
        vm.kill()


class Kmsg(NamedTuple):
    """One line of the kernel log; level 0 to 7 as in <linux/kern_levels.h>."""
    level: int
    time: float
    text: str


class Vm:
    """A VM with our guest image, and with whatever device it is given.

    name         names it in messages and in its run folder
    kernel, kernel_build
                 as scripts/guest-image takes them; or image, an Image
    device       what follows `-device`, or a list of several; '{run}' in it
                 is replaced by the run folder, and also in qemu_args
    load         how QEMU gets the device: None, ('plugin', FILE) or
                 ('preload', FILE)
    addr         address with prefix length for the rnic's net device, or a
                 list of several, IPv4 and IPv6
    params       module parameters of rnic, a dict
    cpus         processors. Under TCG one makes a guest whose barriers QEMU
                 leaves out (hw-rnic/qemu/fence.c), and more than one now and
                 then a guest that QEMU breaks: see broken_by_tcg()
    driver       False: leave rnic.ko unloaded; None: also use an image without
                 it, so that nothing of this project is built
    append       more kernel parameters, a list
    qemu         QEMU's binary; qemu_args: more arguments for it, a list
    wrapper      what runs QEMU, a list, such as ['ip', 'netns', 'exec', 'x']
    trace        events of the device that are logged, for traced(); none
                 without an rnic, or on a terminal
    iommu        a virtual IOMMU that translates the devices' addresses: 'intel'
                 or 'virtio', '' for none; by default what RNIC_IOMMU says.
                 Raises Unsupported if the guest's kernel has no driver for it
    console      'file', or 'terminal' for a person: QEMU's serial port and
                 monitor on this terminal, a shell there and no agent
    run_root     where the run folder is made (RNIC_RUN_DIR, else in the cache)
    keep         True: keep the run folder also after success
    """

    # Set by a test runner when a test has failed: from then on every VM leaves
    # its run folder
    keep_all = False

    def __init__(self, name='vm', *, kernel='6.12', kernel_build=None,
                 image=None, device=(), load=None, addr=(), params=None,
                 driver=True, append=(), memory='512M', cpus=1, machine='q35',
                 qemu='qemu-system-x86_64', qemu_args=(), wrapper=(),
                 trace=TRACED, iommu=None, console='file', run_root=None,
                 keep=False):
        self.name = name
        self.image = image or Image.prepare(kernel, kernel_build,
                                            driver is None)
        if iommu is None:
            iommu = os.environ.get('RNIC_IOMMU', '')
        self.iommu = iommu
        iommu_devices, iommu_kernel = \
            iommu_arguments(self.image, machine, iommu)
        self.process = None
        self.boot_seconds = None
        self.keep = keep
        self.agent = None
        # kernel messages (regular expressions) that programs with faults of
        # their own are known to have caused
        self.excused = []
        # how often collect() wrote down what there is to see
        self.evidence = 0
        self._qmp = None
        self._console = console
        self.run_dir = self._new_run_dir(
            run_root or os.environ.get('RNIC_RUN_DIR'))
        self._used = hold(self.run_dir)
        devices = [device] if isinstance(device, str) else device
        if console != 'terminal' and any(one.split(',')[0] == 'rnic'
                                         for one in devices):
            qemu_args = [*self._trace_arguments(trace), *qemu_args]
        self.argv = self._arguments(
            # QEMU's IOMMUs are to come before what they translate for
            [*iommu_devices, *devices], load, addr, params or {}, driver,
            [*iommu_kernel, *append], memory, cpus, machine, qemu, qemu_args,
            wrapper)

    def _new_run_dir(self, root):
        own = cache_dir() / 'runs'
        root = root or own
        os.makedirs(root, exist_ok=True)
        if root == own:
            keep_newest(root, RUNS_KEPT)
        return tempfile.mkdtemp(
            prefix=time.strftime(f'%m%d-%H%M%S-{self.name}-'), dir=root)

    # -- starting ---------------------------------------------------------

    @staticmethod
    def _trace_arguments(events):
        arguments = ['-msg', 'timestamp=on', '-D', '{run}/trace.log']
        for event in events:
            arguments += ['-trace', event]
        return arguments if events else []

    def _arguments(self, devices, load, addr, params, driver, append, memory,
                   cpus, machine, qemu, qemu_args, wrapper):
        accel = accel_arguments(self.image, qemu)
        kernel = ['console=ttyS0', 'quiet', 'loglevel=5', 'panic=-1',
                  'log_buf_len=1M', *kernel_arguments(accel),
                  f'vm.hostname={self.name}']
        addr = [addr] if isinstance(addr, str) else list(addr)
        if addr:
            kernel.append('vm.addr=' + ','.join(addr))
        if not driver:
            kernel.append('vm.load=0')
        if self._console == 'terminal':
            kernel.append('vm.shell=1')
        kernel += [f'rnic.{k}={v}' for k, v in params.items()]
        kernel += append

        argv = list(wrapper)
        if load and load[0] not in ('plugin', 'preload'):
            raise ValueError(f'load: {load[0]!r} is not plugin or preload')
        if load and load[0] == 'preload':
            # for QEMU alone: what the wrapper runs could not resolve it
            argv += ['env', f'LD_PRELOAD={load[1]}']
        argv += [qemu, '-name', f'{self.name},debug-threads=on', *accel,
                '-machine', machine, '-m', str(memory),
                '-smp', str(cpus),
                '-nodefaults', '-no-user-config', '-display', 'none',
                '-no-reboot', '-kernel', self.image.vmlinux,
                '-initrd', self.image.initrd, '-append', ' '.join(kernel)]
        if self._console == 'terminal':
            argv += ['-serial', 'mon:stdio']
        else:
            argv += ['-serial', f'file:{self.console_log}']
        if load and load[0] == 'plugin':
            argv += ['-plugin', str(load[1])]
        for one in devices:
            argv += ['-device', one.replace('{run}', self.run_dir)]
        argv += [str(a).replace('{run}', self.run_dir) for a in qemu_args]
        return argv

    def start(self):
        """Start QEMU; wait_ready() waits for the guest."""
        argv, fds = list(self.argv), []
        if self._console != 'terminal':
            # Sockets made here: no names, no limit on their length, and the
            # guest powers off when this process goes away
            agent, agent_qemu = socket.socketpair()
            qmp, qmp_qemu = socket.socketpair()
            fds = [agent_qemu, qmp_qemu]
            argv += ['-chardev', f'socket,id=agent,fd={agent_qemu.fileno()}',
                     '-device', 'virtio-serial-pci,id=vser',
                     '-device',
                     'virtserialport,chardev=agent,name=rnic.agent',
                     '-chardev', f'socket,id=qmp,fd={qmp_qemu.fileno()}',
                     '-mon', 'chardev=qmp,mode=control']
        with open(f'{self.run_dir}/command', 'w', encoding='utf-8') as f:
            f.write(' '.join(f"'{a}'" if re.search(r'[^\w./=,:@%+-]', a) else a
                             for a in argv) + '\n')
        self._started = time.monotonic()
        if self._console == 'terminal':
            self.process = subprocess.Popen(argv)
            _running.add(self)
            return self
        with open(self.qemu_log, 'wb') as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
                pass_fds=[s.fileno() for s in fds])
        _running.add(self)
        for s in fds:
            s.close()
        self.agent = Agent(agent, self.name)
        self._qmp = Qmp(qmp, self.name)
        return self

    def wait_ready(self, timeout=BOOT_LIMIT):
        """Wait until the guest has loaded the driver and takes commands."""
        try:
            if not self._qmp.connected:
                self._qmp.connect(timeout)
            self.agent.wait_ready(timeout)
        except (VmError, TimeoutError) as e:
            raise VmError(f'{e}\n{self.diagnosis()}') from None
        self.boot_seconds = time.monotonic() - self._started
        return self

    def reset(self, timeout=BOOT_LIMIT):
        """Reset the machine and wait until it has booted again."""
        # -no-reboot is for guests that reset themselves
        self.qmp('set-action', reboot='reset')
        self.qmp('system_reset')
        self.qmp_event('RESET')
        self.agent.guest_was_reset()
        # Not shutdown yet: the firmware may reset itself a number of times
        self.wait_ready(timeout)
        self.qmp('set-action', reboot='shutdown')
        return self

    def __enter__(self):
        try:
            self.start()
            if self._console != 'terminal':
                self.wait_ready()
        except BaseException as e:
            self.collect(repr(e))
            self.close(failed=True)
            raise
        return self

    def __exit__(self, kind, value, traceback):
        if kind:
            self.collect(repr(value))
        self.close(failed=kind is not None)

    # -- using it ---------------------------------------------------------

    def run(self, command, timeout=60, check=False, stdin=b'', on_output=None):
        """Run a shell command and return a Result (rc, output)."""
        return self.spawn(command, stdin, on_output).wait(timeout, check)

    def spawn(self, command, stdin=b'', on_output=None):
        """Start a shell command and return a Command at once.

        stdin=None leaves its standard input open for Command.write().
        """
        return self.agent.start(command, stdin, on_output)

    def push(self, source, path, mode=0o644):
        """Write a file in the guest: source is bytes or a host file's name."""
        if not isinstance(source, bytes):
            with open(source, 'rb') as f:
                source = f.read()
        self.run(f"cat >'{path}' && chmod {mode:o} '{path}'", 120, True,
                 source)

    def pull(self, path):
        """The bytes of a file in the guest."""
        command = self.spawn(f"cat '{path}'")
        command.wait(120, check=True)
        return command.output_bytes

    def qmp(self, command, timeout=60, **arguments):
        """A QMP command; '_' in argument names stands for '-'."""
        return self._qmp.command(
            command, {k.replace('_', '-'): v for k, v in arguments.items()},
            timeout)

    def qmp_event(self, name, timeout=60):
        """Wait for a QMP event and take it."""
        return self._qmp.wait_event(name, timeout)

    def hmp(self, line):
        """A line for the human monitor; its text."""
        return self._qmp.command('human-monitor-command',
                                 {'command-line': line})

    def mark(self, text):
        """Start to put a mark into the kernel log, for kmsg()."""
        return self.spawn(f"echo '<14>vm: {text}' >/dev/kmsg")

    def kmsg(self, mark='loading the driver'):
        """The kernel log since a mark; without one since just before the
        driver was loaded."""
        lines = []
        for line in self.run('dmesg -r', 60, True).output.splitlines():
            m = re.match(r'<(\d+)>\[\s*([\d.]+)\] ?(.*)', line)
            if m:
                lines.append(Kmsg(int(m[1]) & 7, float(m[2]), m[3]))
            elif lines:
                last = lines[-1]
                lines[-1] = last._replace(text=f'{last.text}\n{line}')
        marks = [i for i, k in enumerate(lines)
                 if k.text == f'vm: {mark}']
        return lines[marks[-1] + 1:] if marks else lines

    def kmsg_problems(self, allow=(), lines=None):
        """Lines of `lines`, by default kmsg(), that should not be there.

        Those are all warnings and worse, and all lines that name rnic, except
        the two about an out-of-tree module, those that tell of a busy host
        or of a virtual IOMMU, and what matches one of the regular expressions
        in `allow`.
        """
        allowed = [re.compile(p)
                   for p in (*TAINT_LINES, *DEVICE_LINES, *LOAD_LINES,
                             *IOMMU_LINES, *self.excused, *allow)]
        return [k for k in (self.kmsg() if lines is None else lines)
                if (k.level <= 4 or 'rnic' in k.text)
                and not any(p.search(k.text) for p in allowed)]

    def stats(self, device='rnic0'):
        """A device's own counters."""
        return self.qmp('qom-get', path=f'/machine/peripheral/{device}',
                        property='stats')

    def wait_stat(self, name, value, timeout=60):
        """Wait until a counter of the device is at least so large."""
        end = time.monotonic() + timeout
        while (now := self.stats()[name]) < value:
            if time.monotonic() > end:
                raise VmError(f'{self.name}: {name} is {now} and not {value} '
                              f'after {timeout} s')
            time.sleep(0.05)

    def wait_addr(self, fabric, addr, there=True):
        """Wait until rnic0 has an address in its fabric, a number or 'direct',
        and its listeners are bound to it; or has it no more, and what used it
        has ended. What the guest's `ip` does reaches the device later."""
        wait_claim(self.process.pid, fabric, addr, there)
        # The engine answers when it has done what it was about
        self.qmp('qom-get', path='/machine/peripheral/rnic0',
                 property='qp-stats')

    def start_wait_idle(self):
        """A command that ends when no RDMA objects are left but CQs of the
        kernel, or fails after a while and shows what is left."""
        return self.spawn(
            'for i in $(seq 150); do { rdma resource show; '
            'rdma resource show cq; } | grep -qE '
            "' (pd|qp|cm_id|mr|ctx|srq) [1-9]| pid ' || exit 0; sleep 0.2; "
            'done; rdma resource show; rdma resource show cq; exit 1')

    def wait_idle(self):
        """Wait until programs have left no RDMA objects."""
        result = self.start_wait_idle().wait(120)
        if result.rc:
            raise VmError(f'{self.name}: RDMA objects are left\n'
                          f'{result.output}')

    # -- what it left -----------------------------------------------------

    def trace_size(self):
        """For traced(): what is in the device's trace so far."""
        try:
            return os.path.getsize(self.trace_log)
        except FileNotFoundError:
            return 0

    def traced(self, start=0):
        """What the device traced since a trace_size()."""
        with open(self.trace_log, encoding='utf-8', errors='replace') as f:
            f.seek(start)
            return f.read()

    def collect(self, why):
        """After a failure: write down what device and guest can tell."""
        collect(self, why)

    @property
    def trace_log(self):
        return f'{self.run_dir}/trace.log'

    @property
    def console_log(self):
        return f'{self.run_dir}/console.log'

    @property
    def qemu_log(self):
        return f'{self.run_dir}/qemu.log'

    def console(self):
        """What the guest wrote on its serial console."""
        try:
            with open(self.console_log, encoding='utf-8',
                      errors='replace') as f:
                return f.read()
        except FileNotFoundError:
            return ''

    def qemu_output(self):
        """What QEMU wrote on its standard output and standard error."""
        try:
            with open(self.qemu_log, encoding='utf-8', errors='replace') as f:
                return f.read()
        except FileNotFoundError:
            return ''

    def diagnosis(self):
        """Text for a person: how QEMU ended, and the tails of the logs."""
        text = []
        if self.process:
            try:
                text.append(f'QEMU ended with {self.process.wait(1)}')
            except subprocess.TimeoutExpired:
                text.append('QEMU is running')
        for what, log in (('QEMU', self.qemu_output()),
                          ('console', self.console())):
            lines = log.splitlines()[-20:]
            if lines:
                text += [f'{what}:', *(f'    {line}' for line in lines)]
        text.append(f'run folder: {self.run_dir}')
        return '\n'.join(text)

    # -- ending -----------------------------------------------------------

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, timeout=30):
        """End QEMU by its own quit command, whatever the guest is doing.

        Returns QEMU's exit status, so that a caller can see a QEMU that
        crashed, or that a sanitizer ended.
        """
        if self.alive and self._qmp:
            try:
                self._qmp.command('quit', timeout=timeout)
            except VmError:
                pass
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                pass
        self.kill()
        return self.process.returncode if self.process else None

    def power_off(self, timeout=60):
        """Let the guest power itself off; returns QEMU's exit status."""
        try:
            self.spawn('poweroff -f')
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise VmError(f'{self.name}: still runs {timeout} s after '
                          f'poweroff\n{self.diagnosis()}') from None
        finally:
            self.kill()

    def kill(self):
        """End QEMU at once and close its sockets."""
        if self.alive:
            self.process.kill()
        if self.process:
            self.process.wait()
        for end in (self.agent, self._qmp):
            if end:
                end.close()
        self.agent = self._qmp = None
        _running.discard(self)

    def close(self, failed=False):
        """Stop it; remove the run folder unless it is wanted."""
        self.stop()
        if failed or Vm.keep_all:
            bound_trace(self.trace_log)
            print(f'{self.name}: see {self.run_dir} (console.log, qemu.log, '
                  'command, trace.log, failed-*)', file=sys.stderr)
        elif not self.keep:
            shutil.rmtree(self.run_dir, ignore_errors=True)
        if self._used is not None:
            os.close(self._used)
            self._used = None


# Under TCG with several processors, now and then: a breakpoint that the kernel
# took out of its code is still executed; a processor gets no timer interrupt
# any more
_TCG_FAULTS = (r'Oops: int3: ', r'rcu: .*Possible timer handling issue on cpu=')


def guest_broken_by_tcg(vm):
    """Whether QEMU broke the guest as it ran, for no fault of the device."""
    said = vm.console()
    return any(re.search(fault, said) for fault in _TCG_FAULTS)


def broken_by_tcg(error):
    """Whether it is worth another try that VMs did not start: on a loaded
    machine QEMU's TCG now and then breaks a guest with several CPUs that patches
    its own code as it boots."""
    return isinstance(error, VmError) and 'Kernel panic' in str(error) and \
        '[rnic]' not in str(error)


def boot(first, again=None):
    """What `first`, which starts VMs, returns; if TCG broke one as it booted,
    what `again` returns, or `first` once more."""
    try:
        return first()
    except VmError as e:
        if not broken_by_tcg(e):
            raise
        print(f'once more: {e}', file=sys.stderr)
    return (again or first)()


def start_all(vms, timeout=BOOT_LIMIT):
    """Start several VMs at once and wait for all of them."""
    for vm in vms:
        vm.start()
    for vm in vms:
        vm.wait_ready(timeout)
    return vms
