"""A PostgreSQL primary and its synchronous standby, which change places. Each has a host of its own in a network."""
import contextlib
import os
import pathlib
import shutil
import subprocess

import database
import service

# Both: whichever of them is the primary, the other one must have a commit before it is acknowledged.
STANDBYS = "FIRST 1 (one, other)"
# Its sessions: four a daemon, those of people, and room for a flood that is soon there.
CONNECTIONS = 40
SETTINGS = {
    # For pg_rewind, and so that a standby that was away finds what it has missed.
    "wal_log_hints": "on", "wal_keep_size": "64MB", "max_wal_size": "160MB", "min_wal_size": "48MB",
    "max_connections": CONNECTIONS, "shared_buffers": "32MB",
    # A partner that has gone is given up and looked for again soon.
    "wal_sender_timeout": "3s", "wal_receiver_timeout": "3s", "wal_retrieve_retry_interval": "200ms",
}


class Member(database.Server):
    """One of the two servers.

    size: of a file system of its own for its data, where one can be mounted.
    """

    def __init__(self, name, network, size=None):
        super().__init__()
        self.name, self.network, self.partner, self.disk = name, network, None, None
        os.makedirs(f"{self.directory}/disk")
        if size and self.account and os.environ.get("SOAK_OWN_MOUNTS"):
            self.disk = f"{self.directory}/disk"
            service.run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0755,uid={self.account.pw_uid},"
                        f"gid={self.account.pw_gid}", "soak", self.disk)
        elif self.account:
            os.chown(f"{self.directory}/disk", self.account.pw_uid, self.account.pw_gid)
        self.data = f"{self.directory}/disk/data"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process is not None and self.process.poll() is None:
            service.go_on(service.family(self.process.pid))
        if self.disk:
            # Lazily: what the server still has open goes with it.
            subprocess.run(["umount", "--lazy", self.disk], check=False)
        super().__exit__(*error)

    def _command(self, name, *arguments):
        return [*self.network.within(self.name), *super()._command(name, *arguments)]

    def execute(self, name, *arguments):
        """Runs one of PostgreSQL's programs, or another, as the server's account on its host."""
        return service.run(*self._command(name, *arguments), cwd=self.directory)

    @property
    def host(self):
        """Where clients find it."""
        return self.network.addresses.get(self.name, self.directory)

    def create(self):
        self.execute("initdb", "-D", self.data, "-A", "trust", "-U", database.SUPERUSER, "-E", "UTF8", "--locale=C")
        with open(f"{self.data}/pg_hba.conf", "a") as file:
            file.write("host all all 10.77.0.0/16 trust\nhost replication all 10.77.0.0/16 trust\n")
        # Where pg_rewind finds them too, which starts the server by itself.
        with open(f"{self.data}/postgresql.conf", "a") as file:
            file.write("".join(f"{name} = '{value}'\n" for name, value in SETTINGS.items()))
        self.start()
        for role in (database.OWNER, database.DAEMON):
            self.sql(f"CREATE ROLE {role} LOGIN")

    def start(self):
        """As a primary, or as its partner's standby when its directory says so."""
        self.settings = [f"listen_addresses={'*' if self.network.addresses else ''}",
                         f"cluster_name={self.name}", f"primary_conninfo=host={self.partner.host} "
                         f"port={database.PORT} user={database.SUPERUSER} application_name={self.name} connect_timeout=3 "
                         "tcp_user_timeout=3000"]
        super().start()

    def kill(self):
        """As a host that loses its power."""
        if self.process.poll() is None:
            service.end(self.process.pid)
        self.process.wait()

    def freeze(self):
        """Everything of it stands still. Returns what go_on wants."""
        return service.stop(self.process.pid)

    def is_running(self):
        return self.process.poll() is None

    def revive(self):
        """Starts it where it has ended by itself; returns when it takes connections."""
        def serves():
            if not self.is_running():
                self.start()
            return self.try_sql("SELECT 1")
        service.wait("the server", serves, pause=0.1)

    def try_sql(self, statement):
        """Says whether it was done."""
        try:
            return bool(self.sql(statement))
        except service.Failed:
            return False

    def copy(self, place):
        """A base backup of it."""
        self.execute("pg_basebackup", "-D", place, "-h", self.directory, "-p", database.PORT, "-U", database.SUPERUSER,
                     "-c", "fast", "-X", "stream")

    def follow(self, anew=False):
        """Starts as the partner's standby: on what it has, as far as that is the partner's past, or on a fresh copy. Says
        which."""
        how = "rewound"
        if not anew:
            try:
                # The partner's control file must tell of its promotion already.
                self.partner.sql("CHECKPOINT")
                self.execute("pg_rewind", "-D", self.data, "--source-server",
                             f"host={self.partner.directory} port={database.PORT} user={database.SUPERUSER} dbname=postgres")
            except service.Failed:
                anew = True
        if anew:
            how = "copied"
            shutil.rmtree(self.data, ignore_errors=True)
            self.partner.copy(self.data)
        self.execute("touch", f"{self.data}/standby.signal")
        self.start()
        return how

    def fill(self):
        """Takes all the room on its file system."""
        status = os.statvfs(self.disk)
        with open(f"{self.disk}/filler", "ab") as file:
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, status.f_bavail * status.f_frsize or 1)

    def empty(self):
        pathlib.Path(f"{self.disk}/filler").unlink()


class Cluster(service.Contexts):
    """Primary and standby with a ledger. A context."""

    NAMES = ["one", "other"]

    def __init__(self, network, size=None):
        super().__init__()
        self.network = network
        self.primary, self.standby = (Member(name, network, size) for name in self.NAMES)
        self.primary.partner, self.standby.partner = self.standby, self.primary
        self.members, self.ledger = [self.primary, self.standby], None

    def begin(self):
        for member in self.members:
            self.enter_context(member)
        self.primary.create()
        self.ledger = self.primary.ledger("ledger")
        # In force once there is a standby, which gets it with the copy.
        self.primary.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBYS}'")
        self.standby.follow(anew=True)
        self.primary.sql("SELECT pg_reload_conf()")
        self.wait_for_standby()

    @property
    def hosts(self):
        """As ledger.url names them."""
        return ",".join(member.host for member in self.members)

    def wait_for_standby(self):
        """Until commits are acknowledged by it."""
        service.wait("the standby", self.has_standby)

    def has_standby(self):
        return self.primary.try_sql("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'")

    def promote(self):
        """The standby becomes the primary, whatever has become of the other one."""
        self.primary, self.standby = self.standby, self.primary
        self.ledger.server = self.primary
        if self.primary.sql("SELECT pg_promote(true, 120)") != ["t"]:
            raise service.Failed("the standby was not promoted")

    def rejoin(self, anew=False):
        """The old primary, which does not run, becomes the standby. Says how."""
        how = self.standby.follow(anew)
        self.wait_for_standby()
        return how

    def restore(self, backup):
        """The copy takes the place of the primary's data, as it was made. Neither server runs before. Nothing is acknowledged
        until the standby is there: it rejoins, anew."""
        shutil.rmtree(self.primary.data)
        self.primary.execute("cp", "-a", backup, self.primary.data)
        self.primary.start()
