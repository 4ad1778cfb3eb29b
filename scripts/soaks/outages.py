"""The faults of the hosts of one service, one method for each, and the conditions that must hold during the fault."""
import collections
import contextlib
import datetime
import json
import os
import shutil
import socket
import struct
import subprocess
import time

import database
import service

# The length of a node lease, in seconds.
LEASE = 15
# The signing-time window of a deployment, in seconds.
WINDOW = 86_400
# The security team's accounts, with the uids of Debian's accounts mail and news. Approvals across hosts need account names.
STAFF = {"alice": 8, "bob": 9}

# struck: the time after the fault. repaired: the time at which the servers worked again. since: releases that were requested
# after this time show the recovery. what: a short description.
Event = collections.namedtuple("Event", "struck repaired since what")


class Outages:
    """The faults of a primary and its standby with the daemons that use them.

    daemons: the deployments by node. lasting: the seconds that a fault lasts if no event ends it. past: the seconds after which
    every answer must have come; at least one fault lasts longer. races: the number of payment tokens in a race.
    """

    def __init__(self, cluster, network, daemons, payments, chance, lasting, past, races):
        self.cluster, self.network, self.daemons = cluster, network, daemons
        self.payments, self.chance, self.lasting, self.past, self.races = payments, chance, lasting, past, races
        self.fail_overs, self.wrong, self.lost = 0, [], []
        # The backup, and the nodes that were started after the backup was made.
        self.backup, self.later = None, set()

    @property
    def nodes(self):
        return list(self.daemons)

    def _last(self, struck, seconds=0.0):
        time.sleep(max(0.0, struck + max(self.lasting, seconds) - time.monotonic()))

    # The servers.

    def fail_over(self):
        """Kills the primary with SIGKILL, promotes the standby, and makes the old primary rejoin."""
        self.fail_overs += 1
        self.cluster.primary.kill()
        struck = time.monotonic()
        self.cluster.promote()
        # Every tenth time the server rejoins from a fresh copy, as after the loss of a disk.
        how = self.cluster.rejoin(is_fresh=self.fail_overs % 10 == 0)
        return Event(struck, time.monotonic(), struck, how)

    def two_primaries(self):
        """Stops the primary's processes (SIGSTOP), promotes the standby, and then lets both run for a while."""
        stopped = self.cluster.primary.freeze()
        struck = time.monotonic()
        self.cluster.promote()
        service.go_on(stopped)
        self._last(struck)
        self.cluster.standby.kill()
        how = self.cluster.rejoin()
        return Event(struck, time.monotonic(), struck, how)

    def lagging_standby(self):
        """Has the standby replay nothing for a while, then receive nothing, kills the primary (SIGKILL) with commits that the standby
        lacks, and promotes the standby. Those commits had no answer, and are lost with the primary."""
        primary, standby = self.cluster.primary, self.cluster.standby
        standby.sql("SELECT pg_wal_replay_pause()")
        self.payments.wait_for_releases(self.nodes, time.monotonic(), "while the standby replays nothing")
        time.sleep(self.lasting)
        lag, before = standby.lag(), self.payments.counts["ledger_unavailable"]
        self.network.separate(primary.name, standby.name)
        alone = time.monotonic()
        service.wait("a refusal without the standby", lambda: self.payments.counts["ledger_unavailable"] >= before + 10)
        self.payments.nothing_since(alone, "without the standby")
        end, = primary.sql("SELECT pg_current_wal_flush_lsn()")
        primary.kill()
        struck = time.monotonic()
        lacking, = standby.sql(f"SELECT pg_wal_lsn_diff('{end}', pg_last_wal_receive_lsn())::bigint")
        self.network.join()
        self.cluster.promote()
        how = self.cluster.rejoin()
        return Event(struck, time.monotonic(), struck, f"{how}; {lag} bytes were not replayed, {lacking} not received")

    def _without(self, what, strike, repair, seconds=0.0):
        """Causes a fault. No payment may be released until its repair."""
        struck_by, struck = strike(), time.monotonic()
        self._last(struck, seconds)
        self.payments.nothing_since(struck, f"without the {what}")
        repair(struck_by)
        self.cluster.wait_for_standby()
        return Event(struck, time.monotonic(), struck, "")

    def stopped_server(self):
        return self._without("primary", self.cluster.primary.freeze, service.go_on, self.past + 1)

    def stopped_standby(self):
        return self._without("standby", self.cluster.standby.freeze, service.go_on)

    def full_disk(self):
        """Fills the primary's disk, and frees it some seconds after the first refusal."""
        primary = self.cluster.primary
        before, struck = self.payments.counts["ledger_unavailable"], time.monotonic()

        def is_felt():
            primary.fill()
            # The server reuses files of its write-ahead log, so it has to begin a new file, which needs space.
            primary.try_sql("SELECT pg_switch_wal()")
            return self.payments.counts["ledger_unavailable"] >= before + 10
        service.wait("a refusal for the full disk", is_felt, pause=0)
        # The server frees space by itself, which must be filled as well.
        until = time.monotonic() + self.lasting
        while time.monotonic() < until:
            primary.fill()
            time.sleep(0.05)
        has_ended = not primary.is_running()
        primary.empty()
        primary.revive()
        self.cluster.wait_for_standby()
        repaired = time.monotonic()
        return Event(struck, repaired, repaired, "the server had ended" if has_ended else "the server went on")

    def flood(self):
        """Takes all connections of the server, and breaks those of the daemons."""
        primary, taken = self.cluster.primary, []
        struck = time.monotonic()
        try:
            while time.monotonic() < struck + self.lasting:
                taken += all_connections(primary)
                # For a moment, even the connections that are reserved for a superuser may be taken.
                primary.try_sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{database.DAEMON}'")
        finally:
            for connection in taken:
                connection.close()
        repaired = time.monotonic()
        return Event(struck, repaired, repaired, f"{len(taken)} connections")

    # The network.

    def partitioned_daemon(self):
        """Separates one daemon from the primary. The other daemons must continue."""
        node = self.chance.choice(self.nodes)
        self.network.separate(node, self.cluster.primary.name)
        struck = time.monotonic()
        self.payments.wait_for_releases([other for other in self.nodes if other != node], struck, "during a partition")
        self._last(struck)
        self.payments.nothing_since(struck, "without the primary", node)
        self.network.join()
        return Event(struck, time.monotonic(), struck, node)

    def partitioned_standby(self):
        pair = self.cluster.primary.name, self.cluster.standby.name
        return self._without("standby", lambda: self.network.separate(*pair), lambda _: self.network.join())

    def vanished_primary(self):
        """Separates the primary's machine from the network, so that connections to it get no answer. The standby is promoted, and
        has no standby until the machine is back."""
        old, new = self.cluster.primary, self.cluster.standby
        for other in [*self.nodes, new.name]:
            self.network.separate(old.name, other)
        struck = time.monotonic()
        self.cluster.promote()
        self.cluster.require_standby(False)
        back = max(self.payments.wait_for_releases(self.nodes, struck, "without the primary's machine").values())
        old.kill()
        self.network.join()
        self.cluster.require_standby(True)
        how = self.cluster.rejoin()
        return Event(struck, time.monotonic(), struck, f"{how}; released without it after {back - struck:.1f} s")

    # The daemons.

    def race(self):
        """Causes no fault. All daemons get the same payment tokens at the same moment, as fast as they answer."""
        struck = time.monotonic()
        self.payments.race(self.races)
        repaired = time.monotonic()
        return Event(struck, repaired, repaired, f"{self.races} payment tokens at all daemons at once")

    def suspended_key(self):
        """Suspends a wallet's key on one node, and resumes it on another one. All nodes must release nothing with it meanwhile."""
        nodes, (use, key) = self.chance.sample(self.nodes, 2), self.chance.choice(list(self.payments.keys.items()))
        for node, operation, state in zip(nodes, ("suspend", "resume"), ("suspended", "active")):
            service.wait(f"{operation} on {node}", lambda: self._has_changed(node, operation, key, state))
            if operation == "suspend":
                struck = time.monotonic()
                self._last(struck)
                self.payments.nothing_since(struck, "with a suspended key", key=key)
        repaired = time.monotonic()
        return Event(struck, repaired, repaired, f"{use}; {' and '.join(nodes)}")

    def _has_changed(self, node, operation, key, state):
        """Changes the key's state. Returns True if it was changed, also by an earlier request whose answer was lost."""
        daemon = self.daemons[node].daemon
        result = self.payments.past.change(daemon, node, operation, key)
        if result == "refused":
            with contextlib.suppress(service.Failed):
                return any(each["publicKeyHash"] == key and each["state"] == state
                           for each in json.loads(daemon.ctl("key", "list", "--output", "json")))
        return result == "done"

    def stopped_daemon(self):
        """Stops a daemon's processes (SIGSTOP) for longer than its lease. The other daemons must continue."""
        node = self.chance.choice(self.nodes)
        stopped = service.stop(self.daemons[node].daemon.process.pid)
        struck = time.monotonic()
        self.payments.stands_still(node)
        self.payments.wait_for_releases([other for other in self.nodes if other != node], struck, "during the stop of a daemon")
        self._last(struck, LEASE + 2)
        service.go_on(stopped)
        self.payments.goes_on(node)
        return Event(struck, time.monotonic(), struck, node)

    def lost_daemon(self):
        """Kills a daemon and the primary at the same time with SIGKILL, and starts the daemon later. The other daemons must not
        wait longer than the killed daemon's lease."""
        node = self.chance.choice(self.nodes)
        others = [other for other in self.nodes if other != node]
        self.daemons[node].daemon.kill()
        self.cluster.primary.kill()
        struck = time.monotonic()
        self.cluster.promote()
        self.cluster.rejoin()
        back = max(self.payments.wait_for_releases(others, struck, "without a daemon").values())
        # Before the fence no daemon reports that it is ready, so this waits for a release.
        self.daemons[node].daemon.start(ready=False)
        self.later.add(node)
        return Event(struck, time.monotonic(), struck, f"{node}; the others released after {back - struck:.1f} s")

    # Restores.

    def back_up(self):
        if self.backup:
            shutil.rmtree(self.backup)
        self.backup = f"{self.cluster.primary.directory}/backup"
        self.cluster.primary.copy(self.backup)
        self.later.clear()

    def restore(self):
        """Replaces both servers with the backup while the daemons run. All daemons must release nothing until two people accept
        it."""
        for member in self.cluster.members:
            member.kill()
        struck = time.monotonic()

        def start():
            # These daemons took their node names after the backup was made, so they must be restarted.
            for node in self.later:
                self.daemons[node].daemon.stop()
                self._await_restore(node)
        return self._go_on_from_backup(struck, start)

    def restore_at_rest(self):
        """Restores the backup as planned work. The daemons are stopped first, and then started with --await-restore."""
        for there in self.daemons.values():
            self.wrong += there.daemon.stop()
        for member in self.cluster.members:
            member.kill()
        struck = time.monotonic()

        def start():
            for node in self.nodes:
                self._await_restore(node)
        return self._go_on_from_backup(struck, start)

    def _await_restore(self, node):
        self.daemons[node].daemon.start(ready=False, more=["--await-restore"])
        self.later.add(node)

    def _go_on_from_backup(self, struck, start):
        self.cluster.restore(self.backup)
        ledger = self.cluster.ledger
        heads = dict(line.split("|") for line in ledger.sql(
            "SELECT node, max(sequence) FROM audit_record GROUP BY node"))
        lost = self.payments.restored(struck, {node: int(head) for node, head in heads.items()}, set(ledger.claims()))
        self.cluster.rejoin(is_fresh=True)
        start()
        service.wait("all nodes' findings",
                     lambda: ledger.sql("SELECT count(*) FROM hold WHERE accepted_at IS NULL") == [str(len(self.nodes))])
        # Each daemon checks the ledger once a second. After this pause, people can read every node's findings before they accept.
        time.sleep(2)
        self.payments.accept()
        self._accept()
        service.wait("the end of the holds", lambda: ledger.sql("SELECT count(*) FROM hold") == ["0"])
        # Payments use payment tokens that are signed a second after the fence, as soon as the window admits them.
        signed = int(ledger.sql("SELECT restore_fence FROM ledger_state")[0]) // 1000 + 1
        time.sleep(max(0.0, signed - WINDOW - time.time()))
        repaired = time.monotonic()
        moment = datetime.datetime.fromtimestamp(signed, datetime.timezone.utc)
        self.payments.mint("--signing-time", moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self.lost += lost
        return Event(struck, repaired, repaired, f"{len(lost)} releases lost")

    def _accept(self):
        """Requests the acceptance as one person, and approves it as another one on another host. If the staff cannot act as
        several persons here, root accepts alone."""
        first, second = (self.daemons[node].daemon for node in self.nodes[:2])
        asking = ["ledger", "accept-restore", "--reason", "both servers lost"]
        if not can_be_several():
            first.ctl(*asking)
            return
        asked = as_person("alice", first, *asking)
        if asked.returncode != 75:
            raise service.Failed(f"accept-restore: exit {asked.returncode}: {asked.stderr.decode()}")
        listed = json.loads(as_person("bob", second, "approval", "list", "--output", "json").stdout)["items"]
        approval, = (each["approval"] for each in listed if each["status"] == "pending")
        approved = as_person("bob", second, "approval", "approve", approval)
        if approved.returncode != 0:
            raise service.Failed(f"approval approve: exit {approved.returncode}: {approved.stderr.decode()}")


def rules():
    """Returns the configuration's access section for the security team."""
    return "".join(f'  - {{ name: {name}, user: "{number}", roles: [admin, audit] }}\n' for name, number in STAFF.items())


def can_be_several():
    return os.geteuid() == 0


def as_person(name, daemon, *arguments):
    """Runs paytokenctl as one person of the security team."""
    number = str(STAFF[name])
    command = ["setpriv", "--reuid", number, "--regid", number, "--clear-groups", "paytokenctl", *arguments]
    with open("/proc/self/loginuid") as file:
        if file.read() != str(2**32 - 1):
            # Sets the login uid. Otherwise both would count as the person who is logged in on this machine.
            command = ["sh", "-c", f'echo {number} >/proc/self/loginuid && exec "$@"', "sh", *command]
    return subprocess.run(command, env=daemon.environment, capture_output=True)


def all_connections(server):
    """Opens connections, without a superuser's rights, until the server refuses more."""
    words = b"user\0" + database.OWNER.encode() + b"\0database\0ledger\0\0"
    startup, taken = struct.pack("!ii", len(words) + 8, 3 << 16) + words, []
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(service.GUARD)
        connection.connect(f"{server.directory}/.s.PGSQL.{database.PORT}")
        connection.sendall(startup)
        # Each message has a type, a length and a content. The loop ends when the server is ready for a query (Z) or reports an
        # error (E).
        kind = b""
        with connection.makefile("rb") as answer:
            while kind not in (b"Z", b"E") and (head := answer.read(5)):
                kind = head[:1]
                answer.read(int.from_bytes(head[1:], "big") - 4)
        if kind != b"Z":
            connection.close()
            return taken
        taken.append(connection)
