"""Hosts in network namespaces of their own, around a router that can drop the packets between two of them."""
import contextlib
import itertools
import os
import subprocess

import service


class Network(service.Contexts):
    """A context; needs root. Nothing outside of it changes: the namespaces live as long as the processes that hold them, and
    these end with this program.

    hosts: names; each gets an address of its own. Sockets in the file system are reached from all of them.
    """

    def __init__(self, hosts):
        super().__init__()
        self.addresses = {host: f"10.77.{number}.2" for number, host in enumerate(hosts, start=1)}
        self.holders, self.cut = {}, []

    @staticmethod
    def missing():
        """Returns the reason why there can be no network, or None."""
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
        """Starts a process in a network namespace of its own."""
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
        """Returns the words before a command that make it run there."""
        return ["nsenter", f"--net=/proc/{self.holders[host].pid}/ns/net"]

    def _in(self, host, *command):
        service.run(*self.within(host), *command)

    def _rules(self, action, pair):
        for source, target in itertools.permutations(pair):
            self._in("router", "ip", "rule", action, "from", self.addresses[source], "to", self.addresses[target],
                     "blackhole", "priority", "100")

    def separate(self, *pair):
        """Drops the packets between the two from now on, without an error to either."""
        self._rules("add", pair)
        self.cut.append(pair)

    def join(self):
        """Lets all packets pass again."""
        while self.cut:
            self._rules("del", self.cut.pop())


class Machine:
    """A substitute without namespaces: all hosts are this one. Has no addresses."""

    def __init__(self):
        self.addresses = {}

    def within(self, host):
        return []

    def join(self):
        pass

