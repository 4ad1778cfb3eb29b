"""Compares a daemon with few merchants' keys and one with many, with the same number of HSM tokens and sessions. HSM tokens and
ledger are filled while the daemon is stopped. It measures start-up, memory, the import of one more key, and lists.
scripts/bench has rows for the releases a second.

SoftHSM becomes slower with every object that it holds, so the figures of start-up and import are shown with the time of calls to
the HSM tokens. The soak fails if a release is refused or a list is incomplete.
"""
import collections
import contextlib
import json
import time

import deployment
import load
import raw
import service

# The number of the few keys.
BASE = 100


class Keys:
    """A daemon with `count` keys in `tokens` HSM tokens."""

    def __init__(self, tag, count, tokens):
        self.tag, self.count = tag, count
        self.there = deployment.Deployment(tag, {f"{tag}-{number}": deployment.InMemoryToken for number in range(tokens)},
                                           merchants=(), call_timeout="60s")
        self.daemon, self.tokens = self.there.daemon, self.there.tokens
        # The first start makes the audit key, which requires that ledger and HSM token are both new.
        self.daemon.start()
        began = time.monotonic()
        self.there.fill(count)
        self.filled = time.monotonic() - began

    def memory(self):
        """Returns the resident memory in MiB of the daemon, and of its workers together."""
        sizes = [service.memory(process) for process in self.daemon.processes()]
        return sizes[0], sum(sizes[1:])

    def alone(self):
        """Returns the resident memory in MiB of programs that only have the HSM tokens open, together."""
        found = 0.0
        for token in self.tokens:
            with raw.RawLoop(token, self.there.certificate(token)) as loop:
                loop.measure(1, 0.01)
                found += service.memory(loop.process.pid)
        return found

    def ask(self, path):
        """Returns seconds, status and body of a GET on the admin socket."""
        began = time.monotonic()
        status, body = load.once(self.daemon.admin, load.get(path))
        return time.monotonic() - began, status, body

    def calls(self):
        """Returns the total time of calls to all HSM tokens so far, in seconds by operation."""
        spent = collections.Counter()
        for line in self.ask("/metrics")[2].decode().splitlines():
            if line.startswith("paytokend_hsm_call_seconds_sum{"):
                labels, _, value = line.rpartition(" ")
                spent[labels.partition('operation="')[2].partition('"')[0]] += float(value)
        return spent

    def command(self, *arguments):
        """Returns the seconds that a command took, and its output."""
        began = time.monotonic()
        output = self.daemon.ctl(*arguments)
        return time.monotonic() - began, output

    def releases(self, wrong):
        """Releases some payment tokens for a key of each HSM token."""
        def answered(name, status, body, began, ended):
            if status != 200:
                wrong.append(f"{self.tag}: a payment token for a key in {name} was answered {status} {body[:200]}")
        load.drive(self.daemon.socket, 8, [
            (token.name, load.decrypt(minted)) for token in self.tokens
            for minted in service.mint(20, certificate=self.there.certificate(token))], answered)

    def import_one(self):
        name = f"{self.tag}-more"
        service.run("token-forge", "merchant", "authority", "--merchant-identifier", f"merchant.com.example.{name}",
                    "--type", "ec", "--name", name)
        before = self.calls()
        took, _ = self.command("key", "import", "--private-key", f"authority/{name}.key.pem", "--certificate",
                               f"authority/{name}.pem", "--token", self.tokens[0].name)
        return took, sum((self.calls() - before).values())

    def measure_start(self):
        """Starts the daemon. Returns rows by name: a value, its unit, and the HSM tokens' part of it (None if they have none)."""
        rows = {}
        started = self.daemon.start(limit=900)
        calls = self.calls()
        # The HSM tokens are opened at the same time, on all cores.
        rows["start-up"] = started, "s", None
        rows["  opening the tokens"] = calls["open"] / len(self.tokens), "s", "SoftHSM: C_Initialize, login, tiers"
        rows["  reading, testing keys"] = calls["list_keys"] / len(self.tokens), "s", "SoftHSM: attributes, one operation a pair"
        daemon, workers = self.memory()
        rows["memory, daemon"] = daemon, "MiB", None
        rows["memory, workers"] = workers, "MiB", "SoftHSM's objects, and the key map"
        rows["  SoftHSM alone"] = self.alone(), "MiB", "a program that has the same tokens open"
        return rows

    def measure_rest(self, wrong):
        """Measures the other rows, and stops the daemon."""
        rows = {}
        took, tokens = self.import_one()
        rows["import of one more"] = took, "s", None
        rows["  in the token"] = tokens, "s", "SoftHSM: searches by CKA_ID, C_CreateObject"
        took, output = self.command("key", "list", "--output", "json")
        rows["key list"] = took, "s", None
        listed = json.loads(output)
        if len(listed) != self.count + 1 or any(key["condition"] != "served" for key in listed):
            wrong.append(f"{self.tag}: {len(listed)} keys are listed, not {self.count + 1}, or not all are served")
        key = raw.public_key_hash(self.there.certificate(self.tokens[0]))
        rows["key show"] = self.command("key", "show", key)[0], "s", None
        rows["key suspend"] = self.command("key", "suspend", key, "--reason", "soak")[0], "s", None
        took, status, body = self.ask("/metrics")
        rows["/metrics"] = took, "s", None
        rows["  its size"] = len(body) / 1e6, "MB", None
        if status != 200 or body.count(b"\npaytokend_key_not_after_seconds{") != self.count + 1:
            wrong.append(f"{self.tag}: metrics do not show every key")
        rows["/readyz"] = self.ask("/readyz")[0], "s", None
        wrong += self.daemon.stop()
        return rows


def main(parser):
    options = service.parse(parser, keys=(10_000, 400, "the many"), tokens=(4, 2, "over which they are spread"))
    many, tokens, few = options.keys, options.tokens, 40 if options.short else BASE
    wrong = []
    sides = {}
    with contextlib.ExitStack() as stack:
        for tag, count in (("few", few), ("many", many)):
            sides[tag] = Keys(tag, count // tokens * tokens, tokens)
            stack.callback(sides[tag].daemon.stop)
            print(f"{sides[tag].count} keys with certificates in {tokens} tokens, filled in {sides[tag].filled:.1f} s",
                  flush=True)
        table = {tag: keys.measure_start() for tag, keys in sides.items()}
        for tag, keys in sides.items():
            keys.releases(wrong)
            table[tag].update(keys.measure_rest(wrong))
    small, large = table["few"], table["many"]
    print(f"{'':24} {few:>8} keys {many:>8} keys    each key more")
    for name, (value, unit, whose) in large.items():
        before = small[name][0]
        growth = (value - before) / (many - few)
        each = {"s": f"{growth * 1e6:10.1f} µs", "MiB": f"{growth * 1024:10.2f} KiB", "MB": f"{growth * 1e6:10.0f} B"}[unit]
        print(f"  {name:22} {before:10.3f} {unit:3} {value:9.3f} {unit:3} {each:16}  {whose or ''}", flush=True)
    return wrong
