"""Upgrades under load, and back, through sockets that outlive the daemon: first one daemon with a ledger in a file, then three with a
ledger in PostgreSQL. Also measures how long a restarted gateway does not answer.

`--old DIR` has the programs paytokend, paytokend-hsm and paytokenctl of the version before. Without it the present ones are used for
both, which tries only the procedure. To build the version before:

    git worktree add ../before REVISION && cd ../before && swift build -c release

Programs are replaced on the disk while the daemon runs, as a package manager does. Then the daemon is drained and started again,
as systemd does. With the same schema the versions alternate, on three hosts one after the other, so that both versions serve at
once. With another schema, the older version must refuse to start, with exit status 78 and an unchanged ledger. In PostgreSQL
`paytokenctl ledger create` must refuse while an older daemon serves, and daemons of the new version must wait for it.

A caller replaces a connection that was closed before its answer, and repeats the payment with its reference. After a 503 it
repeats the request. Both are counted. The soak fails if a payment was refused, had no answer or another payment's content, or was
released twice. It also fails if an answer is not in the record, or if a record does not verify. `doubled` is the number of tenths
of a second, from the signal to three seconds after the first release, in which the 99th percentile of the payments due then was
more than twice that of the quiet times before; its last line has the same figure for the quiet times themselves. No verdict
depends on it.
"""
import collections
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import time

import activated
import callers
import database
import deployment
import load
import proof
import restarts
import service
import shop

NODES = ["node-1", "node-2", "node-3"]


class Upgrade(service.Contexts):
    """Daemons with their callers, and the restarts. A context manager.

    there: the deployments by node. old, new: the directories with the programs. start: starts the first daemons, which are the
    old ones.
    """

    def __init__(self, there, old, new, rate, quiet):
        super().__init__()
        self.there, self.versions, self.quiet = there, {"old": old, "new": new}, quiet
        for each in there.values():
            each.daemon = activated.Activated(each, f"{each.place}/installed")
            activated.install(old, each.daemon.programs)
        self.units = {node: each.daemon for node, each in there.items()}
        self.callers = callers.Callers({node: unit.socket for node, unit in self.units.items()}, rate, 32)
        self.restarts, self.wrong = restarts.Restarts(self.callers, quiet), []

    def begin(self):
        for each in self.there.values():
            self.enter_context(each)
        self.callers.start()
        self.callers.steady(self.quiet)

    def stop(self, nodes):
        """Stops these nodes' daemons, all at the same time."""
        for node in nodes:
            self.units[node].process.terminate()
        for node in nodes:
            if (status := self.units[node].process.wait(service.GUARD)) != 0:
                self.wrong.append(f"{node} ended with {status} at SIGTERM")

    def restart(self, node, version):
        """Installs another version in its place, and restarts the daemon."""
        unit = self.units[node]
        activated.install(self.versions[version], unit.programs)
        struck = time.monotonic()
        self.stop([node])
        ended = time.monotonic()
        unit.spawn()
        self.restarts.note(f"{version}, {node}", [node], struck, ended)

    def go_back_refused(self, nodes, content):
        """Starts the old version on a ledger with a newer schema, which it must refuse. content: returns the part of the ledger
        that must not change."""
        for node in nodes:
            activated.install(self.versions["old"], self.units[node].programs)
        struck = time.monotonic()
        self.stop(nodes)
        before = content()
        for node in nodes:
            status, said = self.units[node].start_refused()
            if status != activated.REFUSED or "schema" not in said:
                self.wrong.append(f"the old version ended with {status} on {node}'s newer ledger: {said}")
            print(f"refused     {node}, the old version on the newer ledger: exit {status}")
        if content() != before:
            self.wrong.append("the old version has changed the newer ledger")
        for node in nodes:
            activated.install(self.versions["new"], self.units[node].programs)
        ended = time.monotonic()
        for node in nodes:
            self.units[node].spawn()
        self.restarts.note("back refused, new", nodes, struck, ended)

    def upgrade_together(self, create):
        """Moves all nodes to the version that needs another schema. create: `paytokenctl ledger create` of the new version."""
        refused = create()
        named = refused.stderr.decode(errors="replace")
        if refused.returncode != 1 or not all(node in named for node in self.units):
            self.wrong.append(f"ledger create ended with {refused.returncode} while the old version served: {named}")
        print(f"refused     ledger create while the old version serves: exit {refused.returncode}")
        self.callers.steady(self.quiet)
        for unit in self.units.values():
            activated.install(self.versions["new"], unit.programs)
        struck = time.monotonic()
        self.stop(self.units)
        ended = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            starting = [pool.submit(unit.start_again_and_again) for unit in self.units.values()]
            done = create()
            if done.returncode != 0:
                raise service.Failed(f"ledger create: exit {done.returncode}: {done.stderr.decode(errors='replace')}")
            waits = sum(one.result(service.GUARD) for one in starting)
        print(f"waited      the new version for ledger create: ended with 75 {waits} times")
        self.restarts.note("new, all, schema", list(self.units), struck, ended)

    def finish(self, ledger):
        """Returns what is wrong."""
        wrong = self.wrong + self.restarts.finish(ledger)
        for node, unit in self.units.items():
            print(f"verified    {node}")
            wrong += proof.verify(unit)
        self.stop(self.units)
        return wrong


def in_file(options, old, new):
    there = deployment.Deployment(
        "file", {"a": deployment.SoftHSMToken}, merchants=("ec",), call_timeout="60s",
        program=(os.path.abspath("file/installed/paytokend"), "--config"))
    path = pathlib.Path("file/ledger.sqlite")

    def content():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    with Upgrade({"file": there}, old, new, options.rate, options.quiet) as upgrade:
        unit = upgrade.units["file"]
        before = unit.schema()
        upgrade.restart("file", "new")
        after = unit.schema()
        print(f"a file      schema {before}, then {after}")
        if after > before:
            if not path.with_name(f"ledger.sqlite.schema-{before}").exists():
                upgrade.wrong.append("the older ledger was not copied")
            upgrade.go_back_refused(["file"], content)
        else:
            for version in ["old", "new"] * options.rounds:
                upgrade.restart("file", version)
        return upgrade.finish(proof.LedgerFile(path))


def in_database(options, old, new):
    with contextlib.ExitStack() as ending:
        server = ending.enter_context(database.Server())
        server.sql(f"CREATE DATABASE ledger OWNER {database.OWNER}")
        ledger = database.Ledger(server, "ledger")

        def create(programs, *further):
            return subprocess.run(
                [f"{programs}/paytokenctl", "ledger", "create", server.url("ledger", database.OWNER), "--grant", database.DAEMON,
                 "--output", "json", *further], capture_output=True)
        before = json.loads(create(old).stdout)["version"]
        after = json.loads(create(new, "--dry-run").stdout)["wouldBecome"]
        print(f"PostgreSQL  schema {before}, then {after}")
        there = {node: deployment.Deployment(
            node, {"a": deployment.SoftHSMToken}, merchants=("ec",), call_timeout="60s",
            program=(os.path.abspath(f"{node}/installed/paytokend"), "--config"), ledger=ledger.settings(node))
            for node in NODES}
        with Upgrade(there, old, new, options.rate, options.quiet) as upgrade:
            if after > before:
                upgrade.upgrade_together(lambda: create(new))
                upgrade.go_back_refused(NODES[:1], lambda: ledger.sql("SELECT schema_version FROM ledger_state"))
            else:
                for version in ["new", *["old", "new"] * options.rounds]:
                    for node in NODES:
                        upgrade.restart(node, version)
            return upgrade.finish(ledger)


class Knocks:
    """Connects to a gateway, and requests the status of a payment that does not exist. The caller must call `knock`
    repeatedly."""

    def __init__(self, port, key):
        self.address, self.request = ("127.0.0.1", port), load.get("/payments/apple-pay/" + "0" * 64, key)
        # The start of each request with its status, which is None without an answer, and the counts of refusals.
        self.answers, self.refused = [], collections.Counter()

    def knock(self):
        began, status = time.monotonic(), None
        try:
            with socket.create_connection(self.address, timeout=service.GUARD) as connection:
                connection.sendall(self.request)
                head = connection.recv(4096)
                status = int(head[9:12]) if head else None
                self.refused["closed"] += not head
        except ConnectionRefusedError:
            self.refused["refused"] += 1
        except OSError:
            self.refused["closed"] += 1
        self.answers.append((began, status))

    def gap(self, since):
        """Waits for the answer to a request that began after that moment. Returns the seconds from the last answer before the
        first unanswered request to the first answer after the last unanswered one."""
        service.wait("an answer", lambda: self.answers and self.answers[-1][0] > since and self.answers[-1][1], pause=0.01)
        missed = [number for number, (_, status) in enumerate(self.answers) if status is None]
        found = self.answers[missed[-1] + 1][0] - self.answers[max(0, missed[0] - 1)][0] if missed else 0.0
        self.answers.clear()
        return found


def at_gateway(options, old, new):
    """Measures how long a gateway's address does not answer during a restart. It sends no payments. `scripts/soak payments`
    checks that an unanswered payment is not paid twice."""
    name = "paytoken-gateway"
    if not os.path.exists(f"{old}/{name}"):
        old = new
    with service.Service().started() as daemon, contextlib.ExitStack() as ending:
        there, port = shop.Shop(daemon, None), load.free_port()
        path = pathlib.Path("gateway.yaml")
        path.write_text(path.read_text().replace(f"address: 'unix:{there.socket}'", f"address: '127.0.0.1:{port}'"))

        def start(version):
            return ending.enter_context(service.Program(there.admin, f"{version}/{name}", "--config", str(path)).started())
        gateway, knocks, wrong = start(old), Knocks(port, there.key), []
        ending.enter_context(service.repeating(knocks.knock, 0.002))
        for version in (new, old, new):
            time.sleep(options.quiet)
            wrong += gateway.stop()
            gateway = start(version)
            print(f"gateway     {'old' if version == old != new else 'new'}: its address did not answer for "
                  f"{knocks.gap(time.monotonic()):.2f} s")
        print(f"gateway     {knocks.refused['refused']} connections were refused, {knocks.refused['closed']} closed unanswered")
        return wrong


def main(parser):
    parser.add_argument("--old", metavar="DIR", help="the programs of the version before (the present ones)")
    parser.add_argument("--ledger", choices=["file", "postgresql", "none"],
                        help="only this one; none: only the gateway")
    options = service.parse(parser, rounds=(3, 1, "how often back and forth, with the same schema"),
                            rate=(100.0, 20.0, "payments a second"), quiet=(5.0, 1.0, "seconds of load between the restarts"))
    new = str(deployment.programs())
    old = os.path.abspath(os.path.join(os.environ.get("SOAK_FROM", "."), options.old)) if options.old else new
    if lacking := [name for name in activated.PROGRAMS if not os.path.exists(f"{old}/{name}")]:
        parser.error(f"{old} has no {', '.join(lacking)}")
    print(f"{options.rate:g} payments a second, from {'the present version' if old == new else options.old}")
    wrong = []
    if options.ledger in (None, "file"):
        wrong += in_file(options, old, new)
    if options.ledger in (None, "postgresql"):
        if database.is_installed():
            wrong += in_database(options, old, new)
        else:
            print("PostgreSQL  skipped: it is not installed")
    if options.ledger in (None, "none"):
        wrong += at_gateway(options, old, new)
    return wrong
