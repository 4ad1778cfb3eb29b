"""A row's service: a daemon with its HSM token and keys, the raw loop on the same HSM token, and the measurement of both."""
import functools
import json
import os
import pathlib
import random
import time

import database
import deployment
import load
import machine
import mint as minting
import proof
import raw
import service
import shop

# The number of requests before the first measurement.
WARMING = 100


def unit_environment():
    """Returns the environment that the systemd unit sets, so that the daemon runs as on a host."""
    unit = pathlib.Path(__file__).parents[2] / "hsm-config/paytokend.service"
    return [line.partition("=")[2] for line in unit.read_text().splitlines() if line.startswith("Environment=")]


def serial(processes):
    """Returns the processor time in seconds of what one thread at a time does for all releases: the threads that commit and write the
    log, and the event loops and the workers' sessions, of which there can be as many as cores."""
    found = dict.fromkeys(("writer", "loops", "sessions"), 0.0)
    for process in processes:
        for name, seconds in service.thread_times(process).items():
            part = ("loops" if name.startswith("NIO-") else "sessions" if name.startswith("session-") else
                    "writer" if name.endswith("overcommit") else None)
            if part:
                found[part] += seconds
    return found


class MeasuredService(service.Contexts):
    """The service of a setup. A context manager.

    mint: a function from a certificate, or service.GOOGLE_KEY, to its Mint. ledger: one of database.py's, unless it is in a file.
    """

    def __init__(self, setup, place, mint, ledger=None):
        super().__init__()
        self.setup, self.place = setup, place
        self.ledger, section = ledger or proof.LedgerFile(f"{place}/ledger.sqlite"), None
        if ledger is not None:
            between = None if setup.relay is None else os.path.abspath(place)
            section = ledger.settings("bench", between)
        self.released, self.shop = 0, None
        many = setup.keys > 1
        daemon = "paytokend-memory-ledger" if setup.ledger == "none" else "paytokend"
        program = ("env", *unit_environment(), os.path.join(setup.programs, daemon) if setup.programs else daemon,
                   *(() if setup.ledger == "none" else ("--config",)))
        self.deployment = deployment.Deployment(
            place, {"a": deployment.InMemoryToken if many else setup.token}, merchants=() if many else (setup.kind,),
            program=program, listener={"max_connections": 1024, "max_connections_per_uid": 1024}, ledger=section,
            sessions=setup.sessions, call_timeout="10s")
        self.token, self.daemon = self.deployment.tokens[0], self.deployment.daemon
        self.certificate = (self.deployment.certificate(self.token) if many else
                            service.GOOGLE_KEY if setup.kind == service.GOOGLE else f"authority/{setup.kind}.pem")
        self.mint = mint

    def begin(self):
        if self.setup.relay is not None:
            name = f".s.PGSQL.{database.PORT}"
            # A relay between the daemon and the server delays everything.
            self.enter_context(service.Answering(
                "./relay", f"{self.place}/{name}", f"{self.ledger.server.directory}/{name}", str(self.setup.relay * 1000))).line()
        self.enter_context(self.deployment)
        if self.setup.keys > 1:
            self.deployment.fill(self.setup.keys)
            self.daemon.start(limit=3 * service.GUARD)
        self.mint = self.mint(self.certificate)
        self._warm()
        if self.setup.gateway:
            self.shop = shop.Shop(self.daemon, random.Random(0))
            for program in (self.shop.simulator, self.shop.gateway):
                self.enter_context(program.started())

    @functools.cached_property
    def raw(self):
        """Returns the raw loop on the same key, or None if the library is not SoftHSM."""
        if isinstance(self.token, deployment.NSSToken):
            return None
        return self.enter_context(raw.RawLoop(self.token, self.certificate))

    def _warm(self):
        """Sends the requests before the first measurement, and checks that the answers name the row's tier."""
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
        """Sends the row's requests, for some seconds or until there are no more. Returns figures, and what is wrong."""
        requests = [shop.Payment(token, minting.CENTS, self.shop.key).request if self.shop else load.decrypt(token, b"bench")
                    for token in tokens]
        if row.latency:
            self.token.play(f"fault C_DeriveKey always delay={row.latency}")
        threads = serial(self.daemon.processes())
        before, began, others = self._processor_times(), time.monotonic(), machine.busy() - machine.own()
        said = load.generate(self.shop.socket if self.shop else self.daemon.socket, requests, row.connections, seconds, rate)
        after, took, others = self._processor_times(), time.monotonic() - began, machine.busy() - machine.own() - others
        after_threads = serial(self.daemon.processes())
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
        daemon, worker, server, gateway, simulator = (end - start for start, end in zip(before, after))
        memory = [service.memory(process) for process in self.daemon.processes()]
        return {
            "rate": released / said["seconds"], **said["latency"],
            "daemon": daemon / released * 1e6, "worker": worker / released * 1e6, "load": said["processor"] / released * 1e6,
            **({"server": server / released * 1e6} if self.setup.ledger == "postgresql" else {}),
            **({"gateway": gateway / released * 1e6, "simulator": simulator / released * 1e6} if self.shop else {}),
            "cores": (daemon + worker + server + gateway + simulator + said["processor"]) / said["seconds"],
            **{part: max(0, after_threads[part] - seconds) / released * 1e6 for part, seconds in threads.items()},
            # The processor time of programs that do not belong to this service.
            "others": max(0, others - daemon - worker - server - gateway - simulator) / took,
            "memory_daemon": memory[0], "memory_worker": sum(memory[1:])}, wrong

    def _processor_times(self):
        """Returns the processor times of the daemon, of its workers, of the ledger's server, of the gateway, and of the simulator, in
        seconds."""
        daemon, *workers = map(service.processor_time, self.daemon.processes())
        programs = (self.shop.gateway, self.shop.simulator) if self.shop else ()
        gateway, simulator = [service.processor_time(program.process.pid) for program in programs] or (0.0, 0.0)
        return daemon, sum(workers), self.ledger.server.cpu() if self.setup.ledger == "postgresql" else 0.0, gateway, simulator

    def check_ledger(self):
        """Returns what is wrong. The ledger must have one claim for every answered release, and no others."""
        if self.setup.ledger == "none":
            return []
        claims = len(self.ledger.claims())
        return [] if claims == self.released else [f"{self.place}: {self.released} were released, and {claims} are claimed"]
