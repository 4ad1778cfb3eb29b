"""Hindrances of the hosts of one service, under which all daemons must go on releasing: a slow network or disk, a late standby, a wrong
clock, a daemon that halts for moments. Each is a context, and may last while another fault comes. All that is random is drawn when it
begins.
"""
import contextlib
import random
import time

import clocks
import logged_disk
import network
import service

# The seconds by which a clock is far wrong: outside the signing-time window and the week of Google's messages, and so that the times of a
# release and its repeat differ by less than REPEAT_FOR.
FAR = (8 * 86_400, 14 * 86_400)
REPEAT_FOR = "30d"


def missing(there):
    """Returns, by hindrance, why it is not possible here."""
    found = {"wrong-clock": clocks.missing(), "slow-disk": None if there.cluster.primary.slow else
             logged_disk.Disk.missing() or "a file system for a server alone needs a mount namespace",
             "slow-network": there.why if isinstance(there.network, network.Machine) else there.network.cannot_disturb()}
    return {name: why for name, why in found.items() if why}


class Hindrances:
    """clocks: of the daemons, by node. timeout: ledger.timeout in seconds."""
    NAMES = ["slow-network", "slow-disk", "paused-replay", "wrong-clock", "halting-daemon"]

    def __init__(self, cluster, network, daemons, payments, clocks, timeout):
        self.cluster, self.network, self.daemons = cluster, network, daemons
        self.payments, self.clocks, self.timeout = payments, clocks, timeout

    def during(self, name, chance, notes, alone):
        """Returns a context, the hindrance with this name. notes: takes words about it. alone: no other fault comes meanwhile."""
        return getattr(self, name.replace("-", "_"))(chance, notes, alone)

    @contextlib.contextmanager
    def slow_network(self, chance, notes, alone):
        """Passes packets on late, holds them, and ends connections, also amid a message: between the servers, or between a daemon and
        both."""
        node, names = chance.choice([None, *self.daemons]), [member.name for member in self.cluster.members]
        names.sort()
        pairs = [(node, name) for name in names] if node else [tuple(names)]
        delay, more = chance.choice([0.001, 0.01, 0.05]), chance.choice([0.0, 0.02, 0.1])
        held, resets = chance.uniform(0.2, self.timeout), chance.choice([0.0, 0.005, 0.05])
        # A server sends its partner much of the log again after each reset, and would never be done without an end of them.
        most = chance.randint(2, 10)
        self.network.disturb(pairs, chance.getrandbits(32), delay, more, 0.002, held, resets, most)
        try:
            yield
        finally:
            late, holds, reset = self.network.calm()
            notes.append(f"{node or 'servers'}: {delay * 1000:.0f} to {(delay + more) * 1000:.0f} ms, {late} packets late, held {holds} "
                         f"times for {held:.1f} s, {reset} connections reset")

    @contextlib.contextmanager
    def slow_disk(self, chance, notes, alone):
        """Makes the writes and flushes of one server's disk or both take long. The first flush may hang."""
        names = chance.choice([["one"], ["other"], ["one", "other"]])
        disks = [member.slow for member in self.cluster.members if member.name in names]
        write, flush = chance.uniform(0.0, 0.005), chance.uniform(0.005, 0.2)
        hung = chance.choice([0.0, chance.uniform(1, 2 * self.timeout)])
        for disk in disks:
            disk.slow(write, hung or flush)
        try:
            if hung:
                time.sleep(0.5)
                for disk in disks:
                    disk.slow(write, flush)
            yield
        finally:
            for disk in disks:
                disk.slow(0, 0)
            notes.append(f"{' and '.join(names)}: write {write * 1000:.1f} ms, flush {flush * 1000:.0f} ms, first flush {hung:.1f} s")

    @contextlib.contextmanager
    def paused_replay(self, chance, notes, alone):
        """Makes the standby receive and acknowledge the log without replaying it, while it is connected to its primary. A server whose
        replay is paused does not connect again."""
        standby = self.cluster.standby

        def pause():
            with contextlib.suppress(service.Failed):
                if standby.is_running() and standby.sql("SELECT pg_is_in_recovery()") == ["t"]:
                    is_connected = standby.sql("SELECT count(*) FROM pg_stat_wal_receiver") != ["0"]
                    standby.sql(f"SELECT pg_wal_replay_{'pause' if is_connected else 'resume'}()")
        try:
            with service.repeating(pause, 1):
                yield
        finally:
            # The server may have been promoted, which ends the pause, or not be running.
            if standby.is_running() and standby.try_sql("SELECT 1") and standby.sql("SELECT pg_is_in_recovery()") == ["t"]:
                notes.append(f"{standby.name} lagged by {standby.lag()} bytes")
                standby.try_sql("SELECT pg_wal_replay_resume()")

    @contextlib.contextmanager
    def halting_daemon(self, chance, notes, alone):
        """Stops the processes of one daemon (SIGSTOP) again and again for moments."""
        node, moments, halts = chance.choice(list(self.daemons)), random.Random(chance.getrandbits(32)), 0

        def halt():
            nonlocal halts
            # The daemon may have been killed, and may have been started again.
            with contextlib.suppress(OSError):
                stopped = service.stop(self.daemons[node].daemon.process.pid)
                time.sleep(moments.uniform(0.01, 0.5))
                service.go_on(stopped)
                halts += 1
            time.sleep(moments.uniform(0.01, 0.5))
        with service.repeating(halt, 0):
            yield
        notes.append(f"{node} halted {halts} times")

    @contextlib.contextmanager
    def wrong_clock(self, chance, notes, alone):
        """Sets a daemon's clock, ahead and back, while it runs. While another fault comes, it stays close to the others'. Otherwise it
        may be wrong by many days. The node then may release nothing of Apple Pay, and nothing at all if the clock is ahead."""
        node, set_to, close = chance.choice(list(self.daemons)), [], []
        for _ in range(1 if not alone else chance.randint(1, 4)):
            direction, is_far = chance.choice([-1, 1]), alone and chance.random() < 0.5
            close.append(not is_far)
            set_to.append(direction * (chance.randint(*FAR) if is_far else chance.randint(1, 30)))
        self.payments.is_wrong(node)
        try:
            for seconds, is_close in zip(set_to, close):
                # Releases dated far ahead would date the fence of a later restore, too.
                with self.payments.resting(node) if not is_close and seconds > 0 else contextlib.nullcontext():
                    self.clocks[node].set(seconds)
                    time.sleep(clocks.READ)
                since = time.monotonic()
                if not is_close:
                    self._refused(node, since, seconds)
                elif alone:
                    self.payments.wait_for_releases([node], since, f"with a clock at {seconds:+} s")
            yield
        finally:
            self.clocks[node].set(0)
            time.sleep(clocks.READ)
            self.payments.is_right(node)
            notes.append(f"{node} at {', '.join(f'{seconds:+}' for seconds in set_to)} s")

    def _refused(self, node, since, seconds):
        """Waits for refusals by the clock, and checks that the node released nothing that it must refuse."""
        before = self.payments.counts["clock"]
        service.wait("a refusal by a wrong clock", lambda: self.payments.must_go_on() and self.payments.counts["clock"] >= before + 5)
        self.payments.nothing_since(since, f"with a clock at {seconds:+} s", node,
                                    self.payments.keys["processing"] if seconds < 0 else None)
