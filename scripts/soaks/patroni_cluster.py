"""The same two servers, managed by Patroni and etcd with synchronous_mode_strict, from Debian's packages."""
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

import cluster
import database
import outages
import service

PACKAGES = {"patroni": "patroni", "etcd": "etcd-server", "curl": "curl"}
# The host of etcd.
STORE = "store"
# Seconds without a sign of life after which another member leads; Patroni accepts no less.
TTL = 20


def missing():
    """Returns the packages that are missing."""
    return [package for program, package in PACKAGES.items() if shutil.which(program) is None]


class Member(cluster.Member):
    """A host with PostgreSQL and the Patroni that starts it, promotes it and makes it rejoin."""

    def configuration(self):
        # Every JSON document is YAML.
        return json.dumps({
            "scope": "soak", "name": self.name,
            "restapi": {"listen": f"{self.host}:8008", "connect_address": f"{self.host}:8008"},
            "etcd3": {"hosts": [f"{self.network.addresses[STORE]}:2379"]},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL, "loop_wait": 1, "retry_timeout": 3, "maximum_lag_on_failover": 1 << 20,
                    "synchronous_mode": True, "synchronous_mode_strict": True,
                    "postgresql": {"use_pg_rewind": True, "parameters": cluster.SETTINGS}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}]},
            "postgresql": {
                "listen": f"0.0.0.0:{database.PORT}", "connect_address": f"{self.host}:{database.PORT}",
                "data_dir": self.data, "bin_dir": os.path.dirname(database.program("postgres")),
                "pgpass": f"{self.directory}/disk/pgpass", "basebackup": [{"checkpoint": "fast"}],
                "authentication": {role: {"username": database.SUPERUSER, "password": "trusted"}
                                   for role in ("superuser", "replication", "rewind")},
                "pg_hba": ["local all all trust", *[f"host {what} all {network} trust" for what in ("all", "replication")
                                                    for network in ("127.0.0.1/32", "10.77.0.0/16")]],
                "parameters": {"unix_socket_directories": self.directory}}})

    def start(self):
        """Starts Patroni, which then starts PostgreSQL. Returns at once."""
        file = f"{self.directory}/patroni.yaml"
        with open(file, "w") as written:
            written.write(self.configuration())
        os.chmod(file, 0o644)
        self.command = self._command("patroni", file)
        self.spawn(cwd=self.directory)

    def ask(self, path, *words):
        """Returns True if this member's Patroni answers with success."""
        return subprocess.run([*self.network.within(self.name), "curl", "--silent", "--fail", "--output", "/dev/null", *words,
                               f"http://{self.host}:8008/{path}"]).returncode == 0

    def server(self):
        """Returns PostgreSQL's main process, which is not a child of Patroni, or None if PostgreSQL is not running."""
        with contextlib.suppress(OSError, IndexError, ValueError):
            with open(f"{self.data}/postmaster.pid") as file:
                process = int(file.readline())
            return process if service.is_running(process) else None
        return None

    def kill(self):
        if self.process.poll() is None:
            service.end(self.process.pid)
        self.process.wait()
        if server := self.server():
            service.end(server)

    def freeze(self):
        stopped = service.stop(self.process.pid)
        server = self.server()
        return stopped + (service.stop(server) if server else [])

    def is_primary(self):
        with contextlib.suppress(service.Failed):
            return self.server() is not None and self.sql("SELECT pg_is_in_recovery()") == ["f"]
        return False

    def __exit__(self, *error):
        if self.process is not None:
            self.kill()
        super().__exit__(*error)


class Cluster(cluster.Cluster):
    """Two servers of which Patroni chooses the primary."""

    def __init__(self, network, size=None, may_slow=False):
        service.Contexts.__init__(self)
        self.network, self.ledger = network, None
        self.members = [Member(name, network) for name in self.NAMES]

    def begin(self):
        self.place = tempfile.mkdtemp(prefix="paytokend-store.")
        self.callback(shutil.rmtree, self.place, ignore_errors=True)
        address = f"http://{self.network.addresses[STORE]}"
        store = service.Program(
            None, *self.network.within(STORE), "setpriv", "--pdeathsig", "KILL", "etcd", "--data-dir", f"{self.place}/data",
            "--listen-client-urls", f"{address}:2379", "--advertise-client-urls", f"{address}:2379",
            "--listen-peer-urls", f"{address}:2380", "--initial-advertise-peer-urls", f"{address}:2380",
            "--initial-cluster", f"default={address}:2380", log=f"{self.place}/log")
        store.spawn()
        self.enter_context(store)
        for member in self.members:
            self.enter_context(member)
            member.start()
        self.find_primary()
        self.wait_for_standby()
        for role in (database.OWNER, database.DAEMON):
            self.primary.sql(f"CREATE ROLE {role} LOGIN")
        self.ledger = self.primary.ledger("ledger")

    def has_standby(self):
        """Returns True if Patroni knows the standby as synchronous, without which it would not promote it. The leader may change
        at any time, because Patroni restarts a server whose state is uncertain."""
        self.find_primary()
        return super().has_standby() and self.standby.ask("synchronous")

    def find_primary(self, other_than=None):
        """Waits until there is a primary."""
        found = []

        def look():
            found[:] = [member for member in self.members if member is not other_than and member.is_primary()]
            return len(found) == 1
        service.wait("a primary", look)
        self.primary, = found
        self.standby, = [member for member in self.members if member is not self.primary]
        if self.ledger:
            self.ledger.server = self.primary

    def wait_for_leader(self):
        """Waits until the primary's Patroni reports that it leads. The server accepts writes slightly earlier."""
        service.wait("Patroni's leader", lambda: self.primary.ask("leader"))


class Outages(outages.Outages):
    """Faults that Patroni has to handle."""

    FAULTS = ["leader-killed", "switchover", "stopped-leader"]

    def leader_killed(self):
        """Kills the primary and its Patroni with SIGKILL, and starts them again when the other member leads."""
        old = self.cluster.primary
        old.kill()
        struck = time.monotonic()
        self.cluster.find_primary(other_than=old)
        led = time.monotonic() - struck
        old.start()
        self.cluster.wait_for_standby()
        return outages.Event(struck, time.monotonic(), struck, f"another one led after {led:.1f} s")

    def switchover(self):
        old, struck = self.cluster.primary, time.monotonic()
        if not old.ask("switchover", "--data", json.dumps({"leader": old.name, "candidate": self.cluster.standby.name})):
            raise service.Failed("Patroni refused the switchover")
        self.cluster.find_primary(other_than=old)
        led = time.monotonic() - struck
        self.cluster.wait_for_standby()
        repaired = time.monotonic()
        return outages.Event(struck, repaired, repaired, f"another one led after {led:.1f} s")

    def stopped_leader(self):
        """Stops all processes of the primary's host (SIGSTOP) until another member leads, and then lets them continue."""
        old = self.cluster.primary
        stopped = old.freeze()
        struck = time.monotonic()
        self.cluster.find_primary(other_than=old)
        led = time.monotonic() - struck
        self.cluster.wait_for_leader()
        service.go_on(stopped)
        what, until = f"another one led after {led:.1f} s", time.monotonic() + 3 * TTL
        while not self.cluster.has_standby() and time.monotonic() < until:
            time.sleep(0.2)
        if not self.cluster.has_standby():
            # The old leader may get the lock back while the other member is being promoted. The other member then has a newer
            # timeline, which pg_rewind before PostgreSQL 16 does not detect. It has to be copied again, as an administrator would
            # do with `patronictl reinit`.
            self.cluster.standby.ask("reinitialize", "--data", '{"force": true}')
            what += "; the standby was copied again by hand"
        self.cluster.wait_for_standby()
        return outages.Event(struck, time.monotonic(), struck, what)
