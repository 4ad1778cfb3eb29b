"""Many merchants: a daemon with few keys and one with many, over as many tokens with as many sessions, side by side.
Tokens and ledger are filled while the daemon is stopped. Of each: start-up, memory, releases a second, the import of one
more key, lists.

SoftHSM slows with every object that it holds, so every figure stands beside what the tokens alone cost: the raw loop of
HSM operations on a session copy of the same keys, as the worker has them, and of start-up and import what was spent in
calls to the tokens.

Releases and raw loop are measured in turns, few and many keys one after the other in every round, so that whatever else
the machine does meets both; what counts is the rounds' median. Beside the rates stands the processor time of one release
and of one operation, which other programs on the machine change much less.

Wrong is a refused release, a list that is not whole, and releases that get slower with the number of keys by more than the
raw loop does, both by rate and by processor time.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import sqlite3
import statistics
import sys
import tempfile
import time

import load
import proof
import raw
import service

MODULE = os.environ.get("SOAK_MODULE", "")
# Of the few keys.
BASE = 100
YAML = """listener: {{ socket: {tag}.sock, admin_socket: {tag}-admin.sock }}
tokens:
{tokens}
trust: {{ roots: [authority/root.pem] }}
verification: {{ signing_time_window: 1d }}
ledger: {{ url: "sqlite:{tag}.sqlite" }}
log: {{ format: text }}
"""
TOKEN = """  - name: {name}
    module: {module}
    uri: "pkcs11:token={name}"
    pin_file: pin
    allow_extractable_secret: true
    environment: {{ SOFTHSM2_CONF: {conf} }}"""


class Keys:
    """A daemon with `count` keys in `tokens` tokens, each in a SoftHSM of its own, whose files are in `stores`."""

    def __init__(self, tag, count, tokens, stores):
        self.tag, self.count = tag, count
        self.names = [f"{tag}-{number}" for number in range(tokens)]
        self.confs = {name: str(pathlib.Path(f"{name}.conf").resolve()) for name in self.names}
        for name, conf in self.confs.items():
            store = pathlib.Path(stores, name)
            store.mkdir(mode=0o700)
            pathlib.Path(conf).write_text(
                f"directories.tokendir = {store}\nobjectstore.backend = file\nlog.level = ERROR\n")
            service.run("paytokenctl", "token", "init", "--module", MODULE, "--label", name, "--so-pin-file", "so-pin",
                        "--pin-file", "pin", env=self.environment(name))
        entries = [TOKEN.format(name=name, module=MODULE, conf=conf) for name, conf in self.confs.items()]
        pathlib.Path(f"{tag}.yaml").write_text(YAML.format(tag=tag, tokens="\n".join(entries)))
        self.daemon = service.Service(f"{tag}.yaml", f"{tag}.sock", f"{tag}-admin.sock", log="paytokend.log")
        # Makes the audit key, while ledger and token are both new.
        self.daemon.start()
        self.daemon.stop()
        self.filled = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(self.fill, self.names))
        self.filled = time.monotonic() - self.filled

    def fill(self, name):
        """At the same time as others, so with a ledger of its own, of which the daemon's gets the keys."""
        service.run("key-filler", f"{name}.sqlite", self.count // len(self.names), MODULE, name, "pin", "authority", name,
                    env=self.environment(name))
        with contextlib.closing(sqlite3.connect(f"{self.tag}.sqlite", timeout=60)) as ledger:
            ledger.execute("ATTACH ? AS filled", (f"{name}.sqlite",))
            with ledger:
                ledger.execute("INSERT INTO merchant_key SELECT * FROM filled.merchant_key")

    def environment(self, name):
        return {**os.environ, "SOFTHSM2_CONF": self.confs[name]}

    def memory(self):
        """Resident memory in MiB of the daemon, and of its workers together."""
        sizes = [service.resident(process) for process in self.daemon.processes()]
        return sizes[0], sum(sizes[1:])

    def ask(self, path):
        """Seconds, status and body of a GET on the admin socket."""
        began = time.monotonic()
        status, body = load.once(self.daemon.admin, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return time.monotonic() - began, status, body

    def calls(self):
        """Seconds that calls to the tokens took so far, by operation; the tokens' together."""
        spent = collections.Counter()
        for line in self.ask("/metrics")[2].decode().splitlines():
            if line.startswith("paytokend_hsm_call_seconds_sum{"):
                labels, _, value = line.rpartition(" ")
                spent[labels.partition('operation="')[2].partition('"')[0]] += float(value)
        return spent

    def command(self, *arguments):
        """Seconds that a command took, and what it printed."""
        began = time.monotonic()
        output = self.daemon.ctl(*arguments)
        return time.monotonic() - began, output

    def releases(self, seconds, debug, clients, wrong):
        """Releases a second over a key of each token, and the processor time of each in microseconds."""
        # Where the service takes them sooner, the time is as much shorter.
        each = int(seconds * (600 if debug else 2500)) // len(self.names)
        minted = [service.mint(each, certificate=f"authority/{name}.pem") for name in self.names]
        requests = [(index, load.decrypt(token)) for index, token in enumerate(sum(map(list, zip(*minted)), []))]
        times, refusals = [], collections.Counter()

        def answered(tag, status, body, began, ended):
            times.append(ended - began)
            if status != 200:
                refusals[json.loads(body).get("code", status) if body else "no answer"] += 1
        began, spent = time.monotonic(), self.daemon.cpu()
        load.drive(self.daemon.socket, clients, requests, answered, until=began + seconds)
        took, spent = time.monotonic() - began, self.daemon.cpu() - spent
        if refusals:
            wrong.append(f"{self.tag}: refused: {dict(refusals)}")
        return len(times) / took, spent / len(times) * 1e6

    def raw(self, seconds):
        """The raw loop on a key of each token, the tokens one after the other: operations a second on the token's object and
        on a session copy of it, which is what the worker uses, and the processor time of one on the copy in microseconds."""
        figures = []
        for name in self.names:
            with raw.RawLoop(name, f"authority/{name}.pem", environment=self.environment(name)) as loop:
                own, copy = loop.measure(2, seconds, "object"), loop.measure(2, seconds, "copy")
                figures.append((own.rate, copy.rate, copy.processor))
        return [statistics.mean(column) for column in zip(*figures)]

    def import_one(self):
        name = f"{self.tag}-more"
        service.run("token-forge", "merchant", "authority", "--merchant-identifier", f"merchant.com.example.{name}",
                    "--type", "ec", "--name", name)
        before = self.calls()
        took, _ = self.command("key", "import", "--private-key", f"authority/{name}.key.pem", "--certificate",
                               f"authority/{name}.pem", "--token", self.names[0])
        return took, sum((self.calls() - before).values())

    def measure_start(self):
        """Starts the daemon. Rows by name: a value, its unit, and what of it is the tokens' (None where it is not
        theirs)."""
        rows = {}
        started = self.daemon.start(limit=900)
        calls = self.calls()
        # Tokens are opened at the same time, on all cores.
        rows["start-up"] = started, "s", None
        rows["  opening the tokens"] = calls["open"] / len(self.names), "s", "SoftHSM: C_Initialize, login, tiers"
        rows["  reading, testing keys"] = calls["list_keys"] / len(self.names), "s", "SoftHSM: attributes, one operation a pair"
        daemon, workers = self.memory()
        rows["memory, daemon"] = daemon, "MiB", None
        rows["memory, workers"] = workers, "MiB", "SoftHSM's objects, and the key map"
        return rows

    def measure_rest(self, wrong):
        """Further rows; stops the daemon."""
        rows = {}
        took, tokens = self.import_one()
        rows["import of one more"] = took, "s", None
        rows["  in the token"] = tokens, "s", "SoftHSM: searches by CKA_ID, C_CreateObject"
        took, output = self.command("key", "list", "--output", "json")
        rows["key list"] = took, "s", None
        listed = json.loads(output)
        if len(listed) != self.count + 1 or any(key["condition"] != "served" for key in listed):
            wrong.append(f"{self.tag}: {len(listed)} keys are listed, not {self.count + 1}, or not all are served")
        key = raw.public_key_hash(f"authority/{self.names[0]}.pem")
        rows["key show"] = self.command("key", "show", key)[0], "s", None
        rows["key suspend"] = self.command("key", "suspend", key, "--reason", "soak")[0], "s", None
        took, status, body = self.ask("/metrics")
        rows["/metrics"] = took, "s", None
        rows["  its size"] = len(body) / 1e6, "MB", None
        if status != 200 or body.count(b"\npaytokend_key_not_after_seconds{") != self.count + 1:
            wrong.append(f"{self.tag}: metrics do not show every key")
        rows["/readyz"] = self.ask("/readyz")[0], "s", None
        if not self.daemon.stop():
            wrong.append(f"{self.tag}: the daemon did not end with 0 at SIGTERM")
        return rows


def rounds(sides, table, options, wrong):
    """Releases and raw loop of both sides in turns; their medians go into the table, the median of each round's ratio of
    many keys to few is given back by name."""
    rates = {tag: collections.defaultdict(list) for tag in sides}
    for number in range(1 if options.short else options.rounds):
        # Whoever is first has the cooler machine.
        for tag in (sides if number % 2 == 0 else reversed(sides)):
            token, copy, spent = sides[tag].raw(0.5 if options.short else 1)
            rates[tag]["raw loop, object"].append(token)
            rates[tag]["raw loop, copy"].append(copy)
            rates[tag]["  processor time of it"].append(spent)
        for tag in (sides if number % 2 == 0 else reversed(sides)):
            served, spent = sides[tag].releases(2 if options.short else options.seconds, options.debug, 8, wrong)
            rates[tag]["releases"].append(served)
            rates[tag]["  processor time of one"].append(spent)
    for tag, rows in rates.items():
        for name, values in rows.items():
            unit = "µs" if "processor" in name else "/s"
            table[tag][name] = statistics.median(values), unit, "SoftHSM" if "raw" in name or "of it" in name else None
    return {name: statistics.median(many / few for few, many in zip(rates["few"][name], rates["many"][name]))
            for name in rates["few"]}


def main():
    parser = argparse.ArgumentParser(prog="scripts/soak keys", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10_000, help="the many (10000; 400 with --short)")
    parser.add_argument("--tokens", type=int, default=4, help="over which they are spread (4; 2 with --short)")
    parser.add_argument("--rounds", type=int, default=9, help="of releases and raw loop (9; 1 with --short)")
    parser.add_argument("--seconds", type=float, default=3, help="of load a round (3; 2 with --short)")
    options = service.arguments(parser)
    many, tokens = (400, 2) if options.short else (options.keys, options.tokens)
    few = 40 if options.short else BASE
    wrong = []
    # SoftHSM writes a file for every object, several times: in memory that takes a tenth of the time.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    sides = {}
    with contextlib.ExitStack() as stack:
        for tag, count in (("few", few), ("many", many)):
            stores = stack.enter_context(tempfile.TemporaryDirectory(prefix="paytokend.", dir=memory))
            sides[tag] = Keys(tag, count // tokens * tokens, tokens, stores)
            stack.callback(sides[tag].daemon.stop)
            print(f"{sides[tag].count} keys with certificates in {tokens} tokens, filled in {sides[tag].filled:.1f} s",
                  flush=True)
        table = {tag: keys.measure_start() for tag, keys in sides.items()}
        ratios = rounds(sides, table, options, wrong)
        for tag, keys in sides.items():
            table[tag].update(keys.measure_rest(wrong))
    small, large = table["few"], table["many"]
    print(f"{'':24} {few:>8} keys {many:>8} keys    each key more")
    for name, (value, unit, whose) in large.items():
        before = small[name][0]
        growth = (value - before) / (many - few)
        each = {"s": f"{growth * 1e6:10.1f} µs", "MiB": f"{growth * 1024:10.2f} KiB", "MB": f"{growth * 1e6:10.0f} B"}.get(
            unit, f"{value / before:10.2f} times")
        print(f"  {name:22} {before:10.3f} {unit:3} {value:9.3f} {unit:3} {each:16}  {whose or ''}", flush=True)
    served, alone = ratios["releases"], ratios["raw loop, copy"]
    of_tokens = [served / min(alone, 1)]
    print(f"look-up     {many} keys serve {served:.2f} times as many releases as {few}; the tokens alone do {alone:.2f} "
          f"times as many operations ({ratios['raw loop, object']:.2f} on the tokens' own objects): "
          f"{served / min(alone, 1):.2f} of that")
    # What else runs on the machine changes rates from one round to the next, and processor time hardly.
    served, alone = 1 / ratios["  processor time of one"], 1 / ratios["  processor time of it"]
    print(f"by time     of a processor {many} keys get {served:.2f} times as many releases as {few}, and the tokens alone do "
          f"{alone:.2f} times as many operations: {served / min(alone, 1):.2f} of that")
    of_tokens.append(served / min(alone, 1))
    # A short run on a debug build says little about speed.
    if not options.short and max(of_tokens) < 0.97:
        wrong.append("releases get slower with the number of keys by more than the tokens do")
    return proof.verdict(wrong)


if __name__ == "__main__":
    with service.cleaning():
        sys.exit(main())
