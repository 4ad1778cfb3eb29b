"""A PostgreSQL server for one run, and ledgers in it."""
import glob
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import proof
import service

# The superuser that initdb makes, the owner of the tables, and the daemon's role.
SUPERUSER, OWNER, DAEMON = "postgres", "ledger_owner", "paytokend"
PORT = 5432


def program(name):
    """Returns the path of the newest installed version of a program, which Debian installs outside PATH, or None."""
    found = glob.glob(f"/usr/lib/postgresql/*/bin/{name}")
    return max(found, key=lambda path: int(path.split("/")[4])) if found else shutil.which(name)


def is_installed():
    return program("postgres") is not None


def account():
    """Returns the account under which the server's programs run if this program runs as root, because the server refuses to run
    as root. Returns None for an ordinary user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise service.Failed("there is no account postgres or nobody for a database server")


class Server(service.Program):
    """A server on a Unix socket, in a directory next to this one on the same file system. It is durable, has default settings and
    no standby. A context manager, which ends the server and removes the directory.

    settings: of postgresql.conf, `name=value`. kept: a directory's name; what an earlier run left in it continues, and it is not
    removed.
    """

    def __init__(self, settings=(), kept=None):
        self.settings, self.kept, self.account = list(settings), kept, account()
        # The server's account cannot enter this directory, so the server has another one.
        place = pathlib.Path.cwd().parent
        self.directory = str(place / kept) if kept else tempfile.mkdtemp(prefix="paytokend-database.", dir=place)
        os.makedirs(self.directory, exist_ok=True)
        os.chmod(self.directory, 0o755)
        if self.account:
            os.chown(self.directory, self.account.pw_uid, self.account.pw_gid)
        self.data = f"{self.directory}/data"
        super().__init__(f"{self.directory}/.s.PGSQL.{PORT}", log=f"{self.directory}/server.log")

    def __enter__(self):
        try:
            if os.path.exists(self.data):
                self.start()
                return self
            service.run(*self._command("initdb", "-D", self.data, "-A", "trust", "-U", SUPERUSER, "-E", "UTF8", "--locale=C"),
                        cwd=self.directory)
            self.start()
            for role in (OWNER, DAEMON):
                self.sql(f"CREATE ROLE {role} LOGIN")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        if self.process is not None:
            Server.kill(self)
        if not self.kept:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _command(self, name, *arguments):
        """Returns a command that runs a program under the server's account. The kernel sends it SIGQUIT if this program ends
        first."""
        found = program(name)
        if found is None:
            raise service.Failed(f"{name} is not installed; scripts/install-packages installs it")
        other = [f"--reuid={self.account.pw_uid}", f"--regid={self.account.pw_gid}", "--clear-groups"] if self.account else []
        return ["setpriv", *other, "--pdeathsig", "QUIT", found, *arguments]

    def start(self):
        """Returns when the server accepts connections."""
        settings = ["listen_addresses=", f"unix_socket_directories={self.directory}", f"port={PORT}",
                    "log_min_messages=warning", *self.settings]
        self.command = self._command("postgres", "-D", self.data, *[word for setting in settings for word in ("-c", setting)])
        # Ctrl-C must not end the server before its clients.
        self.spawn(cwd=self.directory, start_new_session=True)
        asking = [program("pg_isready"), "-q", "-h", self.directory, "-p", str(PORT)]
        service.wait("PostgreSQL", lambda: self.must_run() and subprocess.run(asking).returncode == 0, pause=0.02)

    def kill(self):
        """Sends SIGQUIT. Its clients lose their connections as suddenly as after SIGKILL, and all of the server's processes
        end."""
        self.process.send_signal(3)
        self.process.wait()

    def cpu(self):
        """Returns the processor time of its processes in seconds."""
        return service.family_time(self.process.pid)

    def url(self, database, user, directory=None):
        """Returns the URL of a database. directory: that of the socket at which a relay to the server listens."""
        return f"postgresql://{user}@/{database}?host={directory or self.directory}&port={PORT}"

    def sql(self, statement, database="postgres"):
        """Runs a statement as the superuser. Returns psql's output, one row a line."""
        return service.run(program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d",
                           self.url(database, SUPERUSER), "-c", statement).decode().splitlines()

    def ledger(self, name):
        """Makes a new ledger in a separate database."""
        self.sql(f"CREATE DATABASE {name} OWNER {OWNER}")
        service.run("paytokenctl", "ledger", "create", self.url(name, OWNER), "--grant", DAEMON)
        return Ledger(self, name)


class Ledger:
    """A database in which `paytokenctl ledger create` has made the tables."""

    def __init__(self, server, name):
        self.server, self.name = server, name

    def sql(self, statement):
        return self.server.sql("SET search_path = paytokend; " + statement, self.name)

    def settings(self, node, directory=None, roles=service.ROLES, with_google=False, **more):
        """Returns a daemon's `ledger` section, and its `access` section, which gives roles (service.access_rules). directory: that
        of the socket at which a relay to the server listens."""
        url = self.server.url(self.name, DAEMON, directory)
        lines = {"url": f'"{url}"', "node": node, **more}
        return ("ledger:\n" + "".join(f"  {option}: {value}\n" for option, value in lines.items())
                + service.access_rules(roles, with_google))

    def lines(self):
        """Returns the stored lines of all nodes' records, in order."""
        return self.sql("SELECT convert_from(line, 'UTF8') FROM audit_record ORDER BY node, sequence")

    def transaction_amid(self):
        """Returns the transactionId of a record in the middle."""
        return self.sql("SELECT encode(transaction_id, 'hex') FROM audit_record WHERE transaction_id IS NOT NULL AND "
                        "sequence >= (SELECT max(sequence) / 2 FROM audit_record) ORDER BY sequence LIMIT 1")[0]

    def first_record(self):
        """Returns the sequence of the oldest record in the ledger."""
        return self.number("SELECT min(sequence) FROM audit_record")

    def number(self, statement):
        """Returns the only value of a query."""
        return int(self.sql(statement)[0])

    def size(self):
        """Returns the size in bytes."""
        return self.number(f"SELECT pg_database_size('{self.name}')")

    def log_size(self):
        """Returns the size in bytes of the write-ahead log."""
        return self.number("SELECT sum(size)::bigint FROM pg_ls_waldir()")

    def parts(self):
        """Returns the size in bytes of each table and index, by name."""
        return proof.parts(self.sql("SELECT relname || ' ' || pg_relation_size(oid) FROM pg_class WHERE relkind IN ('r', 'i') "
                                    "AND relnamespace = 'paytokend'::regnamespace"))

    def claims(self):
        """Returns the claims, as proof.LedgerFile does."""
        return proof.claims(self.sql("SELECT encode(transaction_id, 'hex') || ' ' || node || ' ' || "
                                     "coalesce(encode(message_claim, 'hex'), '') FROM claim"))
