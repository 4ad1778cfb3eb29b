"""A PostgreSQL primary and its synchronous standby, which exchange roles. Each has a separate host in a network."""
import os
import pathlib
import shutil
import subprocess

import database
import logged_disk
import service

# The setting names both servers. A commit is acknowledged once the server that is not the primary has it too.
STANDBYS = "FIRST 1 (one, other)"
# The sessions suffice for four of each daemon and for administrators, and are so few that a flood soon takes them all.
CONNECTIONS = 40
SETTINGS = {
    # pg_rewind needs the hints. A standby that was away finds the missed part of the log in the kept WAL.
    "wal_log_hints": "on", "wal_keep_size": "64MB", "max_wal_size": "160MB", "min_wal_size": "48MB",
    "max_connections": CONNECTIONS, "shared_buffers": "32MB",
    # The servers notice a lost partner after three seconds, and soon try to reach it again.
    "wal_sender_timeout": "3s", "wal_receiver_timeout": "3s", "wal_retrieve_retry_interval": "200ms",
    # A slow disk would take minutes for a flush of each file.
    "recovery_init_sync_method": "syncfs",
}
# Nothing here loses what the kernel keeps, so copies need no flush.
NO_SYNC = "--no-sync"


class Member(database.Server):
    """One of the two servers.

    size: the bytes of a separate file system for its data, if the run may mount one. may_slow: that is on a disk that can be slow.
    """

    def __init__(self, name, network, size=None, may_slow=False):
        super().__init__()
        self.name, self.network, self.partner, self.disk, self.slow = name, network, None, None, None
        place = f"{self.directory}/disk"
        os.makedirs(place)
        if size and self.account and os.environ.get("SOAK_OWN_MOUNTS"):
            self.disk = place
            if may_slow:
                self.slow = logged_disk.Disk(f"{self.directory}/slow", place, size, logs=False).__enter__()
            else:
                service.run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "soak", place)
        if self.account:
            os.chown(place, self.account.pw_uid, self.account.pw_gid)
        self.data = f"{place}/data"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process is not None and self.process.poll() is None:
            service.go_on(service.family(self.process.pid))
            self.kill()
        if self.slow:
            self.slow.__exit__()
        elif self.disk:
            # Unmounts lazily, because the server may still have files open.
            subprocess.run(["umount", "--lazy", self.disk], check=False)
        super().__exit__(*error)

    def _command(self, name, *arguments):
        return [*self.network.within(self.name), *super()._command(name, *arguments)]

    def execute(self, name, *arguments):
        """Runs a program, by default one of PostgreSQL's, under the server's account on its host."""
        return service.run(*self._command(name, *arguments), cwd=self.directory)

    @property
    def host(self):
        """Returns the host name or directory that clients use."""
        return self.network.addresses.get(self.name, self.directory)

    def create(self):
        self.execute("initdb", "-D", self.data, "-A", "trust", "-U", database.SUPERUSER, "-E", "UTF8", "--locale=C")
        with open(f"{self.data}/pg_hba.conf", "a") as file:
            file.write("host all all 10.77.0.0/16 trust\nhost replication all 10.77.0.0/16 trust\n")
        # These settings are in the file, because pg_rewind also starts the server.
        with open(f"{self.data}/postgresql.conf", "a") as file:
            file.write("".join(f"{name} = '{value}'\n" for name, value in SETTINGS.items()))
        self.start()
        for role in (database.OWNER, database.DAEMON):
            self.sql(f"CREATE ROLE {role} LOGIN")

    def start(self):
        """Starts the server. It is its partner's standby if its directory contains standby.signal, otherwise the primary."""
        self.settings = [f"listen_addresses={'*' if self.network.addresses else ''}",
                         f"cluster_name={self.name}", (f"primary_conninfo=host={self.partner.host} "
                         f"port={database.PORT} user={database.SUPERUSER} application_name={self.name} connect_timeout=3 "
                         "tcp_user_timeout=3000")]
        super().start()

    def kill(self):
        """Kills the server as if its host had lost power."""
        if self.process.poll() is None:
            service.end(self.process.pid)
        self.process.wait()

    def freeze(self):
        """Stops all its processes. Returns the argument for go_on."""
        return service.stop(self.process.pid)

    def is_running(self):
        return self.process.poll() is None

    def revive(self):
        """Starts the server if it has exited. Returns when it accepts connections."""
        def serves():
            if not self.is_running():
                self.start()
            return self.try_sql("SELECT 1")
        service.wait("the server", serves, pause=0.1)

    def try_sql(self, statement):
        """Returns True if the statement succeeded."""
        try:
            return bool(self.sql(statement))
        except service.Failed:
            return False

    def copy(self, place):
        """Makes a base backup."""
        # A busy machine may let it wait for longer than a standby may.
        self.execute("pg_basebackup", "-D", place, "-c", "fast", "-X", "stream", NO_SYNC, "-d",
                     f"host={self.directory} port={database.PORT} user={database.SUPERUSER} options='-c wal_sender_timeout=0'")

    def follow(self, is_fresh=False):
        """Starts the server as its partner's standby, after pg_rewind if the partner's history allows that, otherwise on a fresh
        copy. Returns the name of the method."""
        how = "rewound"
        if not is_fresh:
            try:
                # The partner's control file must already contain its promotion.
                self.partner.sql("CHECKPOINT")
                self.execute("pg_rewind", NO_SYNC, "-D", self.data, "--source-server",
                             f"host={self.partner.directory} port={database.PORT} user={database.SUPERUSER} dbname=postgres")
            except service.Failed:
                is_fresh = True
        if is_fresh:
            how = "copied"
            shutil.rmtree(self.data, ignore_errors=True)
            self.partner.copy(self.data)
        self.execute("touch", f"{self.data}/standby.signal")
        self.start()
        return how

    def lag(self):
        """Returns the bytes of the write-ahead log that the server, a standby, has received and not replayed."""
        return int(self.sql("SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())::bigint")[0])

    def fill(self):
        """Fills its file system."""
        service.fill(f"{self.disk}/filler")

    def empty(self):
        pathlib.Path(f"{self.disk}/filler").unlink()


class Cluster(service.Contexts):
    """A primary and its standby with a ledger. A context manager."""

    NAMES = ["one", "other"]

    def __init__(self, network, size=None, may_slow=False):
        super().__init__()
        self.network = network
        self.primary, self.standby = (Member(name, network, size, may_slow) for name in self.NAMES)
        self.primary.partner, self.standby.partner = self.standby, self.primary
        self.members, self.ledger = [self.primary, self.standby], None

    def begin(self):
        for member in self.members:
            self.enter_context(member)
        self.primary.create()
        self.ledger = self.primary.ledger("ledger")
        # The setting takes effect later, when the standby exists. The standby gets it with its copy of the data.
        self.primary.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBYS}'")
        self.standby.follow(is_fresh=True)
        self.primary.sql("SELECT pg_reload_conf()")
        self.wait_for_standby()

    @property
    def hosts(self):
        """Returns the hosts as ledger.url names them."""
        return ",".join(member.host for member in self.members)

    def wait_for_standby(self):
        """Waits until the standby acknowledges commits."""
        service.wait("the standby", self.has_standby)

    def has_standby(self):
        return self.primary.try_sql("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'")

    def require_standby(self, is_required):
        """Makes the primary acknowledge commits only once the standby has them, or, if `is_required` is false, alone."""
        self.primary.sql("ALTER SYSTEM SET synchronous_standby_names = " + (f"'{STANDBYS}'" if is_required else "''"))
        self.primary.sql("SELECT pg_reload_conf()")

    def promote(self):
        """Makes the standby the primary, regardless of the other server's state."""
        self.primary, self.standby = self.standby, self.primary
        self.ledger.server = self.primary
        if self.primary.sql("SELECT pg_promote(true, 120)") != ["t"]:
            raise service.Failed("the standby was not promoted")

    def rejoin(self, is_fresh=False):
        """Makes the old primary, which is not running, the standby. Returns the name of the method, as `follow` does."""
        how = self.standby.follow(is_fresh)
        self.wait_for_standby()
        return how

    def restore(self, backup):
        """Replaces the primary's data with the copy. Neither server may be running. Commits are acknowledged once the standby has
        rejoined from a fresh copy."""
        shutil.rmtree(self.primary.data)
        self.primary.execute("cp", "-a", backup, self.primary.data)
        self.primary.start()
