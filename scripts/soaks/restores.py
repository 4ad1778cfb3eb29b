"""Runs the articles' commands for backups and restores on machines that lose their data. scripts/test-restore calls it."""
import datetime
import itertools
import json
import os
import pathlib
import shutil
import time

import load
import machines
import service

ARTICLES = machines.REPOSITORY / "Sources/Daemon/Daemon/Documentation.docc"
MODULE = os.environ["SOAK_MODULE"]
# The signing-time window in seconds. It is so wide that no payment token of the run leaves it, and every refusal comes from the
# ledger. Payment tokens for the time after a restore are signed in the future, after the fence.
WINDOW = 86_400
SERVER = "db1.example"


def block(name, script="test-restore"):
    """Returns an article's fenced block, which follows the comment with the name of the block and the script. Today's date
    replaces the article's."""
    mark = f"<!-- scripts/{script} runs this as {name} -->\n```sh\n"
    found = {text.partition(mark)[2].partition("\n```\n")[0] for article in ARTICLES.glob("*.md")
             if mark in (text := article.read_text())}
    if len(found) != 1:
        raise service.Failed(f"the articles have {len(found)} different blocks marked as {name}")
    return found.pop().replace("2026-01-31", datetime.date.today().isoformat())


def done(text):
    print(f"ok  {text}", flush=True)


def require(holds, what, *values):
    if not holds:
        raise service.Failed(f"{what}: {' '.join(map(str, values))}")


class Host(machines.Machine):
    """A host with paytokend and a SoftHSM token. ledger: the configuration's section."""

    def __init__(self, name, ledger, is_new=True):
        super().__init__(name, ["paytokend"])
        self.socket = str(self.path("/run/paytokend/paytokend.sock"))
        self.write("/etc/hosts", f"127.0.0.1 localhost {SERVER}\n")
        # The host has the files of the package and of its administrator, but trusts the tests' authority instead of Apple.
        shutil.copy("authority/root.pem", self.path("/etc/ssl/certs/test-root.pem"))
        for directory in ("/backup", "/safe"):
            self.path(directory).mkdir(mode=0o700)
        if not is_new:
            return
        for file in ("pin", "so-pin"):
            self.write(f"/etc/paytokend/{file}", pathlib.Path(file).read_text(), owner="paytokend", mode=0o600)
        shutil.copy(machines.REPOSITORY / "hsm-config/softhsm2.conf", self.path("/etc/paytokend/softhsm2.conf"))
        self.write("/etc/paytokend/paytokend.yaml", f"""listener: {{ group: paytokend-socket }}
tokens:
  - name: primary
    module: {MODULE}
    uri: "pkcs11:token=paytokend"
    pin_file: /etc/paytokend/pin
    allow_extractable_secret: true
    environment: {{ SOFTHSM2_CONF: /etc/paytokend/softhsm2.conf }}
trust: {{ roots: [/etc/ssl/certs/test-root.pem] }}
verification: {{ signing_time_window: {WINDOW // 3600}h }}
{ledger}
access:
  - {{ name: root, user: root, roles: [decrypt, admin, audit] }}
log: {{ format: text }}
""")

    def set_up(self):
        """Makes an HSM token, the daemon, and a merchant's key."""
        self.type(f"""runuser -u paytokend -- env --chdir=/ SOFTHSM2_CONF=/etc/paytokend/softhsm2.conf paytokenctl token init \\
            --module {MODULE} --label paytokend --so-pin-file /etc/paytokend/so-pin --pin-file /etc/paytokend/pin
            systemctl start paytokend.service
            until paytokenctl status >/dev/null; do sleep 0.1; done""")
        for file in ("merchant.key.pem", "merchant.pem"):
            shutil.copy(f"authority/{file}", self.path(f"/root/{file}"))
        self.type("paytokenctl key import --private-key /root/merchant.key.pem --certificate /root/merchant.pem")

    def pay(self, payment, reference=None):
        """Returns the status, and the answer's code or `repeated`."""
        status, body = load.once(self.socket, load.decrypt(payment.token, (reference or payment.reference).encode()))
        answer = json.loads(body) if body else {}
        return status, answer.get("repeated") if status == 200 else answer.get("code")

    def waits_for_acceptance(self):
        """Waits until the daemon reports the missing acceptance as its only reason not to be ready."""
        service.wait("the wait for an acceptance", lambda: "accept-restore" in self.try_to_type("paytokenctl status")[1])

    def ends_with(self, exit_status):
        """Starts its daemon, which must exit by itself with this status, at once or after it has compared ledger and HSM
        token."""
        self.try_to_type("systemctl start paytokend.service")
        ended = self.path("/run/paytokend.ended")
        service.wait(f"the end of the daemon of {self.name}", ended.exists)
        require(ended.read_text() == str(exit_status), f"{self.name} should have ended with {exit_status}, and ended with",
                ended.read_text())


class Payment:
    """A payment token and the reference of its requests."""
    count = 0

    def __init__(self, token):
        Payment.count += 1
        self.token, self.reference = token, f"order-{Payment.count}"


def mint(count, signed=None):
    """signed: seconds since 1970."""
    moment = datetime.datetime.fromtimestamp(signed or time.time(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [Payment(token) for token in service.mint(count, "--signing-time", moment)]


class Shop:
    """Releases payments, and checks whether they are released again. hosts: the hosts to which requests go in turn."""

    def __init__(self, hosts):
        self.hosts, self.fence = hosts, None

    def release(self, count=4):
        """Releases fresh payment tokens, each once. After an accepted restore, they are signed after the fence."""
        payments = mint(count, self.fence)
        for number, payment in enumerate(payments):
            host, answer = self.hosts[number % len(self.hosts)], None

            def is_answered():
                nonlocal answer
                answer = host.pay(payment)
                # The payment token's signing time is still in the future, or a host does not know the acceptance yet.
                return answer[1] not in ("signing_time_outside_window", "ledger_unavailable", "hsm_unavailable")
            service.wait("a release", is_answered)
            require(answer == (200, False), f"{host.name}: a fresh payment", *answer)
        return payments

    def _must_answer(self, payments, what, wanted, reference=None):
        for payment, host in itertools.product(payments, self.hosts):
            answer = host.pay(payment, reference)
            require(answer == wanted, f"{host.name}: {what}", *answer)

    def is_held(self, *payments):
        """Checks that the hosts release neither fresh payment tokens nor released ones."""
        self._must_answer([*mint(2), *payments], "a held ledger", (503, "ledger_unavailable"))

    def is_kept(self, payments):
        """Checks that each payment is repeated with its reference and refused with another."""
        self._must_answer(payments, "a released payment repeated", (200, True))
        self._must_answer(payments, "a replay", (409, "transaction_replayed"), "other")

    def is_forgotten(self, payments):
        """Checks that each payment, whose release the ledger no longer contains, is refused with any reference."""
        for reference in (None, "other"):
            self._must_answer(payments, "a forgotten payment", (409, "transaction_replayed"), reference)

    def accepted(self, count=1):
        """Reads the fence from the records, and verifies the records. Each host's record must contain this number of acceptances,
        and the record of the host that accepted has the fence's time."""
        fences = []
        for host in self.hosts:
            found = []

            def has_record():
                found[:] = [entry for entry in json.loads(host.type("paytokenctl audit list --limit 10000 --output json"))
                            if entry["event"] == "ledger_accept_restore"]
                return len(found) == count
            service.wait(f"the acceptance on {host.name}", has_record)
            fences += [entry["servedFrom"] for entry in found if "servedFrom" in entry]
        self.fence = int(datetime.datetime.fromisoformat(max(fences)).timestamp()) + 1
        self.verify()

    def verify(self):
        for host in self.hosts:
            said = host.type("paytokenctl audit verify")
            require("intact" in said, f"{host.name}: audit verify", said)


class Server(machines.Machine):
    """A PostgreSQL cluster, as Debian installs it. version: the newest installed one if None."""

    def __init__(self, version=None):
        super().__init__("server")
        self.version = version or max(os.listdir("/usr/lib/postgresql"), key=int)
        self.data = f"/var/lib/postgresql/{self.version}/main"
        self.write("/etc/hosts", f"127.0.0.1 localhost {SERVER}\n")
        self.passwords = {role: os.urandom(12).hex() for role in ("ledger_owner", "paytokend")}
        self.type(f"""rm -rf /etc/postgresql/* /var/lib/postgresql/*
            pg_createcluster --port 5432 --locale C.UTF-8 {self.version} main -- --auth-host=scram-sha-256
            cd /etc/postgresql
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN={SERVER}" \\
                -addext "subjectAltName=DNS:{SERVER}" -keyout server.key -out server.pem
            chown postgres server.key && chmod 0600 server.key
            cat >{self.version}/main/conf.d/tls.conf <<'END'
listen_addresses = '127.0.0.1'
ssl = on
ssl_cert_file = '/etc/postgresql/server.pem'
ssl_key_file = '/etc/postgresql/server.key'
END
            sed -i 's/^host /hostssl /' {self.version}/main/pg_hba.conf
            systemctl start postgresql@{self.version}-main""")
        for role, password in self.passwords.items():
            self.sql(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'")
        self.sql("CREATE DATABASE paytokend OWNER ledger_owner")

    def do(self, name, without=()):
        """Types a block without the lines that have these words."""
        text = block(name).replace("/15/", f"/{self.version}/").replace("@15-", f"@{self.version}-")
        self.type("\n".join(line for line in text.splitlines() if not any(word in line for word in without)))

    def sql(self, statement, database="postgres"):
        return self.type(f"runuser -u postgres -- psql --no-psqlrc -Atq -v ON_ERROR_STOP=1 -d {database} <<'END'\n{statement};\nEND"
                         ).strip()

    def archive(self):
        """Waits until the complete write-ahead log is in the archive."""
        last = self.sql("SELECT pg_walfile_name(pg_switch_wal())")
        service.wait("the archive", lambda: self.path(f"/archive/{last}").exists())

    def lose(self, leaves_log=False):
        """Ends the server as a power cut would. Unless `leaves_log` is true, its disk is lost too."""
        first = int(self.path(f"{self.data}/postmaster.pid").read_text().split()[0])
        service.end(first)
        if not leaves_log:
            service.run("rm", "-rf", self.path(self.data))
            self.type(f"install -d -m 0700 -o postgres {self.data}")

    def forget_lost(self):
        service.run("rm", "-rf", self.path(self.data + ".lost"))

    def is_primary(self):
        return self.sql("SELECT pg_is_in_recovery()") == "f"

    def findings(self):
        return int(self.sql("SELECT count(*) FROM paytokend.hold WHERE accepted_at IS NULL", "paytokend"))

    def settings(self, node):
        return (f'ledger:\n  url: "postgresql://paytokend@{SERVER}/paytokend?sslmode=verify-full&sslrootcert=/etc/paytokend/db-ca.pem"\n'
                f"  password_file: /etc/paytokend/ledger-password\n  node: {node}")

    def admit(self, host):
        """Gives a host the files that it needs to log in to the server."""
        shutil.copy(self.path("/etc/postgresql/server.pem"), host.path("/etc/paytokend/db-ca.pem"))
        host.write("/etc/paytokend/ledger-password", self.passwords["paytokend"] + "\n", owner="paytokend", mode=0o400)

    def make_ledger(self, host):
        host.write("/root/owner-password", self.passwords["ledger_owner"] + "\n", mode=0o400)
        host.type(f'paytokenctl ledger create --password-file /root/owner-password --grant paytokend "postgresql://ledger_owner@'
                  f'{SERVER}/paytokend?sslmode=verify-full&sslrootcert=/etc/paytokend/db-ca.pem"')


def try_file():
    """Loses a host with a ledger in a file, and restores the host on another machine."""
    node = "ledger:\n  node: backend-1"
    old = Host("old", node)
    old.set_up()
    shop = Shop([old])
    kept = shop.release()
    old.type(block("back-up-ledger.sh"))
    lost = shop.release()
    old.type(block("back-up-host.sh"))
    service.wait("the daemon", lambda: old.try_to_type("paytokenctl status")[0] == 0)
    lost += shop.release()
    service.end(int(old.path("/run/paytokend.pid").read_text()))
    done("a host with a ledger in a file: backed up, and lost")

    new = Host("new", node, is_new=False)
    old.give(new, "/backup", "/safe")
    shop.hosts = [new]
    new.type(block("restore-host.sh"))
    new.waits_for_acceptance()
    shop.is_held(*kept[:1], *lost[:1])
    # Without --await-restore the daemon does not even start.
    new.type("systemctl stop paytokend.service")
    drop_in = new.path("/run/systemd/system/paytokend.service.d/await.conf")
    text = drop_in.read_text()
    drop_in.unlink()
    new.ends_with(78)
    drop_in.write_text(text)
    new.type("systemctl start paytokend.service")
    new.waits_for_acceptance()
    shop.is_held(*kept[:1], *lost[:1])
    new.type(block("accept-host.sh"))
    shop.accepted()
    shop.is_forgotten(lost)
    shop.is_kept(kept + shop.release())
    shop.verify()
    done(f"restored on another host: held until accepted; {len(kept)} known, {len(lost)} forgotten, none released again")


def try_copy():
    """Replaces the ledger's files with older ones without `ledger restore`, and checks which of these replacements the daemon
    detects."""
    host = Host("copied", "ledger:\n  node: backend-1")
    host.set_up()
    shop = Shop([host])
    stop, start = "systemctl stop paytokend.service", "systemctl start paytokend.service"
    kept = shop.release()
    # The daemon is stopped in order, so the file is complete and the HSM token remembers the end of the record.
    host.type(f"""{stop}
        tar --create --file /backup/tokens.tar --directory / var/lib/paytokend/tokens
        cp -p /var/lib/paytokend/ledger.sqlite /backup/
        {start}""")
    lost = shop.release()
    host.type(f"""mkdir /safe/heads
        paytokenctl audit head --directory /safe/heads
        {stop}
        cp -p /backup/ledger.sqlite /var/lib/paytokend/ledger.sqlite""")
    host.ends_with(78)
    done("an older ledger under an HSM token that remembers more: 78")

    host.type(f"""rm -r /var/lib/paytokend/tokens
        tar --extract --file /backup/tokens.tar --directory /
        {start}
        until paytokenctl status; do sleep 0.1; done""")
    shop.verify()
    # The articles warn that this payment token is released twice.
    answer = host.pay(lost[0], "other")
    require(answer == (200, False), "with its token the older ledger should not be noticed", *answer)
    status, said = host.try_to_type("paytokenctl audit head --directory /safe/heads")
    require(status == 1 and "chain_broken" in said, "a head kept elsewhere should tell", status, said)
    host.type(block("accept-copied.sh"))
    shop.accepted()
    shop.is_forgotten(lost[1:])
    shop.is_kept(kept + shop.release())
    shop.verify()
    done("an older ledger with its older HSM token: noticed only by a head on another host; none released again after the fence")


def replace(old, shop):
    """Loses the host some payments after its backup. Another machine takes over its name."""
    old.type(block("back-up-host.sh"))
    kept = shop.release()
    service.end(int(old.path("/run/paytokend.pid").read_text()))
    new = Host("another", None, is_new=False)
    old.give(new, "/backup", "/safe")
    new.type(block("replace-host.sh"))
    shop.hosts = [new if host is old else host for host in shop.hosts]
    shop.is_kept(kept)
    return new


def try_cluster():
    """Loses one of two hosts, then the cluster's disk, then its server but not its write-ahead log, and then the ledger's
    tables."""
    server = Server()
    server.do("archive-log.sh")
    hosts = [Host(f"backend-{number}", server.settings(f"backend-{number}")) for number in (1, 2)]
    for host in hosts:
        server.admit(host)
    server.make_ledger(hosts[0])
    for host in hosts:
        host.set_up()
    shop = Shop(hosts)
    kept = shop.release()
    hosts[1] = replace(hosts[1], shop)
    kept += shop.release()
    shop.is_kept(kept)
    shop.verify()
    done(f"a host lost and replaced under its name: {len(kept)} known, and no acceptance needed")

    server.do("back-up-cluster.sh")
    kept += shop.release()
    server.archive()
    lost = shop.release()
    done("a cluster with two hosts: backed up, its log archived")

    server.lose()
    shop.is_held()
    server.do("restore-cluster.sh", without=["main.lost/pg_wal/."])
    service.wait("the primary", server.is_primary)
    service.wait("both findings", lambda: server.findings() == 2)
    shop.is_held(*kept[:1], *lost[:1])
    hosts[0].type(block("accept-cluster.sh"))
    shop.accepted()
    shop.is_forgotten(lost)
    kept += shop.release()
    shop.is_kept(kept)
    shop.verify()
    server.forget_lost()
    done(f"disk lost: held until accepted; {len(kept)} known, {len(lost)} forgotten, none released again")

    server.lose(leaves_log=True)
    shop.is_held()
    server.do("restore-cluster.sh")
    service.wait("the primary", server.is_primary)
    kept += shop.release()
    require(server.findings() == 0, "a whole log should need no acceptance")
    shop.is_kept(kept)
    shop.is_forgotten(lost)
    shop.verify()
    server.forget_lost()
    done(f"server lost, its log left: nothing forgotten, {len(kept)} known, and no acceptance needed")

    moment = server.sql("SELECT clock_timestamp()")
    lost = shop.release()
    for host in hosts:
        host.type("systemctl stop paytokend.service")
    server.sql("DROP SCHEMA paytokend CASCADE", "paytokend")
    restore = block("restore-cluster.sh").splitlines()
    more = block("restore-moment.sh")
    today = datetime.date.today().isoformat()
    require(f"{today} 12:00:00+00" in more, "restore-moment.sh has no moment")
    start = restore.pop()
    text = "\n".join([*restore, more.replace(f"{today} 12:00:00+00", moment), start])
    server.type(text.replace("/15/", f"/{server.version}/").replace("@15-", f"@{server.version}-"))
    service.wait("the primary", server.is_primary)
    server.type(block("moment-reached.sh"))
    left = server.path(f"{server.data}/postgresql.auto.conf").read_text()
    require("recovery_target_time =" not in left and "target_action" not in left, "the next restore would end at the same moment", left)
    for host in hosts:
        host.ends_with(78)
        host.type(block("await-restore.sh"))
    service.wait("both findings", lambda: server.findings() == 2)
    shop.is_held(*kept[:1], *lost[:1])
    hosts[1].type(block("accept-cluster.sh"))
    shop.accepted(2)
    for host in hosts:
        host.type(block("await-no-more.sh"))
    shop.is_forgotten(lost)
    kept += shop.release()
    shop.is_kept(kept)
    shop.verify()
    done(f"tables deleted, restored to a moment before: 78, then held until accepted; {len(lost)} forgotten, none released again")


def main():
    with service.cleaning("test-restore"):
        service.run("token-forge", "merchant", "authority", "--merchant-identifier", "merchant.com.example.restore",
                    "--type", "ec", "--name", "merchant")
        try_file()
        try_copy()
        try_cluster()


if __name__ == "__main__":
    main()
