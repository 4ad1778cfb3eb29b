"""A row's service: a daemon with its token and keys, the raw loop on the same token, and measuring both."""
import contextlib
import functools
import json
import os
import pathlib
import subprocess
import tempfile
import time

import database
import deployment
import load
import machine
import proof
import raw
import service

# Answered before anything is measured.
WARMING = 100


def unit_environment():
    """What the systemd unit sets for the daemon: that is how it runs where it is installed."""
    unit = pathlib.Path(__file__).parents[2] / "hsm-config/paytokend.service"
    return [line.partition("=")[2] for line in unit.read_text().splitlines() if line.startswith("Environment=")]


class Relay:
    """Between a daemon and a PostgreSQL server: everything arrives so many milliseconds later. A context."""

    def __init__(self, place, server, milliseconds):
        name = f".s.PGSQL.{database.PORT}"
        self.command = ["./relay", f"{place}/{name}", f"{server.directory}/{name}", str(milliseconds * 1000)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE)
        if not self.process.stdout.readline():
            raise service.Failed(f"relay ended with {self.process.wait()}")
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


class MeasuredService:
    """A setup, started. A context.

    mint: a function from a certificate to its Mint. ledger: one of database.py, where it is not in a file.
    """

    def __init__(self, setup, place, mint, ledger=None):
        self.setup, self.place, self.stack = setup, place, contextlib.ExitStack()
        self.ledger, section = ledger or proof.LedgerFile(f"{place}/ledger.sqlite"), None
        if ledger is not None:
            between = None if setup.relay is None else os.path.abspath(place)
            section = ledger.settings("bench", between)
        self.released = 0
        many = setup.keys > 1
        self.certificate = f"authority/{place if many else setup.kind}.pem"
        program = ("env", *unit_environment(),
                   *(("paytokend-memory-ledger",) if setup.ledger == "none" else ("paytokend", "--config")))
        self.deployment = deployment.Deployment(
            place, {"a": self._in_memory if many else setup.token}, merchants=() if many else (setup.kind,), program=program,
            listener={"max_connections": 1024, "max_connections_per_uid": 1024}, ledger=section, sessions=setup.sessions,
            call_timeout="10s")
        self.token, self.daemon = self.deployment.tokens[0], self.deployment.daemon
        self.mint = mint

    def _in_memory(self, name, place):
        """SoftHSM writes a file for every object, several times: that takes long where it is not in memory."""
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        store = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="paytokend.", dir=memory))
        return self.setup.token(name, place, store)

    def __enter__(self):
        with contextlib.ExitStack() as starting:
            starting.push(self.stack.__exit__)
            if self.setup.relay is not None:
                self.stack.enter_context(Relay(self.place, self.ledger.server, self.setup.relay))
            self.stack.enter_context(self.deployment)
            if self.setup.keys > 1:
                self._fill()
            self.mint = self.mint(self.certificate)
            self._warm()
            starting.pop_all()
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def _fill(self):
        # The daemon has made the audit key, while ledger and token were both new.
        self.daemon.stop()
        service.run("key-filler", f"{self.place}/ledger.sqlite", self.setup.keys, self.token.softhsm, self.token.name,
                    self.token.pin, "authority", self.place, env={**os.environ, **self.token.environment})
        self.daemon.start(limit=3 * service.GUARD)

    @functools.cached_property
    def raw(self):
        """The raw loop on the same key; None where the library is not SoftHSM."""
        if isinstance(self.token, deployment.NSSToken):
            return None
        return self.stack.enter_context(raw.RawLoop(
            self.token.name, self.certificate, self.token.pin, {**os.environ, "SOFTHSM2_CONF": self.token.conf}))

    def _warm(self):
        """Finds out whether the tier is what the row says, too."""
        tiers = set()

        def answered(tag, status, body, began, ended):
            answer = json.loads(body) if body else {}
            if status != 200:
                raise service.Failed(f"{self.place}: a token was answered {status} {answer.get('code')}")
            tiers.add(answer["protection"])
        load.drive(self.daemon.socket, 8, [(None, load.decrypt(token, b"bench")) for token in self.mint.take(WARMING)],
                   answered, limit=service.GUARD)
        self.released += WARMING
        if tiers != {self.setup.tier}:
            raise service.Failed(f"{self.place}: the tier is {', '.join(sorted(tiers))}, not {self.setup.tier}")

    def play(self, row, tokens, seconds, rate=None):
        """Sends them as the row says, for so many seconds or until there are no more: figures, and what is wrong."""
        requests = [load.decrypt(token, b"bench") for token in tokens]
        if row.latency:
            self.token.play(f"fault C_DeriveKey always delay={row.latency}")
        before, began, others = self._processor_times(), time.monotonic(), machine.busy() - machine.own()
        said = load.generate(self.daemon.socket, requests, row.connections, seconds, rate)
        after, took, others = self._processor_times(), time.monotonic() - began, machine.busy() - machine.own() - others
        if row.latency:
            self.token.play()
        self.mint.give_back(tokens[said["requests"]:])
        released = said["statuses"].pop("200", 0)
        self.released += released
        wrong = [f"{row.name}: {count} requests were answered {status}" for status, count in said["statuses"].items()]
        if said["lost"]:
            wrong.append(f"{row.name}: {said['lost']} requests were not answered")
        if not released:
            raise service.Failed(f"{row.name}: nothing was released: {'; '.join(wrong)}")
        daemon, worker, server = (end - start for start, end in zip(before, after))
        memory = [service.resident(process) for process in self.daemon.processes()]
        return {
            "rate": released / said["seconds"], **said["latency"],
            "daemon": daemon / released * 1e6, "worker": worker / released * 1e6, "load": said["processor"] / released * 1e6,
            **({"server": server / released * 1e6} if self.setup.ledger == "postgresql" else {}),
            "cores": (daemon + worker + server + said["processor"]) / said["seconds"],
            # Of programs that do not belong to this.
            "others": max(0, others - daemon - worker - server) / took,
            "memory_daemon": memory[0], "memory_worker": sum(memory[1:])}, wrong

    def _processor_times(self):
        """Seconds of the daemon, of its workers, and of the ledger's server."""
        daemon, *workers = map(service.processor_time, self.daemon.processes())
        return daemon, sum(workers), self.ledger.server.cpu() if self.setup.ledger == "postgresql" else 0.0

    def check_ledger(self):
        """What is wrong: every answered release is claimed, once, and nothing else is."""
        if self.setup.ledger == "none":
            return []
        claims = len(self.ledger.claims())
        return [] if claims == self.released else [f"{self.place}: {self.released} were released, and {claims} are claimed"]
