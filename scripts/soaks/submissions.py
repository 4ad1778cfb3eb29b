"""Payments through paytoken-gateway to processor-simulator, whose log is the judge: no payment is submitted twice, and what
became of each is known.

Three kinds of rounds. In the first the gateway, paytokend and the simulator are killed by SIGKILL in turns, each at a random
answer under load, in which one payment in ten is lost in some way at the simulator (not answered, cut off, answered by
another's answer or by none that can be read). All three are started again, and every payment without an answer, or with a 503,
is sent again as it was until it has one. In the second the gateway's store is copied under load, goes on, and is replaced by the
copy; then every payment of before is sent again. Last is the rate of payments beside that of paytokend's own releases.

Wrong is: a payment that was submitted twice; one that the client was told is refused and that was submitted; one that was told
authorized, captured or declined and was not, or otherwise; one that is pending in the end and cannot be resolved.
What a killed process has written stays in the kernel's cache, so this does not show what a power cut could lose.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import time

import load
import proof
import service

# The simulator's amounts, in cents, and how many in a hundred have them.
PLAIN = {1000: 80, 1080: 5, 1081: 5}
LOST = {1084: 2, 1085: 2, 1086: 2, 1087: 2, 1090: 1, 1092: 1}
VICTIMS = ("gateway", "paytokend", "simulator")
ASK = b"GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"


class Program:
    """The gateway or the simulator."""

    def __init__(self, socket, *command):
        self.socket, self.command, self.process = socket, command, None

    def start(self):
        with open(f"{self.socket}.log", "ab") as log:
            self.process = subprocess.Popen(self.command, stderr=log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + service.GUARD
        while not load.connects(self.socket):
            if self.process.poll() is not None or time.monotonic() > until:
                raise service.Failed(f"{self.command[0]} does not serve: "
                                     + pathlib.Path(f"{self.socket}.log").read_text(errors="replace")[-500:])
            time.sleep(0.01)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        if self.process.wait(service.GUARD) != 0:
            raise service.Failed(f"{self.command[0]} ended with {self.process.returncode}")


class Payment:
    """One payment token, and what its client was told."""
    __slots__ = ("identifier", "cents", "request", "told", "code")

    def __init__(self, token, cents, key):
        self.identifier = json.loads(token)["paymentData"]["header"]["transactionId"]
        self.cents, self.told, self.code = cents, None, None
        body = (b'{"token":' + token.strip() + b',"orderId":"order-%s","expected":{"amount":"%d.%02d","currency":"USD"}}'
                % (self.identifier[:12].encode(), cents // 100, cents % 100))
        self.request = load.post(b"/payments/apple-pay", body).replace(
            b"\r\nContent-Type", b"\r\nAuthorization: Bearer " + key + b"\r\nContent-Type", 1)

    def take(self, status, body):
        """Whether that was an answer; 503 and none are not."""
        if status == 200:
            self.told = json.loads(body)["status"]
        elif status == 422 and json.loads(body)["code"] in ("payment_declined", "payment_failed"):
            self.told = {"payment_declined": "declined", "payment_failed": "error"}[json.loads(body)["code"]]
        elif status in (None, 0, 503):
            return False
        else:
            self.told, self.code = "refused", f"{status} {json.loads(body).get('code')}"
        return True


class Shop:
    """All three programs, and the payments so far."""

    def __init__(self, daemon, chance):
        self.daemon, self.chance = daemon, chance
        here, key = os.getcwd(), json.loads(service.run("paytoken-gateway", "new-key", "--output", "json"))
        self.key = key["key"].encode()
        pathlib.Path("gateway.yaml").write_text(
            "listener: { address: 'unix:gateway.sock' }\nadmin: { socket: gateway-admin.sock }\n"
            f"paytokend: {{ socket: {daemon.socket}, timeout: 2s }}\n"
            "limits: { requests_per_second: 100000, burst: 100000, max_connections_per_client: 1024 }\n"
            "store: { url: 'sqlite:store/payments.sqlite' }\ndeadline: 3s\n"
            f"processors: [{{ name: simulator, kind: simulator, url: 'unix:{here}/simulator.sock', merchants: ['*'] }}]\n"
            f"clients: [{{ name: shop, key_sha256: '{key['key_sha256']}', merchants: ['*'], operations: [pay, status] }}]\n"
            "log: { level: warning }\n")
        os.makedirs("store", mode=0o700, exist_ok=True)
        self.gateway = Program("gateway.sock", "paytoken-gateway", "--config", "gateway.yaml")
        self.simulator = Program("simulator.sock", "processor-simulator", "--listen", f"unix:{here}/simulator.sock",
                                 "--log", f"{here}/simulator.log")
        self.payments, self.counts = [], collections.Counter()

    def mint(self, count):
        """So many payments, with amounts mixed by chance."""
        amounts = {**PLAIN, **LOST}
        wanted = collections.Counter(self.chance.choices(list(amounts), list(amounts.values()), k=count))
        minted = [Payment(token, cents, self.key) for cents, number in wanted.items()
                  for token in service.mint(number, "--amount", str(cents))]
        self.chance.shuffle(minted)
        self.payments += minted
        return minted

    def send(self, payments, clients, tick=None):
        """Each of them once. Returns those without an answer."""
        left = []

        def answered(payment, status, body, began, ended):
            self.counts["answers" if status else "broken"] += 1
            if not payment.take(status, body):
                left.append(payment)
            if tick:
                tick()
        load.drive(self.gateway.socket, clients, [(payment, payment.request) for payment in payments], answered)
        seen = {id(payment) for payment in left}
        # Those that were not even sent, since nobody accepted any more.
        return left + [payment for payment in payments if payment.told is None and id(payment) not in seen]

    def settle(self, payments):
        """Sends again what has no answer until all have one."""
        until = time.monotonic() + service.GUARD
        while payments:
            if time.monotonic() > until:
                raise service.Failed(f"{len(payments)} payments had no answer {service.GUARD} s after the last fault")
            self.counts["sent again"] += len(payments)
            payments = self.send(payments, 8)
            time.sleep(0.2)

    def pending(self):
        return [item["transactionId"] for item in json.loads(service.run(
            "paytoken-gateway", "payment", "list", "--state", "pending", "--limit", "1000", "--output", "json", "--socket",
            "gateway-admin.sock"))["items"]]

    def status(self, payment):
        status, body = load.once(self.gateway.socket, ASK % (b"/payments/apple-pay/" + payment.identifier.encode(), self.key))
        return json.loads(body)["status"] if status == 200 else status

    def submissions(self):
        """By payment, the outcome of each submission, by the simulator's log."""
        found = collections.defaultdict(list)
        for line in pathlib.Path("simulator.log").read_text().splitlines():
            entry = json.loads(line)
            if entry["event"] == "submitted":
                found[entry["payment"]].append(entry["outcome"])
        return found


def crash(shop, number, victim, clients, short):
    """One round: load, SIGKILL at a random answer, everything started again, everything answered."""
    payments = shop.mint(60 if short else 200)
    last, seen, killed = shop.chance.randint(1, len(payments) // 2), 0, []

    def tick():
        nonlocal seen
        seen += 1
        if seen == last:
            killed.append(victim)
            shop.daemon.kill() if victim == "paytokend" else getattr(shop, victim).kill()
    left = shop.send(payments, clients, tick)
    if not killed:
        raise service.Failed(f"round {number}: the load was over before answer {last}")
    if victim == "paytokend":
        shop.daemon.start()
    else:
        getattr(shop, victim).start()
    shop.settle(left)
    print(f"round {number:3}  {victim:9} killed at answer {last:3}: {len(left):3} of {len(payments)} sent again", flush=True)


def restore(shop, number, clients, short):
    """The store is replaced by a copy that was made under load."""
    payments = shop.mint(60 if short else 200)
    at, seen = shop.chance.randint(1, len(payments) // 2), 0

    def tick():
        nonlocal seen
        seen += 1
        if seen == at:
            pathlib.Path("store/copy").unlink(missing_ok=True)
            with sqlite3.connect("file:store/payments.sqlite?mode=ro", uri=True) as source, \
                    sqlite3.connect("store/copy") as copy:
                source.backup(copy)
    shop.settle(shop.send(payments, clients, tick))
    before = {payment.identifier: payment.told for payment in payments}
    shop.gateway.stop()
    for suffix in ("-wal", "-shm"):
        pathlib.Path("store/payments.sqlite" + suffix).unlink(missing_ok=True)
    os.chmod("store/copy", 0o600)
    os.replace("store/copy", "store/payments.sqlite")
    shop.gateway.start()
    shop.settle(shop.send(payments, clients))
    refused = sum(payment.told == "refused" for payment in payments)
    # The copy tells what it knew; what it does not know is refused, and was told before.
    for payment in payments:
        if payment.told == "refused":
            payment.told, payment.code = before[payment.identifier], None
    print(f"restore {number:2} copied at answer {at:3}: {refused} of {len(payments)} unknown to the copy and refused",
          flush=True)


def judge(shop):
    """What is wrong, by the simulator's log."""
    wrong, submitted = [], shop.submissions()
    for identifier, outcomes in submitted.items():
        if len(outcomes) > 1:
            wrong.append(f"{identifier} was submitted {len(outcomes)} times")
    told = collections.Counter()
    for payment in shop.payments:
        outcomes = submitted.get(payment.identifier, [])
        told[payment.told] += 1
        if payment.told == "refused" and (outcomes or not payment.code.startswith("409 transaction_replayed")):
            wrong.append(f"{payment.identifier} was told {payment.code}, and submitted {len(outcomes)} times")
        if payment.told in ("authorized", "captured", "declined") and not outcomes:
            wrong.append(f"{payment.identifier} was told {payment.told}, and never submitted")
        expected = {1080: "captured", 1081: "declined"}.get(payment.cents, "authorized")
        if payment.told in ("authorized", "captured", "declined") and payment.told != expected:
            wrong.append(f"{payment.identifier} was told {payment.told} instead of {expected}")
    print(f"told        {', '.join(f'{count} {state}' for state, count in told.most_common())}")
    print(f"simulator   {sum(map(len, submitted.values()))} submissions of {len(submitted)} payments, "
          f"{sum(len(outcomes) > 1 for outcomes in submitted.values())} submitted twice")
    return wrong


def resolve(shop):
    """Everything that is pending in the end gets a fate: by the simulator where it knows, else by a person."""
    until = time.monotonic() + service.GUARD
    known = shop.submissions()
    while waiting := [identifier for identifier in shop.pending() if identifier in known]:
        if time.monotonic() > until:
            return [f"{identifier} is pending, though the simulator knows it" for identifier in waiting]
        time.sleep(1)
    by_hand = shop.pending()
    for identifier in by_hand:
        service.run("paytoken-gateway", "payment", "resolve", identifier, "--status", "error", "--reason",
                    "no trace at the simulator", "--socket", "gateway-admin.sock")
    print(f"pending     {len(by_hand)} had no trace at the simulator, and were resolved by hand")
    return [f"{identifier} is still pending" for identifier in shop.pending()]


def rates(shop, seconds, clients):
    """Payments a second, and paytokend's own releases a second; in turns, the medians."""
    def measure(socket, requests):
        done, began = 0, time.monotonic()

        def answered(tag, status, body, start, end):
            nonlocal done
            if status != 200:
                raise service.Failed(f"answered {status} {body[:200]}")
            done += 1
        load.drive(socket, clients, requests, answered)
        return done / (time.monotonic() - began)
    figures = {"payments": [], "releases": []}
    for turn in range(3):
        tokens = service.mint(400 * seconds, "--amount", "1000")
        figures["releases"].append(measure(shop.daemon.socket, [
            (number, load.decrypt(token, b"rate-%d-%d" % (turn, number))) for number, token in enumerate(tokens)]))
        payments = [Payment(token, 1000, shop.key) for token in service.mint(400 * seconds, "--amount", "1000")]
        figures["payments"].append(measure(shop.gateway.socket, [(one, one.request) for one in payments]))
    payments, releases = (sorted(figures[name])[1] for name in ("payments", "releases"))
    print(f"rate        {clients} clients: {payments:.0f} payments/s, {releases:.0f} releases/s: {payments / releases:.2f}")


def main():
    parser = argparse.ArgumentParser(prog="scripts/soak payments", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="how often each program is killed (50; 1 with --short)")
    parser.add_argument("--restores", type=int, default=10, help="how often the store is restored (10; 1 with --short)")
    parser.add_argument("--clients", type=int, default=32, help="connections (32)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the random moments")
    options = service.arguments(parser)
    rounds, restores = (1, 1) if options.short else (options.rounds, options.restores)
    print(f"{rounds} rounds, {restores} restores, {options.clients} clients, --seed {options.seed}")
    with service.Service() as daemon:
        daemon.start()
        daemon.import_merchant()
        shop = Shop(daemon, random.Random(options.seed))
        try:
            shop.simulator.start()
            shop.gateway.start()
            for number in range(1, rounds + 1):
                for victim in VICTIMS:
                    crash(shop, number, victim, options.clients, options.short)
            wrong = resolve(shop)
            for number in range(1, restores + 1):
                restore(shop, number, options.clients, options.short)
            wrong += resolve(shop) + judge(shop)
            print(f"requests    {shop.counts['answers']} answered, {shop.counts['broken']} broken, "
                  f"{shop.counts['sent again']} sent again")
            if not options.short:
                rates(shop, 10, options.clients)
            shop.gateway.stop()
            shop.simulator.stop()
        finally:
            for program in (shop.gateway, shop.simulator):
                if program.process is not None and program.process.poll() is None:
                    program.kill()
        if not daemon.stop():
            wrong.append("the daemon did not end with 0 at SIGTERM")
    return proof.verdict(wrong)


if __name__ == "__main__":
    with service.cleaning():
        sys.exit(main())
