"""Hosts in separate network namespaces, connected by a router that can drop the packets between two of them, or disturb them."""
import contextlib
import itertools
import os
import subprocess
import sys

import late_packets
import service

# The name of the router's device that disturbs packets, and the routes that lead to it.
DEVICE, ROUTES = "late", "77"


class Network(service.Contexts):
    """A context manager that makes the hosts; needs root. Nothing outside the namespaces changes. They last as long as the
    processes that hold them, and these end with this program.

    hosts: the hosts' names, each of which gets an address. All hosts can reach sockets in the file system.
    """

    def __init__(self, hosts):
        super().__init__()
        self.addresses = {host: f"10.77.{number}.2" for number, host in enumerate(hosts, start=1)}
        self.holders, self.cut, self.disturbed, self.device = {}, [], [], None

    @staticmethod
    def missing():
        """Returns the reason why namespaces cannot be made on this machine, or None."""
        if os.geteuid() != 0:
            return "network namespaces need root"
        with contextlib.ExitStack() as ending, contextlib.suppress(service.Failed):
            network = ending.enter_context(Network(["one", "other"]))
            network.separate("one", "other")
            return None
        return "this system makes no network namespaces, or no rules between them"

    def begin(self):
        for name in ("router", *self.addresses):
            self.holders[name] = self._hold()
        self._in("router", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        for number, host in enumerate(self.addresses, start=1):
            self._in("router", "ip", "link", "add", f"host{number}", "type", "veth", "peer", "name", "router", "netns",
                     self.holders[host].pid)
            for place, link, end in (("router", f"host{number}", 1), (host, "router", 2)):
                self._in(place, "ip", "address", "add", f"10.77.{number}.{end}/24", "dev", link)
                self._in(place, "ip", "link", "set", link, "up")
            self._in(host, "ip", "link", "set", "lo", "up")
            self._in(host, "ip", "route", "add", "default", "via", f"10.77.{number}.1")

    def _hold(self):
        """Starts a process that holds a new network namespace."""
        holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.callback(holder.wait)
        self.callback(holder.kill)
        ours = os.readlink("/proc/self/ns/net")

        def is_within():
            if holder.poll() is not None:
                raise service.Failed("there is no network namespace to be had")
            return os.readlink(f"/proc/{holder.pid}/ns/net") != ours
        service.wait("a network namespace", is_within, pause=0.01)
        return holder

    def within(self, host):
        """Returns the words that make a following command run on this host."""
        return ["nsenter", f"--net=/proc/{self.holders[host].pid}/ns/net"]

    def _in(self, host, *command):
        service.run(*self.within(host), *command)

    def _rules(self, action, pair):
        for source, target in itertools.permutations(pair):
            self._in("router", "ip", "rule", action, "from", self.addresses[source], "to", self.addresses[target],
                     "blackhole", "priority", "100")

    @staticmethod
    def cannot_disturb():
        """Returns the reason why packets cannot be disturbed on this machine, or None."""
        return None if os.access(late_packets.DEVICE, os.R_OK | os.W_OK) else f"it needs {late_packets.DEVICE}"

    def disturb(self, pairs, seed, *settings):
        """Passes on the packets between these pairs of hosts late from now on. settings: those of late_packets.Device."""
        if self.device is None:
            self.device = self.enter_context(service.Answering(*self.within("router"), sys.executable, late_packets.__file__, DEVICE))
            self.device.line()
            # Packets of all hosts come from the device.
            for where in ("all", DEVICE):
                self._in("router", "sh", "-c", f"echo 0 >/proc/sys/net/ipv4/conf/{where}/rp_filter")
            self._in("router", "ip", "link", "set", DEVICE, "up")
            self._in("router", "ip", "route", "add", "default", "dev", DEVICE, "table", ROUTES)
        self.device.ask(seed, *settings)
        for pair in pairs:
            self._disturbing("add", pair)
            self.disturbed.append(pair)

    def calm(self):
        """Ends the disturbance. Returns its counts, as late_packets.COUNTED names them."""
        while self.disturbed:
            self._disturbing("del", self.disturbed.pop())
        return list(map(int, self.device.ask(0, *[0] * 6)))

    def _disturbing(self, action, pair):
        for source, target in itertools.permutations(pair):
            # The rules that drop packets come first. What the device returns has come from it, and is routed as usual.
            self._in("router", "ip", "rule", action, "iif", f"host{list(self.addresses).index(source) + 1}", "from",
                     self.addresses[source], "to", self.addresses[target], "lookup", ROUTES, "priority", "110")

    def separate(self, *pair):
        """Drops all packets between the two hosts from now on, without an error to either."""
        self._rules("add", pair)
        self.cut.append(pair)

    def join(self):
        """Lets all packets pass again."""
        while self.cut:
            self._rules("del", self.cut.pop())


class Machine:
    """A substitute for Network without namespaces, in which all hosts are this machine. It has no addresses."""

    def __init__(self):
        self.addresses = {}

    def within(self, host):
        return []

    def join(self):
        pass
