"""Payments through paytoken-gateway to processor-simulator, whose log is the reference. No payment may be submitted twice, and
the result of each must be known.

A third of the payment tokens are of Google Pay, the others of Apple Pay.

The load loses one payment in ten in some way at the simulator (not answered, cut off, answered with another's answer or with one that
cannot be read). There are six kinds of rounds:
  kill     the gateway, paytokend and the simulator are killed by SIGKILL in turns, each at a random answer, and started again; or
           they are stopped by SIGSTOP, and go on after some seconds; or the gateway's clock is set, ahead or back (Debian's
           libfaketime; not with --short)
  cut      two proxies, one in front of paytokend and one in front of the simulator, disturb one connection in four: before the request,
           in it, after it, or in the answer. Half of these are cut, half held for a while. One client in ten leaves before its answer
  disk     the store is on a small file system, which is filled at a random answer and freed after refusals
  restore  the store is copied under load, goes on, and is replaced by the copy; then every earlier payment is sent again
  rate     payments a second, compared with paytokend's own releases
  pair     two gateways share a store in PostgreSQL, and the same client sends every payment token to both at the same time; one
           of both gateways, paytokend, the simulator and the database's server are killed in turns, as above; and a proxy in front
           of the database cuts all its connections at once, and each new one after some messages, or holds it for a while
Every payment without an answer, or with a 503, is sent again unchanged to the same gateway until it is answered.

All requests, answers and submissions are a history, which scripts/check-history judges: no payment is submitted twice, or submitted
although its client got a refusal, or has several results. Also wrong are a payment whose client got another result than its amount
causes; one that is pending in the end and cannot be resolved, or whose result then differs from the simulator's; and a step of a payment
that no kill met.
What a killed process has written stays in the kernel's cache, so this does not show what a power cut could lose.
"""
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import random
import shutil
import socket
import sqlite3
import threading
import time

import clocks
import cutter
import database
import load
import service
from shop import Payment, Shop

# The results that the gateway must give for the simulator's outcomes, without `authorized`.
FATES = {"captured": "captured", "insufficient_funds": "declined", "do_not_honor": "declined", "error": "error"}
# The steps at which a kill of the gateway can interrupt a payment: before paytokend's release is stored, before the simulator has
# the payment, and after that.
STEPS = ("received", "submitting", "submitted")
# The longest time, in seconds, for which a proxy holds a connection: longer than the gateway's deadlines.
HOLD = 4
# The database roles of the store that two gateways share.
OWNER, GATEWAY = "payments_owner", "paytoken_gateway"


class At:
    """Acts once, at a random answer in the first half of all answers. The caller must call it for every answer."""

    def __init__(self, chance, answers, action):
        self.number, self.action = chance.randint(1, answers // 2), action
        self.seen, self.lock = 0, threading.Lock()

    def __call__(self):
        with self.lock:
            self.seen += 1
            if self.seen == self.number:
                self.action()

    def must_have_come(self):
        if self.seen < self.number:
            raise service.Failed(f"the load was over before answer {self.number}")


def killed(program):
    """Kills a program. Returns the function that repairs this, as the following ones do."""
    program.kill()
    return program.start


def stopped(program, seconds):
    """Stops a program for longer than some deadlines."""
    processes = service.stop(program.process.pid)
    timer = threading.Timer(seconds, service.go_on, [processes])
    timer.daemon = True
    timer.start()
    return timer.join


def cut_off(relay):
    """Cuts a relay's connections, and disturbs all new ones."""
    relay.one_in = 1
    relay.cut_all()
    return lambda: setattr(relay, "one_in", None)


def set_clock(clock, seconds):
    clock.set(seconds)
    return lambda: clock.set(0)


def disturbances(programs, shops, relay=None):
    """Yields a description and a function for each disturbance of a round."""
    chance = shops[0].chance
    for name, program in programs.items():
        yield f"{name} killed", lambda: killed(program)
        seconds = chance.uniform(0.5, 4)
        yield f"{name} stopped for {seconds:.1f} s", lambda: stopped(program, seconds)
    for shop in shops:
        if shop.clock:
            # Clocks of two gateways have to agree within five seconds.
            seconds = chance.choice([-1, 1]) * chance.randint(1, 2 if len(shops) > 1 else 3600)
            yield f"{shop.name}'s clock {seconds:+} s", lambda: set_clock(shop.clock, seconds)
    if relay:
        yield "database cut off", lambda: cut_off(relay)


def crash(shops, number, what, strike, clients, short):
    """Runs one round: sends the same payments to every shop's gateway, disturbs a program at a random answer, repairs that, and sends
    until all are answered."""
    first, count, repair = shops[0], (40 if len(shops) > 1 else 60) if short else 200, []
    batches = [first.mint(count)]
    for other in shops[1:]:
        batches.append([payment.again() for payment in batches[0]])
        other.payments += batches[-1]
    at = At(first.chance, count * len(shops), lambda: repair.append(strike()))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        left = list(pool.map(lambda shop, batch: shop.send(batch, clients // len(shops), at), shops, batches))
        at.must_have_come()
        if what == "gateway killed":
            first.steps += steps(first)
        repair[0]()
        list(pool.map(Shop.settle, shops, left))
    print(f"round {number:3}  {what} at answer {at.number:3}: {sum(map(len, left)):3} of {count * len(shops)} sent again", flush=True)


def steps(shop):
    """Counts the steps of the killed gateway's payments. It reads a copy of the store, because opening the store would repair
    it."""
    found, submitted = collections.Counter(), shop.submissions()
    shutil.rmtree("copied", ignore_errors=True)
    shutil.copytree("store", "copied")
    with contextlib.closing(sqlite3.connect("copied/payments.sqlite")) as store:
        for state, transaction in store.execute(
                "SELECT state, lower(hex(transaction_id)) FROM payment WHERE state IN ('received', 'submitting')"):
            found[state if state == "received" else "submitted" if transaction in submitted else "submitting"] += 1
    return found


def leave(shop, payments):
    """Sends payments like clients that do not wait for their answers."""
    for payment in payments:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(shop.gateway.socket)
            connection.sendall(payment.request)


def cut(shop, number, clients, short):
    """Runs one round with connections that are cut on both sides of the gateway."""
    payments = shop.mint(60 if short else 200)
    seed = shop.chance.randrange(1 << 32)
    shop.wrong += shop.gateway.stop()
    with cutter.Cutter("cut-paytokend.sock", shop.daemon.socket, 4, seed, HOLD) as before, \
            cutter.Cutter("cut-simulator.sock", "simulator.sock", 4, seed + 1, HOLD) as after:
        shop.configure(paytokend="cut-paytokend.sock", simulator="cut-simulator.sock")
        shop.gateway.start()
        leave(shop, payments[::10])
        left = shop.send(payments, clients)
        shop.settle(left)
        shop.wrong += shop.gateway.stop()
        print(f"cut {number:5}  {sum(before.cuts.values()):3} connections to paytokend, {sum(after.cuts.values())} to the "
              f"simulator, {before.holds} and {after.holds} held: {len(left)} of {len(payments)} sent again", flush=True)
        shop.cuts += before.cuts + after.cuts
    shop.configure()
    shop.gateway.start()


def disk(shop, number, clients, short):
    """Runs one round in which the store's disk is full for a while."""
    payments = shop.mint(60 if short else 200)
    move_store(shop, "store", "small/store")
    at = At(shop.chance, len(payments), lambda: service.fill("small/filler"))
    left, extra = shop.send(payments, clients, at), []

    def is_refused():
        # The store accepts payments for a while if its own file has room, which is correct.
        if any(payment.code == "503 store_unavailable" for payment in left):
            return True
        service.fill("small/filler")
        extra.extend(shop.mint(20))
        left.extend(shop.send(extra[-20:], clients))
        return False
    service.wait("a refusal while the disk was full", is_refused, pause=0)
    refused = sum(payment.code == "503 store_unavailable" for payment in left)
    shop.await_readiness(503, "store_unavailable")
    os.unlink("small/filler")
    shop.await_readiness(200)
    shop.settle(left)
    move_store(shop, "small/store", "store")
    print(f"disk {number:4}  full at answer {at.number:3}: {refused} of {len(payments) + len(extra)} refused, and answered "
          "afterwards", flush=True)


def move_store(shop, place, other):
    """Starts the gateway on a copy of the store's files in another directory."""
    shop.wrong += shop.gateway.stop()
    os.makedirs(other, mode=0o700, exist_ok=True)
    for file in pathlib.Path(place).glob("payments.sqlite*"):
        shutil.move(file, pathlib.Path(other, file.name))
    shop.configure(store=other)
    shop.gateway.start()


def restore(shop, number, clients, short):
    """Replaces the store with a copy that was made under load."""
    payments = shop.mint(60 if short else 200)

    def copy():
        pathlib.Path("store/copy").unlink(missing_ok=True)
        with sqlite3.connect("file:store/payments.sqlite?mode=ro", uri=True) as source, sqlite3.connect("store/copy") as copied:
            source.backup(copied)
    at = At(shop.chance, len(payments), copy)
    shop.settle(shop.send(payments, clients, at))
    replaced = shop.past.invoked(time.monotonic(), "operator", "restore-store")
    shop.wrong += shop.gateway.stop()
    for suffix in ("-wal", "-shm"):
        pathlib.Path("store/payments.sqlite" + suffix).unlink(missing_ok=True)
    os.chmod("store/copy", 0o600)
    os.replace("store/copy", "store/payments.sqlite")
    shop.gateway.start()
    shop.past.answered(replaced, time.monotonic(), "done")
    shop.settle(shop.send(payments, clients))
    refused = sum(payment.result == "refused" for payment in payments)
    print(f"restore {number:2} copied at answer {at.number:3}: {refused} of {len(payments)} unknown to the copy and refused",
          flush=True)


def check(shop):
    """Compares the clients' results with their payments' amounts, and returns what is wrong."""
    wrong, submitted = list(shop.wrong), shop.submissions()
    result = collections.Counter()
    for payment in shop.payments:
        result[payment.result] += 1
        expected = {1080: "captured", 1081: "declined"}.get(payment.cents, "authorized")
        if payment.result in ("authorized", "captured", "declined") and payment.result != expected:
            wrong.append(f"{payment.identifier} got {payment.result} instead of {expected}")
    google = sum(payment.is_google for payment in shop.payments)
    # So many without one are no chance.
    if shop.with_google and len(shop.payments) > 100 and not google:
        wrong.append("no payment token was of Google Pay")
    print(f"payments    {len(shop.payments)}, of which {google} of Google Pay")
    print(f"answers     {', '.join(f'{count} {state}' for state, count in result.most_common())}")
    print(f"requests    {shop.name}: {shop.counts['answers']} answered, {shop.counts['broken']} broken, "
          f"{shop.counts['sent again']} sent again")
    print(f"simulator   {sum(map(len, submitted.values()))} submissions of {len(submitted)} payments")
    return wrong


def resolve(shop):
    """Gives every payment that is pending at the end a result, from the simulator if it has the payment, otherwise by hand."""
    until = time.monotonic() + service.GUARD
    known, by_hand = shop.submissions(), 0
    # A list has at most the newest thousand payments. So those that the simulator does not have must be resolved before older
    # ones are listed.
    while pending := shop.pending():
        waiting = [identifier for identifier in pending if identifier in known]
        if len(pending) < shop.PAGE and not waiting or time.monotonic() > until:
            break
        time.sleep(1)
        if len(pending) == shop.PAGE and not waiting:
            by_hand += resolve_by_hand(shop, pending)
    waiting = [identifier for identifier in pending if identifier in known]
    by_hand += resolve_by_hand(shop, (identifier for identifier in pending if identifier not in known))
    print(f"pending     {by_hand} had no trace at the simulator, and were resolved by hand")
    return [f"{identifier} is pending, though the simulator knows it" for identifier in waiting] + [
        f"{identifier} is still pending" for identifier in shop.pending() if identifier not in known]


def resolve_by_hand(shop, identifiers):
    """Resolves these payments with the command, and returns their number."""
    count = 0
    for count, identifier in enumerate(identifiers, 1):  # noqa: B007 (the function returns count)
        service.run("paytoken-gateway", "payment", "resolve", identifier, "--status", "error", "--reason",
                    "no trace at the simulator", "--socket", shop.admin)
    return count


def outcomeStates(shop):
    """Checks that payments whose clients got pending now have the simulator's result."""
    wrong, known = [], shop.submissions()
    for payment in shop.payments:
        outcomes = known.get(payment.identifier)
        if payment.result == "pending" and outcomes and (now := shop.status(payment)) != FATES.get(outcomes[0], "authorized"):
            wrong.append(f"{payment.identifier} got pending, is {now}, and was submitted as {outcomes[0]}")
    return wrong


def rates(shop, seconds, clients):
    """Measures payments a second and paytokend's own releases a second, in turns; prints the medians, and the processor time of
    a payment in each program and of a release in paytokend."""
    programs = {"gateway": [shop.gateway.process.pid], "simulator": [shop.simulator.process.pid],
                "paytokend": shop.daemon.processes()}

    def times():
        return {name: sum(map(service.processor_time, processes)) for name, processes in programs.items()}

    def measure(socket, requests):
        done, began, before = 0, time.monotonic(), times()

        def answered(tag, status, body, start, end):
            nonlocal done
            if status != 200:
                raise service.Failed(f"answered {status} {body[:200]}")
            done += 1
        load.drive(socket, clients, requests, answered)
        took = time.monotonic() - began
        return done / took, {name: (now - before[name]) / done for name, now in times().items()}
    figures = {"payments": [], "releases": []}
    for turn in range(3):
        tokens = service.mint(400 * seconds, "--amount", "1000")
        figures["releases"].append(measure(shop.daemon.socket, [
            (number, load.decrypt(token, b"rate-%d-%d" % (turn, number))) for number, token in enumerate(tokens)]))
        payments = [Payment(token, 1000, shop.key) for token in service.mint(400 * seconds, "--amount", "1000")]
        began = time.monotonic()
        figures["payments"].append(measure(shop.gateway.socket, [(one, one.request) for one in payments]))
        # Every answer was a 200 for an amount that is authorized.
        for one in payments:
            shop.past.operation(began, time.monotonic(), shop.name, "pay", "authorized", payment=one.identifier)
    (payments, each), (releases, alone) = (sorted(figures[name], key=lambda figure: figure[0])[1]
                                           for name in ("payments", "releases"))
    print(f"rate        {clients} clients: {payments:.0f} payments/s, {releases:.0f} releases/s: {payments / releases:.2f}")
    print("processors  a payment takes, of a release's time in paytokend: " + ", ".join(
        f"{name} {each[name] / alone['paytokend']:.1f}" for name in ("paytokend", "gateway", "simulator"))
        + f"; in all {sum(each.values()) * payments:.2f} of {os.cpu_count()} processors")


def alone(shop, options):
    """Runs every kind of round except the pair. Returns what is wrong."""
    rounds, cuts, disks, restores = options.rounds, options.cuts, options.disks, options.restores
    if not os.path.ismount("small"):
        disks = 0
        print("disk        skipped: it needs root, or user namespaces, to mount a small file system")
    programs = {"gateway": shop.gateway, "paytokend": shop.daemon, "simulator": shop.simulator}
    with shop.gateway.started():
        for number in range(1, rounds + 1):
            for what, strike in disturbances(programs, [shop]):
                crash([shop], number, what, strike, options.clients, options.short)
        for kind, times in ((cut, cuts), (disk, disks)):
            for number in range(1, times + 1):
                kind(shop, number, options.clients, options.short)
        wrong = resolve(shop) + outcomeStates(shop)
        for number in range(1, restores + 1):
            restore(shop, number, options.clients, options.short)
        wrong += resolve(shop)
        print("killed at   " + ", ".join(f"{shop.steps[step]} {step}" for step in STEPS))
        print("cut         " + ", ".join(f"{shop.cuts[place]} {place}" for place in cutter.PLACES))
        if not options.short:
            wrong += [f"no gateway was killed while a payment was {step}" for step in STEPS if rounds and not shop.steps[step]]
            wrong += [f"no connection was cut {place}" for place in cutter.PLACES if cuts and not shop.cuts[place]]
            rates(shop, 10, options.clients)
        shop.wrong += shop.gateway.stop()
    return wrong + check(shop)


def pair(shop, options):
    """Runs two gateways on one database server. Returns what is wrong."""
    with database.Server() as server, contextlib.ExitStack() as ending:
        os.mkdir("relay")
        relay = ending.enter_context(cutter.Cutter(
            f"relay/.s.PGSQL.{database.PORT}", server.socket, None, shop.chance.getrandbits(32), HOLD, request=20_000, answer=20_000))
        for role in (OWNER, GATEWAY):
            server.sql(f"CREATE ROLE {role} LOGIN")
        server.sql(f"CREATE DATABASE payments OWNER {OWNER}")
        service.run("paytoken-gateway", "store", "create", server.url("payments", OWNER), "--grant", GATEWAY)
        url = server.url("payments", GATEWAY, os.path.abspath("relay"))
        shops = [Shop(shop.daemon, shop.chance, name, url, like=shop, has_clock=shop.clock is not None)
                 for name in ("first", "second")]
        for each in shops:
            ending.enter_context(each.gateway).start()
        programs = {**{each.name: each.gateway for each in shops}, "paytokend": shop.daemon, "simulator": shop.simulator,
                    "database": server}
        for number in range(1, options.pairs + 1):
            for what, strike in disturbances(programs, shops, relay):
                crash(shops, number, what, strike, options.clients, options.short)
        print(f"relay       {sum(relay.cuts.values())} of the gateways' connections to the database cut, {relay.holds} held")
        wrong = resolve(shops[0])
        for each in shops:
            wrong += outcomeStates(each)
            each.wrong += each.gateway.stop()
            wrong += check(each)
        return wrong


def main(parser):
    options = service.parse(
        parser, seed="of the random moments", rounds=(50, 1, "how often each program is killed"),
        restores=(10, 1, "how often the store is restored"), cuts=(10, 1, "how often connections are cut for a while"),
        disks=(10, 1, "how often the store's disk is full"), clients=(32, 32, "connections"),
        pairs=(20, 1, "how often each program is killed while two gateways share a store"))
    print(f"{options.clients} clients, --seed {options.seed}")
    with service.serving() as daemon:
        daemon.import_merchant(service.GOOGLE)
        if why := clocks.missing():
            print(f"clocks      skipped: {why}")
        shop = Shop(daemon, random.Random(options.seed), with_google=True, has_clock=not options.short and not why)
        with shop.simulator.started():
            wrong = alone(shop, options)
            if database.is_installed():
                wrong += pair(shop, options)
            else:
                print("pair        skipped: PostgreSQL is not installed; scripts/install-packages installs it")
            wrong += shop.simulator.stop()
        wrong += shop.judge(f"payments-{options.seed}")
        print(f"history     {shop.past.last} operations")
        return wrong + daemon.stop()
