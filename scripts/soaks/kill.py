"""Kills the daemon repeatedly with SIGKILL under load, stops it for moments (SIGSTOP), and suspends and resumes its keys meanwhile. No
crash may have these effects: an answered release that is missing in the ledger or is in it twice, a payment that is released again
after the restart, a release after a suspension, or a broken chain.

A third of the payment tokens are of Google Pay, the others of Apple Pay. Each of Google Pay has a twin, another message with the same
messageId. Some twins are sent at the same time, others after the release, with the same reference: at most one may be released.

Each round starts the daemon. It repeats the requests that the crash left unanswered with their reference, which must be answered.
It sends released payment tokens with another reference, which must be refused as replays. Then it puts load on the daemon, and
kills it at a random answer. Some callers name their attempts; of these, one in four has forgotten them. All requests and answers are
written to a history, which scripts/check-history judges. The kernel keeps the data that a killed process has written, so the soak
does not show the losses of a power cut.
"""
import collections
import json
import random
import threading
import time

import history
import load
import proof
import service


class Payment:
    """A payment token, and the attempts of its caller."""
    __slots__ = ("reference", "token", "transaction", "message", "twin", "is_named", "attempts")

    def __init__(self, reference, token, is_named, twin=None):
        """twin: the payment token of another message with the same messageId."""
        self.reference, self.token, self.is_named = reference, token, is_named
        self.transaction, self.message, self.twin, self.attempts = load.transaction(token), None, None, []
        if twin is not None:
            load.pair(self, Payment(reference, twin, is_named))


class Ask:
    """One request for a payment."""
    __slots__ = ("payment", "reference", "attempt", "after", "forgets")

    def __init__(self, payment, chance, reference=None, forgets=False):
        """reference: that of another caller. forgets: the caller does not name its earlier attempts."""
        self.payment, self.reference, self.forgets = payment, reference or payment.reference, forgets
        self.attempt = self.after = None
        if payment.is_named:
            self.attempt, self.after = f"{chance.getrandbits(64) or 1:016x}", [] if forgets else list(payment.attempts)
            if not forgets:
                payment.attempts.append(self.attempt)

    @property
    def request(self):
        return load.decrypt(self.payment.token, self.reference.encode(), attempt=self.attempt, after=self.after or ())


class Callers:
    """The requests of all rounds, and their answers."""

    def __init__(self, chance, keys, past=None):
        """keys: the merchant's, as service.Service.keys returns them. past: the history, by default a new one."""
        self.chance, self.keys, self.past, self.wrong = chance, keys, past or history.History(), []
        # The payments that were released, and those that may have been, by transactionId.
        self.released, self.open = {}, {}
        self.outcomes, self.counts = collections.Counter(), collections.Counter()

    def take(self, ask, status, body, began, ended):
        """Writes an answer to the history. Returns its result, which is the code of a refusal."""
        payment = ask.payment
        self.past.released(began, ended, "node-1", status, body, transaction=payment.transaction, message=payment.message,
                           reference=ask.reference, key=load.recipient(payment.token, self.keys), attempt=ask.attempt,
                           after=ask.after)
        result, facts = history.release_answer(status, body)
        if result in history.RELEASED:
            self.released[payment.transaction] = payment
            self.close(payment)
        elif payment.transaction not in self.released and not self.is_lost(payment):
            self.open[payment.transaction] = payment
        self.counts[result] += 1
        return result if result in history.RELEASED else facts.get("code", "unanswered")

    def close(self, payment):
        """Removes a payment and its twin from the open ones."""
        for either in filter(None, (payment, payment.twin)):
            self.open.pop(either.transaction, None)

    def is_lost(self, payment):
        """Returns True if the payment's twin was released."""
        return payment.twin is not None and payment.twin.transaction in self.released

    def under_load(self, ask, status, body, began, ended):
        outcome = self.take(ask, status, body, began, ended)
        self.outcomes[outcome] += 1
        # While it starts and ends, the daemon may refuse these requests only with 503.
        if status not in (None, 200, 503) and outcome != "key_not_active" and not (
                outcome == "transaction_replayed" and (ask.forgets or ask.payment.twin)):
            self.wrong.append(f"{ask.reference} was refused with {outcome} under load")

    def mint(self, count, first):
        """Returns `count` fresh payments, and twins of half of those of Google Pay. first: the number of the first one."""
        google = sum(self.chance.random() < 1 / 3 for _ in range(count)) if "google-pay" in self.keys else 0
        pairs = iter(service.mint(2 * google, *service.WITH_TWIN, certificate=service.GOOGLE_KEY) if google else ())
        tokens = [(token, None) for token in service.mint(count - google)] + list(zip(pairs, pairs))
        self.chance.shuffle(tokens)
        fresh = collections.deque()
        for number, (token, twin) in enumerate(tokens, first):
            payment = Payment(f"kill-{number}", token, self.chance.random() < 0.3, twin)
            fresh.append(payment)
            if twin and self.chance.random() < 0.5:
                fresh.append(payment.twin)
        return fresh

    def requests(self, fresh):
        """Yields fresh payments, and every eighth time a released one with its reference."""
        while fresh:
            known = list(self.released.values())[-200:]
            if known and self.chance.random() < 0.125:
                yield self.pair(Ask(self.chance.choice(known), self.chance, forgets=self.chance.random() < 0.25))
            yield self.pair(Ask(fresh.popleft(), self.chance))

    @staticmethod
    def pair(ask):
        return ask, ask.request

    def settle(self, daemon, asked):
        """Checks after a restart that each unanswered payment is had under its reference, or its twin. Asks for released ones with
        another reference, by a caller that has forgotten its attempts, or for their twins, which must be refused."""
        not_had = []

        def had(ask, status, body, began, ended):
            if status != 200:
                not_had.append((ask, status, body[:200]))
            self.take(ask, status, body, began, ended)
            self.outcomes["claimed before" if b'"repeated":true' in body else "not claimed before"] += status == 200
        load.drive(daemon.socket, 4, [self.pair(Ask(payment, self.chance)) for payment in list(self.open.values())], had)
        self.wrong += [f"{ask.reference} was unanswered, and is refused under its reference: {status} {body}"
                       for ask, status, body in not_had if status != 409 or not self.is_lost(ask.payment)]

        def refused(ask, status, body, began, ended):
            self.take(ask, status, body, began, ended)
            self.outcomes["replays refused"] += 1
            if (status, json.loads(body).get("code")) != (409, "transaction_replayed"):
                self.wrong.append(f"{ask.reference} was released before, and asked for again answers {status} {body[:200]}")

        def other(payment):
            if payment.twin and self.chance.random() < 0.5:
                self.outcomes["twins refused"] += 1
                return Ask(payment.twin, self.chance)
            if payment.is_named and self.chance.random() < 0.5:
                return Ask(payment, self.chance, forgets=True)
            return Ask(payment, self.chance, "another")
        load.drive(daemon.socket, 4, [self.pair(other(payment)) for payment in asked], refused)


class Disturbances:
    """Stops the daemon for moments, and suspends and resumes its keys, in a separate thread until `finish`."""

    def __init__(self, daemon, past, keys, chance):
        self.daemon, self.past, self.keys, self.chance = daemon, past, keys, chance
        self.counts, self.ended, self.thread, self.lock = collections.Counter(), threading.Event(), None, threading.Lock()

    def change(self, operation, key):
        """Suspends or resumes a key. Returns True if the command succeeded."""
        result = self.past.change(self.daemon, "node-1", operation, key)
        self.counts[f"{operation} {result}"] += 1
        return result == "done"

    def start(self):
        self.ended.clear()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ended.wait(self.chance.uniform(0, 0.3)):
            if self.chance.random() < 0.5:
                with self.lock:
                    if not self.ended.is_set():
                        stopped = service.stop(self.daemon.process.pid)
                        time.sleep(self.chance.uniform(0, 0.2))
                        service.go_on(stopped)
                        self.counts["stopped"] += 1
            elif self.change("suspend", key := self.chance.choice(list(self.keys.values()))):
                self.ended.wait(self.chance.uniform(0, 0.3))
                self.change("resume", key)

    def kill(self):
        """Kills the daemon when it is not stopped. Returns what Service.kill does."""
        self.ended.set()
        with self.lock:
            return self.daemon.kill()

    def finish(self):
        """Waits for the last disturbance of the killed daemon."""
        self.thread.join(service.GUARD)

    def resume(self):
        """Ends a suspension that the crash left."""
        for key in self.keys.values():
            if json.loads(self.daemon.ctl("key", "show", key, "--output", "json"))["state"] != "active":
                service.wait("the key's resumption", lambda: self.change("resume", key))


def main(parser):
    options = service.parse(parser, seed="of the random moments", rounds=(50, 3, "how often it is killed"),
                            clients=(16, 16, "connections"))
    rounds, chance = options.rounds, random.Random(options.seed)
    print(f"{rounds} rounds, {options.clients} clients, --seed {options.seed}")
    with service.Service() as daemon:
        seconds = daemon.start()
        daemon.import_merchant()
        daemon.import_merchant(service.GOOGLE)
        callers = Callers(chance, daemon.keys())
        disturbances = Disturbances(daemon, callers.past, callers.keys, random.Random(options.seed + 1))
        # After the last start there is no load, and all conditions must hold.
        for number in range(1, rounds + 2):
            if number > 1:
                seconds = daemon.start()
                disturbances.resume()
            known = list(callers.released.values())
            # A crash can lose only the newest releases, so only those are checked until the last round, which checks all.
            callers.settle(daemon, known if number > rounds else known[-100:])
            if number > rounds:
                break
            # The kill comes after this number of answers, so the daemon is under load on any machine. Only these payment tokens
            # and those under way can be used until then.
            last = chance.randint(1, 150 if options.short else 1000)
            fresh = callers.mint(last + options.clients, number * 10000)
            ended, taken, began = [], 0, time.monotonic()
            before = callers.outcomes.copy()
            disturbances.start()

            def answered(ask, status, body, began, now):
                nonlocal taken
                callers.under_load(ask, status, body, began, now)
                taken += status is not None
                if taken == last and not ended:
                    ended.append((time.monotonic(), disturbances.kill()))
            load.drive(daemon.socket, options.clients, callers.requests(fresh), answered)
            disturbances.finish()
            if not ended:
                raise service.Failed(f"round {number}: {taken} answers came, and the load was over before {last}")
            if not ended[0][1]:
                callers.wrong.append(f"round {number}: the worker was still there {service.GUARD} s after its daemon's end")
            since = callers.outcomes - before
            print(f"round {number:3}  ready in {seconds:4.1f} s, killed after {(ended[0][0] - began) * 1000:4.0f} ms: "
                  f"{since['released']} released, {since['repeated']} repeated, {len(callers.open)} open", flush=True)
        ledger, counts = proof.LedgerFile(), callers.outcomes
        found, there, _, _ = proof.recorded(ledger)
        wrong = callers.wrong + found + callers.past.judge(f"kill-{options.seed}", ledger.lines())
        print(f"answered    {callers.counts['released']} releases, {callers.counts['repeated']} repeats")
        print(f"ledger      {there['claims']} claims, {there['released']} releases ({there['google']} of Google Pay) and "
              f"{there['repeats']} repeats recorded")
        print(f"open        {counts['claimed before']} of {counts['claimed before'] + counts['not claimed before']} that were unanswered, "
              "or refused during a suspension, had been claimed before the crash; each was had under its reference")
        print(f"replays     {counts['replays refused']} transactions asked for again after a restart, by others or without attempts; "
              f"{counts['twins refused']} of them by another message with their messageId")
        print("meanwhile   " + ", ".join(f"{count} {what}" for what, count in sorted(disturbances.counts.items())))
        wrong += proof.verify(daemon)
        wrong += daemon.stop()
    return wrong
