"""The rounds. In each round, every row runs once, with the raw loop before and after it, and every operation of a release is
measured once. So other work of the machine affects all measurements alike."""
import functools
import os
import pathlib
import shutil
import statistics

import database
import deployment
import figures
import mint
import peers
import raw
import rows
import service
import services

# The seconds of a raw loop next to a row's round, and of an operation measured by itself.
BESIDE, ALONE = 0.5, 0.5
# In short rounds, a raw loop or an operation takes at most the row's seconds divided by this number.
SHARE = 4
# The number of turns in a round with the worker's process and without it, and the seconds of each turn.
TURNS, TURN = 12, 0.3
# The number of requests in the trial round, which only determines how fast a row is.
TRIAL = 300
# The payment tokens for verification, and for a peer, which decrypts them repeatedly.
SAMPLE = 500


class Bench(service.Contexts):
    """The services and their figures. A context manager, which ends the services."""

    def __init__(self, chosen, seconds, others=None, against=None, show=print):
        """others: as in Figures. against: the directory of another build's programs, whose rows are measured in turns with this
        build's."""
        super().__init__()
        self.seconds, self.show = seconds, show
        self.figures, self.wrong, self.missing = figures.Figures(others), [], {}
        # The expected rate of each row.
        self.rates = {}
        self.services, self.mints, self.peers = {}, {}, []
        self.rows = []
        for row in chosen:
            if not row.setup.token.is_installed():
                self.missing[row.name] = f"{row.title}: its library is not installed"
            elif row.setup.ledger == "postgresql" and not database.is_installed():
                self.missing[row.name] = f"{row.title}: PostgreSQL is not installed"
            else:
                # Two gateways would use the same files.
                self.rows += [row, row.of(against)] if against and not row.setup.gateway else [row]

    def begin(self):
        deployment.make_merchants()
        for row in self.rows:
            if row.setup not in self.services:
                place = f"s{len(self.services)}"
                self.services[row.setup] = self.enter_context(
                    services.MeasuredService(row.setup, place, self.mint, self._ledger(row.setup, place)))
                self.show(f"ready       {row.title}", flush=True)

    @functools.cached_property
    def server(self):
        """Returns the PostgreSQL server, with a database for measurements of the server alone."""
        started = self.enter_context(database.Server())
        started.sql("CREATE DATABASE primitives")
        started.sql("CREATE TABLE primitive (row bytea)", "primitives")
        return started

    def _ledger(self, setup, place):
        """Makes a new ledger on the server if the setup's ledger is on a server."""
        return self.server.ledger(place) if setup.ledger == "postgresql" else None

    def mint(self, certificate):
        if certificate not in self.mints:
            self.mints[certificate] = self.enter_context(mint.Mint(certificate))
        return self.mints[certificate]

    def add_peer(self, kind, directory):
        """kind: a name of peers.PEERS."""
        peer = peers.PEERS[kind](directory)
        if peer.missing:
            self.missing[kind] = peer.missing
        else:
            self.peers.append(peer)

    def try_rows(self):
        """Determines the number of payment tokens that each row will need. These figures are not used otherwise."""
        for row in self.rows:
            if not row.is_open:
                measured = self.services[row.setup]
                result, wrong = measured.play(row, measured.mint.take(TRIAL + 2 * row.connections), self.seconds)
                self.rates[row.name] = result["rate"]
                self.wrong += wrong

    def round(self, number):
        # Even and odd rounds have opposite orders, because the first row runs on a cooler machine. Open loops come last, because
        # their rate depends on the other rows.
        closed = [row for row in self.rows if not row.is_open]
        counted = {}
        for row in closed if number % 2 == 0 else closed[::-1]:
            counted[row.name] = self._play(row)
        for row in self.rows:
            if row.is_open:
                counted[row.name] = self._play(row)
        for row in self.rows:
            new, old = counted[row.name], counted.get(f"{row.name}@")
            if new and old:
                self.figures.add(f"{row.name}/", {
                    "rate": new["rate"] / old["rate"], "p99": new["p99"] / old["p99"],
                    "processor": (new["daemon"] + new["worker"]) / (old["daemon"] + old["worker"])})
        self._operations()
        for peer in list(self.peers):
            for name, result in peer.play(self._sample, self.seconds):
                self.figures.add(name, result)
            if peer.missing:
                self.missing[peer.name] = peer.missing
                self.peers.remove(peer)

    @property
    def maximum(self):
        """Returns the largest throughput of the base so far: the median of its fastest row."""
        return max(self.figures.median(row.name, "rate") for row in self.rows
                   if row.setup == rows.BASE and not row.is_open and row.name in self.figures)

    def _play(self, row):
        """Returns the row's figures, or None if the round is not counted."""
        measured = self.services[row.setup]
        rate = row.rate or (row.load * self.maximum if row.load else None)
        # A fifth more payment tokens than expected are minted, and unused ones are kept.
        count = int((rate or self.rates[row.name]) * self.seconds * 1.2) + row.connections
        tokens = measured.mint.take(count)
        around = [self._raw_loop(row, measured)]
        result, wrong = measured.play(row, tokens, self.seconds, rate)
        around.append(self._raw_loop(row, measured))
        self.wrong += wrong
        if row.load is not None:
            result["of_maximum"] = result["rate"] / self.maximum
        elif row.ceiling:
            result["of_ceiling"] = result["rate"] / row.ceiling
        elif None not in around:
            result["raw"], result["raw_processor"] = map(statistics.mean, zip(*around))
            result["of_raw"] = result["rate"] / result["raw"]
        self.rates[row.name] = max(result["rate"], self.rates.get(row.name, 0))
        counts = self.figures.add(row.name, result)
        self.show(f"  {row.name:14}{result['rate']:9.0f}/s   p50 {result['p50'] / 1000:8.2f} ms   "
                  f"p99 {result['p99'] / 1000:8.2f} ms" + ("" if counts else "   not counted: other programs ran"), flush=True)
        return result if counts else None

    def _raw_loop(self, row, measured):
        """Measures operations a second of the raw loop, in as many threads as the worker has, and the processor time of one.
        Returns None if it says nothing about the row."""
        if row.latency or row.is_open or measured.raw is None:
            return None
        return measured.raw.measure(row.setup.sessions, min(BESIDE, self.seconds / SHARE))[:2]

    def _sample(self, kind):
        """Returns the path of a file with payment tokens, minted in this round."""
        path = pathlib.Path(f"sample-{kind}.json")
        path.write_bytes(b"\n".join(self.mint(f"authority/{kind}.pem").take(SAMPLE)) + b"\n")
        return path

    def _operations(self):
        seconds = min(ALONE, self.seconds / SHARE)
        for setup in (rows.BASE, rows.RSA):
            if setup in self.services:
                for kind in ("object", "copy"):
                    for threads in (1, 2, 4):
                        self._add(f"raw-{setup.kind}-{kind}-{threads}", self.services[setup].raw.measure(threads, seconds, kind))
        commands = {
            "p256-libcrypto": ["./primitives", "verify", seconds],
            "verification": ["verification-price", self._sample("ec"), seconds],
            "fdatasync": ["./primitives", "sync", seconds, os.getcwd()]}
        if any(setup.ledger == "postgresql" for setup in self.services):
            place = self.server.url("primitives", database.SUPERUSER)
            for kind in ("round-trip", "commit"):
                commands[f"server-{kind}"] = ["./primitives", kind, seconds, place]
        for name, command in commands.items():
            self._add(name, raw.Figures(*map(float, service.run(*command).split())))
        if rows.BASE in self.services:
            self._boundary(self.services[rows.BASE].token)

    def _boundary(self, token):
        """Measures the base's restorations through the worker's process and within one, in turns. A wrong answer ends the run."""
        said = service.run("boundary-price", token.module, token.name, token.pin, shutil.which("paytokend-hsm"),
                           rows.BASE.sessions, max(1, int(TURNS * self.seconds / 3)), TURN,
                           env={**os.environ, **token.environment})
        for who, count, took, used in map(str.split, said.decode().splitlines()):
            self.figures.add(f"boundary-{who}", {"rate": int(count) / float(took), "processor": float(used) / int(count) * 1e6})

    def _add(self, name, measured):
        self.figures.add(name, {**measured._asdict()})

    def finish(self):
        for measured in self.services.values():
            if measured.shop:
                self.wrong += measured.shop.gateway.stop()
            self.wrong += measured.check_ledger()
            self.wrong += measured.daemon.stop()
