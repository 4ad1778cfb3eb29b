"""Injects one fault after another into loaded daemons, and asks Debian's Prometheus whether each alert fires.
scripts/test-monitoring runs it.

The rules are those of hsm-config/monitoring with one mechanical change: minutes become seconds (`for: 5m` and `[15m]` become 5s
and 15s, `offset 15m` 15s, `[1d]` a day's 1,440 seconds; `N * 60` becomes `N * 1`). Thresholds in seconds or days stay as they
are. Prometheus scrapes twice a second.
"""
import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import cluster
import deployment
import load
import network
import service
import shop

RULES = pathlib.Path(os.environ.get("MONITORING_RULES", pathlib.Path(__file__).resolve().parents[2] / "hsm-config/monitoring"))
# Each caller's requests per second: enough for the alerts' rates, and few enough for a busy machine.
RATE = 8
# The seconds that the daemons serve without a fault before the first one.
HEALTHY = 20
NEWCOMER = 4242
# The seconds between two heads of a record.
HEADS = 20
# Panels that may show nothing while no fault is injected, with the reason.
EMPTY = {"Merchant sessions": "no client asks for one", "Refusals by key in 15 minutes": "nothing is refused yet",
         "Since old records were archived": "ledger.retain_records is not set"}
# The panels of these that must show a value after the callers' faults.
AFTER_REFUSALS = ["Refusals by key in 15 minutes"]


def in_seconds(rules):
    """Makes the mechanical change that the module's comment describes."""
    rules = re.sub(r"\[1d\]", "[1440s]", rules)
    rules = re.sub(r"(?<=[\[ ])(\d+)m(?=[\]\s)])", r"\1s", rules)
    return re.sub(r"(\d+) \* 60\b(?! \* 60)", r"\1 * 1", rules.replace("60 * 60", "60 * 1"))


def alerts_of(rules):
    return list(dict.fromkeys(re.findall(r"- alert: (\w+)", rules)))


def board():
    """Returns title and expressions of each panel of the Grafana board, with its variables replaced."""
    text = (RULES / "paytokend.dashboard.json").read_text()
    for variable, value in (("$__rate_interval", "15s"), ("$__range", "1m"), ("$instance", ".*")):
        text = text.replace(variable, value)
    panels = [panel for outer in json.loads(text)["panels"] for panel in (outer, *outer.get("panels", []))]
    return [(panel["title"], target["expr"]) for panel in panels if panel["type"] != "row" for target in panel["targets"]]


def check_form():
    """Makes the checks that need no Prometheus: of the texts and unit tests of each alert, and of the board's panels.

    scripts/check-documents compares the alerts with their article.
    """
    text = (RULES / "paytokend.rules.yaml").read_text()
    tests = (RULES / "paytokend.rules-test.yaml").read_text()
    wrong = []
    for body in re.split(r"\n      - ", text)[1:]:
        name = re.match(r"alert: (\w+)", body)
        if name is None:
            continue
        name = name[1]
        wrong += [f"{name} has no {part}" for part in ("severity:", "summary:", "description:") if part not in body]
        if f'alertname="{name}",alertstate="firing"' not in tests:
            wrong.append(f"{name} has no unit test")
    for title, expression in board():
        if not title or not expression:
            wrong.append(f"the board's panel {title!r} has no title or no expression")
    for metric in ("paytokend_ready", "paytoken_gateway_ready"):
        if not any(metric in expression for _, expression in board()):
            wrong.append(f"the board does not show {metric}")
    for line in wrong:
        print(f"test-monitoring: {line}", file=sys.stderr)
    print(f"{len(alerts_of(text))} alerts, each with severity, summary, description and a unit test; "
          f"{len(board())} expressions on the board" if not wrong else f"{len(wrong)} mistakes")
    return 1 if wrong else 0


def exporter(admin):
    """Returns a running `paytokenctl metrics serve` for one admin socket, as a context manager."""
    port = load.free_port()
    return service.Program(port, "paytokenctl", "metrics", "serve", "--socket", os.path.abspath(admin), "--listen",
                           f"127.0.0.1:{port}", log="exporters.log")


class Prometheus(service.Program):
    """Debian's Prometheus. It runs under the account nobody if this program runs as root. A context manager.

    targets: by job, the instance names and ports. patient: a port that is scraped less often, as the instance `frozen`.
    """

    def __init__(self, targets, patient):
        port, self.place, other = load.free_port(), "prometheus", []
        os.makedirs(f"{self.place}/data", 0o755)
        if os.geteuid() == 0:
            nobody = 65534
            os.chown(f"{self.place}/data", nobody, nobody)
            other = [f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups"]
        super().__init__(port, "setpriv", *other, "--pdeathsig", "KILL", "prometheus", "--config.file=prometheus.yaml",
                         "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
                         log=f"{self.place}/log")
        pathlib.Path(f"{self.place}/rules.yaml").write_text(in_seconds((RULES / "paytokend.rules.yaml").read_text()))
        jobs = [{"job_name": job, "static_configs": [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": instance}} for instance, port in instances.items()]}
            for job, instances in targets.items()]
        # While a ledger hangs, a scrape takes two seconds, because the daemon waits that long for the ledger.
        jobs.append({"job_name": "patient", "scrape_interval": "4s", "scrape_timeout": "4s", "static_configs": [
            {"targets": [f"127.0.0.1:{patient}"], "labels": {"job": "paytokend", "instance": "frozen"}}]})
        pathlib.Path(f"{self.place}/prometheus.yaml").write_text(json.dumps({
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"], "scrape_configs": jobs}))

    def __enter__(self):
        self.spawn(cwd=self.place)
        service.wait("Prometheus", lambda: self.must_run() and self.is_ready(), pause=0.1)
        return self

    def is_ready(self):
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{self.socket}/-/ready", timeout=5).read()

    def ask(self, path, **query):
        url = f"http://127.0.0.1:{self.socket}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def firing(self):
        """Returns labels and summary of each alert that fires."""
        return [(alert["labels"], alert["annotations"]["summary"]) for alert in self.ask("alerts")["data"]["alerts"]
                if alert["state"] == "firing"]

    def query(self, expression):
        answer = self.ask("query", query=expression)
        if answer["status"] != "success":
            raise service.Failed(f"{expression}: {answer['error']}")
        return answer["data"]["result"]


class Caller:
    """Sends payments, each on a separate connection. The caller must call `pay` repeatedly."""

    def __init__(self, path, certificate="authority/ec.pem"):
        self.path, self.statuses, self.is_paused, self.numbers = path, collections.Counter(), False, itertools.count()
        self.minter = service.Minter(certificate=certificate)

    def pay(self):
        if not self.is_paused:
            token, = self.minter.take(1)
            with contextlib.suppress(OSError):
                status, _ = load.once(self.path, load.decrypt(token, b"load-%d" % next(self.numbers)))
                self.statuses[status] += 1


def ask_for_heads(daemons):
    """Requests heads, as paytokend-audit-head.timer does."""
    for daemon in daemons:
        # While the daemon or its HSM token is unavailable, the request for a head fails.
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["paytokenctl", "audit", "head", "--socket", os.path.abspath(daemon.admin)],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=service.GUARD)


class Test:
    """The alerts that fired, and the seconds until they did."""

    def __init__(self, prometheus):
        self.prometheus, self.rows, self.wrong, self.left_out = prometheus, [], [], []

    def fires(self, alert, fault, limit=90, since=None, **labels):
        """Waits for the alert, regardless of other alerts."""
        since = since or time.monotonic()

        def has_fired():
            for found, summary in self.prometheus.firing():
                if found["alertname"] == alert and all(found.get(name) == value for name, value in labels.items()):
                    return summary
        try:
            summary = service.wait(alert, has_fired, since + limit - time.monotonic(), 0.2)
        except service.Failed:
            print(f"{alert:31} {fault:75} NOT WITHIN {limit} s", flush=True)
            self.wrong.append(f"{alert} did not fire: {fault}")
            return
        self.rows.append((alert, fault))
        print(f"{alert:31} {fault:75} {time.monotonic() - since:6.1f} s   {summary}", flush=True)
        if "error" in summary or "<no value>" in summary:
            self.wrong.append(f"{alert}: its summary has a mistake: {summary}")

    def omit(self, alert, why):
        print(f"{alert:31} left out: {why}", flush=True)
        self.left_out.append(alert)


def ledger_section(path):
    """Returns the configuration of a daemon with a ledger in a file, and with two callers for the faults: this account, and one
    that has never called."""
    return (f"ledger:\n  url: sqlite:{os.path.abspath(path)}\n"
            f"access:\n  - {{ name: shop, user: \"{os.geteuid()}\", roles: [decrypt, monitor, audit, admin] }}\n"
            f"  - {{ name: newcomer, user: \"{NEWCOMER}\", roles: [decrypt] }}\n")


def move_away(there, token):
    """Moves the HSM token's directory away, and kills the workers that have it open. Returns a function that moves it back."""
    os.rename(token.tokens, token.tokens + ".away")
    there.kill_workers()
    return lambda: os.rename(token.tokens + ".away", token.tokens)


def send(there, tokens, reference=None):
    for token in tokens:
        load.once(there.socket, load.decrypt(token, reference))


def faults_of_callers(test, main, caller):
    send(main, service.mint(10, "--deviation", "unknown-public-key-hash", certificate="authority/ec.pem"))
    test.fires("PaytokendUnknownKeys", "10 payment tokens for a key that is not here", instance="main")
    send(main, service.mint(10, "--deviation", "bad-tag", certificate="authority/ec.pem"))
    test.fires("PaytokendFailedDecryptions", "10 payment tokens with a wrong GCM tag", instance="main")
    send(main, service.mint(1, certificate="authority/ec.pem") * 11)
    test.fires("PaytokendReplays", "one payment token sent 11 times without a reference", instance="main")
    if os.geteuid() == 0:
        token = service.mint(1, certificate="authority/ec.pem")[0]
        subprocess.run(
            ["setpriv", f"--reuid={NEWCOMER}", f"--regid={NEWCOMER}", "--clear-groups", "curl", "--silent", "--fail",
             "--output", "/dev/null", "--unix-socket", os.path.abspath(main.socket), "--header",
             "Content-Type: application/json", "--data-binary", "@-", "http://localhost/v1/decrypt"],
            input=b'{"token":' + token + b"}", check=True)
        test.fires("PaytokendNewCaller", f"uid {NEWCOMER} decrypts for the first time", instance="main", uid=str(NEWCOMER))
    else:
        test.omit("PaytokendNewCaller", "only root can call as another uid")
    old = service.mint(40, "--signing-time", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3 * 86400)),
                       certificate="authority/ec.pem")
    caller.is_paused = True
    send(main, old)
    test.fires("PaytokendClockOff", "40 payment tokens, signed three days ago by this host's clock", instance="main",
               direction="unknown")
    caller.is_paused = False


def faults_of_certificates(test, main):
    for days, severity in ((20, "warning"), (3, "critical")):
        name = f"days-{days}"
        main.daemon.import_merchant(name, f"merchant.com.example.{name}", days_left=days)
        test.fires("PaytokendCertificateEnds", f"a certificate with {days} days left is imported ({severity})",
                   merchant=f"merchant.com.example.{name}", severity=severity)


def faults_of_the_token(test, main):
    since = time.monotonic()
    for _ in range(3):
        before = main.restarts(reason="died")
        main.kill_workers()
        service.wait("a new worker", lambda: main.restarts(reason="died") > before and main.daemon.is_ready())
    test.fires("PaytokendWorkerRestarts", "kill -9 of the worker, three times", instance="main", since=since)
    back = move_away(main, main.tokens[0])
    since = time.monotonic()
    test.fires("PaytokendTokenAway", "SoftHSM's directory moved away, and a worker killed", instance="main", since=since)
    test.fires("PaytokendNotReady", "the same: it was the only token", instance="main", since=since)
    back()
    service.wait("the token's return", main.daemon.is_ready)


def faults_of_settings(test, main):
    path = pathlib.Path(main.configuration)
    before = path.read_text()
    path.write_text(before.replace("signing_time_window: 1d", "signing_time_window: off"))
    main.daemon.process.send_signal(signal.SIGHUP)
    test.fires("PaytokendInsecureSettings", "signing_time_window: off, and SIGHUP", instance="main",
               setting="signing_time_window_off")
    path.write_text(before)
    main.daemon.process.send_signal(signal.SIGHUP)


def fault_of_the_disk(test, main):
    if not os.path.ismount("small"):
        return test.omit("PaytokendLedgerFull", "only root can mount a small disk")
    # Truncates the write-ahead log, whose file would otherwise have room for minutes of commits.
    with contextlib.closing(sqlite3.connect("small/ledger.sqlite")) as ledger:
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    service.fill("small/filler")
    test.fires("PaytokendLedgerFull", "the ledger's file system is full", instance="main")
    os.unlink("small/filler")
    service.wait("the ledger's return", main.daemon.is_ready)


def faults_of_the_clock_and_record(test, other):
    """Injects faults of the clock and the record into a daemon that no other test uses."""
    other.daemon.stop()
    path = f"{other.place}/ledger.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as ledger, ledger:
        ledger.execute("INSERT INTO ledger_meta VALUES ('forgotten_before', ?)", (str(int((time.time() + 3600) * 1000)),))
    other.daemon.start(ready=False)
    test.fires("PaytokendClockOff", "the ledger has forgotten claims up to an hour ahead of the clock", instance="other",
               direction="behind")
    other.daemon.stop()
    with contextlib.closing(sqlite3.connect(path)) as ledger, ledger:
        # Changes one digit of the record's time.
        line = bytes(ledger.execute("SELECT line FROM audit_record WHERE sequence = 1").fetchone()[0])
        ledger.execute("UPDATE audit_record SET line = ? WHERE sequence = 1", (line.replace(b'"time":"2', b'"time":"3', 1),))
    other.daemon.start(ready=False)
    test.fires("PaytokendRecordBroken", "one stored line of the record is changed by hand", limit=150, instance="other")


def faults_of_the_server(test, hosts, servers):
    """Makes the ledger's PostgreSQL slow, takes its standby away, and freezes it."""
    def slow_down():
        # Repeatedly blocks commits for half a second.
        with contextlib.suppress(service.Failed):
            servers.primary.sql("BEGIN; SET LOCAL search_path = paytokend; LOCK TABLE claim IN ACCESS EXCLUSIVE MODE; "
                                "SELECT pg_sleep(0.6); COMMIT", "ledger")
    with service.repeating(slow_down, 0.1):
        test.fires("PaytokendLedgerSlow", "the table of claims is locked for 0.6 s again and again", instance="hosts")
    servers.standby.kill()
    test.fires("PaytokendStandbyAway", "the synchronous standby is killed", instance="hosts")
    servers.standby.start()
    servers.wait_for_standby()
    stopped = servers.primary.freeze()
    test.fires("PaytokendNodeLeaseOld", "PostgreSQL's processes stand still (SIGSTOP)", instance="frozen")
    service.go_on(stopped)


def faults_of_the_gateway(test, counter):
    payments = [shop.Payment(token, 1084, counter.key) for token in service.mint(1, "--amount", "1084", certificate="authority/ec.pem")]
    # The simulator reads the request and keeps the connection open without an answer. After it has ended, payments cannot be
    # queried.
    thread = threading.Thread(target=lambda: counter.send(payments, 1), daemon=True)
    since = time.monotonic()
    thread.start()
    service.wait("the submission", lambda: payments[0].identifier in counter.submissions())
    counter.simulator.kill()
    test.fires("PaytokenGatewayPendingPayments", "the processor takes a payment, never answers, and ends", instance="gateway",
               since=since)
    counter.gateway.kill()
    test.fires("PaytokenGatewayDown", "kill -9 of the gateway", instance="gateway")


class TLSGateway(service.Program):
    """A second gateway with a TLS certificate, which the test later replaces by certificates that end soon."""

    def __init__(self, counter):
        self.certify(90)
        configuration = pathlib.Path(f"{counter.name}.yaml").read_text()
        address = f"address: '127.0.0.1:{load.free_port()}', tls: {{ certificate: tls.pem, private_key: tls.key }}"
        pathlib.Path("tls.yaml").write_text(
            configuration.replace(f"address: 'unix:{counter.socket}'", address).replace(counter.admin, "tls-admin.sock")
            .replace("payments.sqlite", "tls.sqlite"))
        super().__init__("tls-admin.sock", "paytoken-gateway", "--config", "tls.yaml")

    def certify(self, days):
        service.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", days,
                    "-subj", "/CN=localhost", "-keyout", "tls.key", "-out", "tls.pem")
        os.chmod("tls.key", 0o600)


def fault_of_the_certificate(test, gateway):
    gateway.certify(5)
    gateway.process.send_signal(signal.SIGHUP)
    test.fires("PaytokenGatewayCertificateEnds", "a certificate with 5 days left, and SIGHUP", instance="tls")


def ask_the_board(test, when, titles=None):
    """Evaluates every expression of every panel, or of these: without an error, and with a result."""
    count = 0
    for title, expression in board():
        if titles is not None and title not in titles:
            continue
        try:
            found = test.prometheus.query(expression)
        except service.Failed as failure:
            test.wrong.append(f"the board's panel {title}: {failure}")
            continue
        count += 1
        if not found and (titles or title not in EMPTY):
            test.wrong.append(f"the board's panel {title} shows nothing {when}: {expression}")
    print(f"board       {count} expressions asked {when}", flush=True)
    if titles is None:
        for title, why in EMPTY.items():
            print(f"            {title} may show nothing: {why}", flush=True)


def healthy(test, expected):
    """Checks that no alert fires except those that this test itself causes. It first waits until the callers no longer count as
    new: an hour, which is a minute here."""
    def others():
        return [(labels, summary) for labels, summary in test.prometheus.firing() if not expected(labels)]
    service.wait("the first callers' alert", lambda: {"main", "hosts"} <= {
        labels["instance"] for labels, _ in test.prometheus.firing() if labels["alertname"] == "PaytokendNewCaller"})
    service.wait(lambda: f"a time without alerts ({others()})", lambda: not others(), limit=180)
    until, count = time.monotonic() + HEALTHY, 0
    while time.monotonic() < until:
        count += 1
        for labels, summary in others():
            test.wrong.append(f"{labels['alertname']} fires without a fault: {summary}")
            return
        time.sleep(0.5)
    print(f"healthy     {HEALTHY} s under load, asked {count} times: no alert fires")


def main():
    deployment.make_merchants()
    with contextlib.ExitStack() as ending:
        enter = ending.enter_context
        softhsm = deployment.SoftHSMToken
        daemon = enter(deployment.Deployment(
            "main", {"first": softhsm}, listener={"mode": '"0666"'},
            ledger=ledger_section("small/ledger.sqlite" if os.path.ismount("small") else "ledger.sqlite")))
        os.chmod("main", 0o711)
        sealing = enter(deployment.Deployment("sealing", {"first": softhsm, "second": softhsm}))
        other = enter(deployment.Deployment("other", {"first": softhsm}, merchants=("ec",)))
        # The daemon also loses the capability to lock memory, because root could otherwise exceed the limit.
        limited = ["prlimit", "--memlock=0:0"]
        if os.geteuid() == 0:
            limited = ["setpriv", "--bounding-set=-ipc_lock", *limited]
        unlocked = enter(deployment.Deployment("unlocked", {"first": softhsm}, merchants=("ec",),
                                               program=(*limited, "paytokend", "--config")))
        servers = enter(cluster.Cluster(network.Machine()))
        servers.primary.sql("GRANT pg_read_all_stats TO paytokend")
        hosts = enter(deployment.Deployment("hosts", {"first": softhsm}, ledger=servers.ledger.settings("one")))
        daemons = {"main": daemon, "sealing": sealing, "other": other, "unlocked": unlocked, "hosts": hosts}

        counter = shop.Shop(daemon.daemon, random.Random(1))
        enter(counter.simulator).start()
        enter(counter.gateway).start()
        tls, ports = enter(TLSGateway(counter).started()), {}
        for job, admins in (("paytokend", {name: there.daemon.admin for name, there in daemons.items()}),
                            ("paytoken-gateway", {"gateway": counter.admin, "tls": tls.socket})):
            ports[job] = {}
            for name, admin in admins.items():
                ports[job][name] = enter(exporter(admin).started()).socket
        prometheus = enter(Prometheus(ports, ports["paytokend"]["hosts"]))
        test = Test(prometheus)
        callers = {name: Caller(daemons[name].socket) for name in ("main", "sealing", "hosts")}
        for caller in callers.values():
            enter(caller.minter)
            enter(service.repeating(caller.pay, 1 / RATE))
        headed = [there.daemon for name, there in daemons.items() if name != "unlocked"]
        enter(service.repeating(lambda: ask_for_heads(headed), HEADS))
        counter.send([shop.Payment(token, 1000, counter.key) for token in service.mint(5, certificate="authority/ec.pem")], 1)

        # The alert about a late audit checkpoint takes long. So the HSM token with the audit key is broken from the beginning,
        # while another HSM token serves.
        service.wait("payments", lambda: callers["sealing"].statuses[200] > 5)
        move_away(sealing, sealing.tokens[0])
        late = time.monotonic()

        def expected(labels):
            # These alerts fire because the daemons' trusted root is not Apple's, and because one daemon may lock no memory.
            return (labels.get("instance") == "sealing" or labels["alertname"] == "PaytokendInsecureSettings"
                    or labels.get("instance") == "unlocked" and labels["alertname"] == "PaytokendSecretsNotLocked"
                    # This daemon's ledger is on a small disk, so the alert fires from the beginning.
                    or labels.get("instance") == "main" and labels["alertname"] == "PaytokendLedgerDiskLow"
                    # The test requests no head from this daemon.
                    or labels.get("instance") == "unlocked" and labels["alertname"] == "PaytokendHeadNotKept")
        healthy(test, expected)
        ask_the_board(test, "under load")
        test.fires("PaytokendSecretsNotLocked", "a daemon that may lock no memory (RLIMIT_MEMLOCK 0)", instance="unlocked")
        if os.path.ismount("small"):
            test.fires("PaytokendLedgerDiskLow", "the ledger's file system has 64 MB", instance="main")
        else:
            test.omit("PaytokendLedgerDiskLow", "only root can mount a small disk")
        for fault, *things in (
                (faults_of_callers, daemon, callers["main"]), (ask_the_board, "after the refusals", AFTER_REFUSALS),
                (faults_of_certificates, daemon), (faults_of_the_token, daemon), (fault_of_the_disk, daemon),
                (faults_of_settings, daemon), (faults_of_the_server, hosts, servers), (fault_of_the_certificate, tls),
                (faults_of_the_gateway, counter), (faults_of_the_clock_and_record, other)):
            try:
                fault(test, *things)
            except service.Failed as failure:
                test.wrong.append(f"{fault.__name__}: {failure}")
        test.fires("PaytokendCheckpointLate", "the token with the audit key is away; another one serves", limit=400,
                   since=late, instance="sealing")
        test.fires("PaytokendHeadNotKept", "this daemon is not asked for its head, as the others are", limit=400,
                   instance="unlocked")
        test.omit("PaytokendRecordsNotArchived", "a check comes each hour; promtool's unit test has it")
        test.omit("PaytokendRecordUnchecked", "a check that is missing for ten minutes takes ten minutes; promtool's unit test has it")
        daemon.daemon.kill()
        test.fires("PaytokendDown", "kill -9 of the daemon", instance="main")
        test.fires("PaytokenGatewayNotReady", "kill -9 of the daemon that it calls", instance="tls")
        test.omit("PaytokenGatewayAccountNumber", "no simulator answers with an account number; promtool's unit test has it")
        test.omit("PaytokendSocketFailed", "it needs node_exporter and systemd; promtool's unit test has it")
        for alert in ("PaytokendActiveCertificateUnknown", "PaytokendPortalDiffers", "PaytokendPortalNotRead", "PaytokendOutboundAway"):
            test.omit(alert, "it needs Apple's list of certificates; promtool's unit test has it")
        for alert in ("PaytokendGooglePayRootKeysDiffer", "PaytokendGooglePayRootKeysOld"):
            test.omit(alert, "15 minutes and three days are too long; promtool's unit test has it")
        for alert in alerts_of((RULES / "paytokend.rules.yaml").read_text()):
            if alert not in test.left_out and alert not in {name for name, _ in test.rows} | {
                    wrong.partition(" ")[0] for wrong in test.wrong}:
                test.wrong.append(f"{alert} was not tried")
        for line in test.wrong:
            print(f"test-monitoring: {line}", file=sys.stderr)
        print(f"{len(test.rows)} faults, each with its alert, {len(test.wrong)} wrong, {len(test.left_out)} left out")
        return 1 if test.wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--form", action="store_true")
    if parser.parse_args().form:
        sys.exit(check_form())
    with service.cleaning("test-monitoring"):
        sys.exit(main())
