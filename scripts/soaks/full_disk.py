"""Fills the ledger's disk under load, and frees it again. The disk is a tmpfs of 128 MiB that no other program sees.

While the disk is full, no payment may be released without a record. New payment tokens get 503 ledger_unavailable, or 200 as long
as there is still room for their record. Refusals must keep their own codes, the daemon must not be ready, and must report the
fault in a few log lines. It must recover by itself when there is room again. Callers then repeat the refused requests with their
references, which must succeed. At the end, the record must contain every answer, and verify.
"""
import collections
import contextlib
import itertools
import json
import os
import time

import load
import proof
import service

# Requests that are refused regardless of the ledger's disk, and their codes.
REFUSALS = {
    "signature": (422, "signature_invalid"), "unknown key": (422, "unknown_public_key_hash"),
    "amount": (422, "amount_mismatch"), "envelope": (400, "malformed_request"), "replay": (409, "transaction_replayed"),
}


class Watch:
    """Keeps the times at which readiness changed. The caller must call `look` repeatedly."""

    def __init__(self, daemon):
        self.daemon, self.changes = daemon, []

    def look(self):
        ready = self.daemon.is_ready()
        if not self.changes or self.changes[-1][1] != ready:
            self.changes.append((time.monotonic(), ready))

    def first(self, ready, after):
        """Returns the seconds from `after` until the first change to this state, or None if there was none."""
        return next((moment - after for moment, state in self.changes if state == ready and moment >= after), None)


class Caller:
    """Sends releases, repeats and refused requests, and keeps the answers by phase."""

    def __init__(self, fresh):
        self.fresh, self.numbers = fresh, itertools.count()
        self.bad = {"signature": service.mint(1, "--deviation", "flipped-signature")[0],
                    "unknown key": service.mint(1, "--deviation", "unknown-public-key-hash")[0],
                    "amount": service.mint(1)[0]}
        self.answers, self.phase = proof.Answers(), "before"
        self.outcomes = collections.defaultdict(collections.Counter)
        # The payment tokens that were refused because of the disk, and those that were released, each with its reference.
        self.put_off, self.tokens = {}, collections.deque(maxlen=500)
        self.first = {}
        self.turn = self.refused = self.minutes_ended_while_full = 0

    def requests(self, count):
        """Yields `count` requests, and None while no fresh payment token is available."""
        kinds = ["fresh", "signature", "fresh", "replay", "fresh", "unknown key", "fresh", "repeat", "fresh", "amount",
                 "fresh", "envelope"]
        end = self.turn + count
        while self.turn < end:
            kind = kinds[self.turn % len(kinds)]
            if kind in ("replay", "repeat") and not self.tokens:
                kind = "fresh"
            token = self.fresh.ready() if kind == "fresh" else None
            if kind == "fresh" and token is None:
                yield None
                continue
            self.turn += 1
            if kind in self.bad:
                expected = b'{"transactionAmount":1}' if kind == "amount" else None
                yield (kind, None, None), load.decrypt(self.bad[kind], b"refused", expected)
            elif kind == "envelope":
                yield (kind, None, None), load.post(b"/v1/decrypt", b'{"token":{},"unknown":1}')
            elif kind in ("replay", "repeat"):
                reference, token = self.tokens[self.turn % len(self.tokens)]
                asked = reference if kind == "repeat" else "another"
                yield (kind, reference, token), load.decrypt(token, asked.encode())
            else:
                number = next(self.numbers)
                yield ("fresh", f"disk-{number}", token), load.decrypt(token, b"disk-%d" % number)

    def answered(self, tag, status, body, began, ended):
        kind, reference, token = tag
        if status is None:
            self.answers.wrong.append(f"a {kind} request was not answered")
            return
        code = "released" if status == 200 else json.loads(body).get("code", str(status))
        if status == 200:
            if json.loads(body)["repeated"]:
                code = "repeated"
            self.answers.take(reference, body)
            if kind == "fresh":
                self.tokens.append((reference, token))
        else:
            self.refused += 1
        self.outcomes[self.phase][kind, code] += 1
        self.first.setdefault((self.phase, code), ended)
        if kind in REFUSALS:
            if (status, code) != REFUSALS[kind]:
                self.answers.wrong.append(f"{self.phase}: a {kind} was answered {status} {code}")
        elif status == 503 and code == "ledger_unavailable" and not self.phase.startswith("before"):
            if kind == "fresh":
                self.put_off[reference] = token
        elif status != 200:
            self.answers.wrong.append(f"{self.phase}: a {kind} token was answered {status} {code}")


def cycle(number, daemon, caller, watch, count):
    """Puts load on the daemon, fills the disk, and frees it. Returns how long it was full."""
    path = "small/filler"

    def ask(count):
        load.drive(daemon.socket, 8, caller.requests(count), caller.answered, limit=service.GUARD)

    def wait(what, has_come):
        """Puts load on the daemon until an event."""
        return service.wait(f"cycle {number}: {what}", lambda: has_come() or ask(100), pause=0)
    caller.phase = f"before {number}"
    ask(count)
    full, minute = time.monotonic(), time.time() // 60
    service.fill(path)
    caller.phase = f"full {number}"

    def is_refused():
        # The ledger accepts releases for a while if its own files have room. This is correct, because every release is stored.
        service.fill(path)
        return caller.first.get((caller.phase, "ledger_unavailable"))
    refused = wait("a refusal while the disk was full", is_refused)
    ask(count)
    down = wait("readiness going down", lambda: watch.first(False, full))
    freed = time.monotonic()
    os.unlink(path)
    caller.phase = f"freed {number}"
    released = wait("a release after the disk was freed", lambda: caller.first.get((caller.phase, "released")))
    back = wait("readiness after the disk was freed", lambda: watch.first(True, freed))
    caller.minutes_ended_while_full += time.time() // 60 - minute
    full_outcomes = caller.outcomes[f"full {number}"]
    kept = sum(count for (kind, _), count in full_outcomes.items() if kind in REFUSALS)
    print(f"cycle {number}     full: first 503 after {refused - full:.2f} s, not ready after {down:.2f} s; "
          f"freed: released again after {released - freed:.2f} s, ready after {back:.2f} s")
    print(f"            while full: {full_outcomes['fresh', 'released']} released with their record, "
          f"{full_outcomes['fresh', 'ledger_unavailable']} refused 503, {kept} others refused with their own codes")
    return released - full


def main(parser):
    options = service.parse(parser, cycles=(5, 1, "how often it fills up"),
                            requests=(4000, 300, "of load before, and again while it is full"))
    cycles, count = options.cycles, options.requests
    with contextlib.ExitStack() as ending:
        daemon = ending.enter_context(service.serving())
        caller = Caller(ending.enter_context(service.Minter()))
        watch = Watch(daemon)
        with service.repeating(watch.look, 0.1):
            outage = sum(cycle(number, daemon, caller, watch, count) for number in range(1, cycles + 1))
        # Every payment token that was refused because of the disk must still be usable.
        caller.phase = "afterwards"
        put_off = list(caller.put_off.items())
        load.drive(daemon.socket, 8, [(("put off", reference, token), load.decrypt(token, reference.encode()))
                                      for reference, token in put_off], caller.answered)
        had = sum(count for (kind, code), count in caller.outcomes["afterwards"].items() if code == "released")
        print(f"put off     {len(put_off)} tokens were refused for the disk; all had afterwards under their references, "
              f"{len(put_off) - had} of them as repeats")
        wrong = list(caller.answers.wrong)
        wrong += proof.verify(daemon)
        wrong += daemon.stop()
        found, counts = proof.compare(proof.LedgerFile("small/ledger.sqlite"), caller.answers)
        wrong += found
        print(f"answered    {len(caller.answers.released)} releases, {len(caller.answers.repeated)} repeats, "
              f"{caller.refused} refusals")
        print(f"record      {counts['released']} releases, {counts['repeats']} repeats, {counts['refused']} refusals, and "
              f"{counts['dropped']} records dropped and counted while there was no room")
        # A summary of refusals whose minute ends while the disk is full may be lost. It counts as one dropped record.
        missing = caller.refused - counts["refused"] - counts["dropped"]
        if missing < 0 or missing > 0 and not caller.minutes_ended_while_full:
            wrong.append("refusals recorded and counted as dropped are not those that were answered")
        with open(daemon.log, encoding="utf-8", errors="replace") as log:
            said = sum(" error " in line and "component=ledger" in line for line in log)
        print(f"log         {said} lines about the ledger's faults")
        # Four lines are permitted for each cycle, and one more for every ten seconds of outage.
        if said > 4 * cycles + outage / 10:
            wrong.append(f"the log has {said} lines about {cycles} faults, {outage:.0f} s in all")
    return wrong
