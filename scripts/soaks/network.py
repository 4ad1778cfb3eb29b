"""Hosts in separate network namespaces, connected by a router that can drop the packets between two of them."""
import contextlib
import itertools
import os
import subprocess

import service


class Network(service.Contexts):
    """A context manager that makes the hosts; needs root. Nothing outside the namespaces changes. They last as long as the
    processes that hold them, and these end with this program.

    hosts: the hosts' names, each of which gets an address. All hosts can reach sockets in the file system.
    """

    def __init__(self, hosts):
        super().__init__()
        self.addresses = {host: f"10.77.{number}.2" for number, host in enumerate(hosts, start=1)}
        self.holders, self.cut = {}, []

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

