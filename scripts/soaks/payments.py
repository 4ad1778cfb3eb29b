"""Payments through paytoken-gateway to processor-simulator, whose log is the judge: no payment is submitted twice, and what
became of each is known.

Five kinds of rounds, under load in which one payment in ten is lost in some way at the simulator (not answered, cut off,
answered by another's answer or by none that can be read):
  kill     the gateway, paytokend and the simulator are killed by SIGKILL in turns, each at a random answer, and started again
  cut      two proxies, one before paytokend and one before the simulator, cut one connection in four: before the request, in
           it, after it, or in the answer; and one client in ten leaves before its answer
  disk     the store is on a small file system, which is filled at a random answer and freed after refusals
  restore  the store is copied under load, goes on, and is replaced by the copy; then every payment of before is sent again
  rate     payments a second beside paytokend's own releases
Every payment without an answer, or with a 503, is sent again as it was until it has one.

Wrong is: a payment that was submitted twice; one that the client was told is refused and that was submitted; one that was told
authorized, captured or declined and was not, or otherwise; one that is pending in the end and cannot be resolved, or whose
fate is then another than the simulator's; a step of a payment at which no kill has met one.
What a killed process has written stays in the kernel's cache, so this does not show what a power cut could lose.
"""
import collections
import contextlib
import os
import pathlib
import random
import shutil
import socket
import sqlite3
import time

import cutter
import full_disk
import load
import service
from shop import ASK, Payment, Shop

VICTIMS = ("gateway", "paytokend", "simulator")
# What the simulator's outcomes are, where they are not authorized.
FATES = {"captured": "captured", "insufficient_funds": "declined", "do_not_honor": "declined", "error": "error"}
# Where a gateway's kill meets its payments: before paytokend's release is stored, before the simulator has it, after that.
STEPS = ("received", "submitting", "submitted")


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
    if victim == "gateway":
        shop.steps += steps(shop)
    if victim == "paytokend":
        shop.daemon.start()
    else:
        getattr(shop, victim).start()
    shop.settle(left)
    print(f"round {number:3}  {victim:9} killed at answer {last:3}: {len(left):3} of {len(payments)} sent again", flush=True)


def steps(shop):
    """At which step the killed gateway's payments are. The store is looked at in a copy: opening it would mend it."""
    found, submitted = collections.Counter(), shop.submissions()
    shutil.rmtree("looked-at", ignore_errors=True)
    shutil.copytree("store", "looked-at")
    with contextlib.closing(sqlite3.connect("looked-at/payments.sqlite")) as database:
        for state, transaction in database.execute(
                "SELECT state, lower(hex(transaction_id)) FROM payment WHERE state IN ('received', 'submitting')"):
            found[state if state == "received" else "submitted" if transaction in submitted else "submitting"] += 1
    return found


def leave(shop, payments):
    """Clients that send a payment and do not wait for its answer."""
    for payment in payments:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(shop.gateway.socket)
            connection.sendall(payment.request)


def cut(shop, number, clients, short):
    """One round with connections that are cut on both sides of the gateway."""
    payments = shop.mint(60 if short else 200)
    seed = shop.chance.randrange(1 << 32)
    shop.gateway.stop()
    with cutter.Cutter("cut-paytokend.sock", shop.daemon.socket, 4, seed) as before, \
            cutter.Cutter("cut-simulator.sock", "simulator.sock", 4, seed + 1) as behind:
        shop.configure(paytokend="cut-paytokend.sock", simulator="cut-simulator.sock")
        shop.gateway.start()
        leave(shop, payments[::10])
        left = shop.send(payments, clients)
        shop.settle(left)
        shop.gateway.stop()
        print(f"cut {number:5}  {sum(before.cuts.values()):3} connections to paytokend, {sum(behind.cuts.values())} to the "
              f"simulator: {len(left)} of {len(payments)} sent again", flush=True)
        shop.cuts += before.cuts + behind.cuts
    shop.configure()
    shop.gateway.start()


def disk(shop, number, clients, short):
    """The store's disk is full for a while."""
    payments = shop.mint(60 if short else 200)
    at, seen, full = shop.chance.randint(1, len(payments) // 2), 0, []
    shop.gateway.stop()
    os.makedirs("small/store", mode=0o700, exist_ok=True)
    for file in pathlib.Path("store").glob("payments.sqlite*"):
        shutil.copy2(file, "small/store")
    shop.configure(store="small/store")
    shop.gateway.start()

    def tick():
        nonlocal seen
        seen += 1
        if seen == at:
            full.append(True)
            full_disk.fill("small/filler")
    left = shop.send(payments, clients, tick)
    # Where the file itself still has room it goes on for a while: rightly so.
    extra = []
    until = time.monotonic() + service.GUARD
    while not any(payment.code == "503 store_unavailable" for payment in left):
        if time.monotonic() > until:
            raise service.Failed(f"disk {number}: no refusal came while the disk was full")
        full_disk.fill("small/filler")
        more = shop.mint(20)
        extra += more
        left += shop.send(more, clients)
    refused = sum(payment.code == "503 store_unavailable" for payment in left)
    shop.await_readiness(503, "store_unavailable")
    os.unlink("small/filler")
    shop.await_readiness(200)
    shop.settle(left)
    shop.gateway.stop()
    for file in pathlib.Path("small/store").glob("payments.sqlite*"):
        shutil.copy2(file, "store")
    shutil.rmtree("small/store")
    shop.configure()
    shop.gateway.start()
    print(f"disk {number:4}  full at answer {at:3}: {refused} of {len(payments) + len(extra)} refused, and answered afterwards",
          flush=True)
    shop.counts["refused for the disk"] += refused


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
    known, by_hand = shop.submissions(), 0
    # The newest thousand at a time; behind those that no processor knows the others must have their turn as well.
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
    """How many there were."""
    count = 0
    for count, identifier in enumerate(identifiers, 1):
        service.run("paytoken-gateway", "payment", "resolve", identifier, "--status", "error", "--reason",
                    "no trace at the simulator", "--socket", shop.admin)
    return count


def fates(shop):
    """Whether those that were told pending are by now what the simulator has them as."""
    wrong, known = [], shop.submissions()
    for payment in shop.payments:
        outcomes = known.get(payment.identifier)
        if payment.told == "pending" and outcomes and (now := shop.status(payment)) != FATES.get(outcomes[0], "authorized"):
            wrong.append(f"{payment.identifier} was told pending, is {now}, and was submitted as {outcomes[0]}")
    return wrong


def rates(shop, seconds, clients):
    """Payments a second, and paytokend's own releases a second, in turns, the medians; and what a payment takes of the
    processors, in each program, of what a release takes of paytokend."""
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
        figures["payments"].append(measure(shop.gateway.socket, [(one, one.request) for one in payments]))
    (payments, each), (releases, alone) = (sorted(figures[name], key=lambda figure: figure[0])[1]
                                           for name in ("payments", "releases"))
    print(f"rate        {clients} clients: {payments:.0f} payments/s, {releases:.0f} releases/s: {payments / releases:.2f}")
    print("processors  a payment takes, of a release's time in paytokend: " + ", ".join(
        f"{name} {each[name] / alone['paytokend']:.1f}" for name in ("paytokend", "gateway", "simulator"))
        + f"; in all {sum(each.values()) * payments:.2f} of {os.cpu_count()} processors")


def main(parser):
    parser.add_argument("--rounds", type=int, default=50, help="how often each program is killed (50; 1 with --short)")
    parser.add_argument("--restores", type=int, default=10, help="how often the store is restored (10; 1 with --short)")
    parser.add_argument("--cuts", type=int, default=10, help="rounds with connections that are cut (10; 1 with --short)")
    parser.add_argument("--disks", type=int, default=10, help="how often the store's disk is full (10; 1 with --short)")
    parser.add_argument("--clients", type=int, default=32, help="connections (32)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the random moments")
    options = parser.parse_args()
    rounds, restores, cuts, disks = (1, 1, 1, 1) if options.short else (
        options.rounds, options.restores, options.cuts, options.disks)
    if not os.path.ismount("small"):
        disks = 0
        print("disk        skipped: it needs root, or user namespaces, to mount a small file system")
    print(f"{rounds} rounds, {cuts} cuts, {disks} disks, {restores} restores, {options.clients} clients, --seed {options.seed}")
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
            for number in range(1, cuts + 1):
                cut(shop, number, options.clients, options.short)
            for number in range(1, disks + 1):
                disk(shop, number, options.clients, options.short)
            wrong = resolve(shop) + fates(shop)
            for number in range(1, restores + 1):
                restore(shop, number, options.clients, options.short)
            wrong += resolve(shop) + judge(shop)
            print(f"requests    {shop.counts['answers']} answered, {shop.counts['broken']} broken, "
                  f"{shop.counts['sent again']} sent again")
            print("killed at   " + ", ".join(f"{shop.steps[step]} {step}" for step in STEPS))
            print("cut         " + ", ".join(f"{shop.cuts[place]} {place}" for place in cutter.PLACES))
            if not options.short:
                wrong += [f"no gateway was killed while a payment was {step}" for step in STEPS
                          if rounds and not shop.steps[step]]
                wrong += [f"no connection was cut {place}" for place in cutter.PLACES if cuts and not shop.cuts[place]]
                rates(shop, 10, options.clients)
            shop.gateway.stop()
            shop.simulator.stop()
        finally:
            for program in (shop.gateway, shop.simulator):
                program.abandon()
        wrong += daemon.stop()
    return wrong
