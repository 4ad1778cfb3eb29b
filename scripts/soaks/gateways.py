"""Two gateways that share a store in PostgreSQL, before one paytokend and one processor-simulator, whose log is the judge. Every
payment token is brought to both at the same time by the same client.

Under load in which one payment in ten is lost in some way at the simulator, one of both gateways, paytokend, the simulator and the
database's server are killed by SIGKILL (the server: SIGQUIT, which is no less sudden to its clients) in turns, each at a random
answer, and started again. Every payment without an answer, or with a 503, is sent again, as it was and where it was, until it has
one.

Wrong is: a payment that was submitted twice; one of which the gateways tell different fates, or another than the simulator's; one
that the client was told is refused and that was submitted; one that is pending in the end and cannot be resolved.
"""
import random
import threading

import database
import payments
import service
from shop import Shop

VICTIMS = ("first", "second", "paytokend", "simulator", "database")
OWNER, GATEWAY = "payments_owner", "paytoken_gateway"


class Shops:
    """The same client at both gateways."""

    def __init__(self, daemon, server, chance):
        url = server.url("payments", GATEWAY)
        self.daemon, self.server, self.chance = daemon, server, chance
        self.first = Shop(daemon, chance, "first", url)
        self.second = Shop(daemon, chance, "second", url, like=self.first)
        self.simulator = self.first.simulator
        self.both = (self.first, self.second)

    def mint(self, count):
        """So many payments, for each of both."""
        minted = self.first.mint(count)
        copies = [payment.copy() for payment in minted]
        self.second.payments += copies
        return minted, copies

    def each(self, work):
        """Has both do something at the same time; what they give."""
        results, failures = [None, None], []

        def run(place):
            try:
                results[place] = work(place, self.both[place])
            except BaseException as failure:
                failures.append(failure)
        threads = [threading.Thread(target=run, args=(place,)) for place in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return results

    def kill(self, victim):
        if victim == "paytokend":
            self.daemon.kill()
        elif victim == "database":
            self.server.process.send_signal(3)
            self.server.process.wait()
        else:
            (self.simulator if victim == "simulator" else getattr(self, victim).gateway).kill()

    def start(self, victim):
        if victim in ("paytokend", "database"):
            (self.daemon if victim == "paytokend" else self.server).start()
        else:
            (self.simulator if victim == "simulator" else getattr(self, victim).gateway).start()


def crash(shops, number, victim, clients, short):
    """One round: load at both, a kill at a random answer, the victim started again, everything answered."""
    minted = shops.mint(40 if short else 200)
    last, lock, killed, seen = shops.chance.randint(1, len(minted[0])), threading.Lock(), [], 0

    def tick():
        nonlocal seen
        with lock:
            seen += 1
            if seen == last:
                killed.append(victim)
                shops.kill(victim)
    left = shops.each(lambda place, shop: shop.send(minted[place], clients // 2, tick))
    if not killed:
        raise service.Failed(f"round {number}: the load was over before answer {last}")
    shops.start(victim)
    shops.each(lambda place, shop: shop.settle(left[place]))
    print(f"round {number:3}  {victim:9} killed at answer {last:3}: {sum(map(len, left)):3} of {2 * len(minted[0])} sent again",
          flush=True)


def disagreements(shops):
    """Payments of which both tell a fate, and not the same."""
    return [f"{one.identifier} was told {one.told} and {other.told}"
            for one, other in zip(shops.first.payments, shops.second.payments)
            if "pending" not in (one.told, other.told) and one.told != other.told]


def main(parser):
    parser.add_argument("--rounds", type=int, default=20, help="how often each program is killed (20; 1 with --short)")
    parser.add_argument("--clients", type=int, default=32, help="connections, half of them to each gateway (32)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the random moments")
    options = parser.parse_args()
    if not database.is_installed():
        print("gateways    skipped: PostgreSQL is not installed; scripts/install-packages installs it")
        return []
    rounds = 1 if options.short else options.rounds
    print(f"{rounds} rounds, {options.clients} clients, --seed {options.seed}")
    with database.Server() as server, service.Service() as daemon:
        for role in (OWNER, GATEWAY):
            server.sql(f"CREATE ROLE {role} LOGIN")
        server.sql(f"CREATE DATABASE payments OWNER {OWNER}")
        service.run("paytoken-gateway", "store", "create", server.url("payments", OWNER), "--grant", GATEWAY)
        daemon.start()
        daemon.import_merchant()
        shops = Shops(daemon, server, random.Random(options.seed))
        try:
            shops.simulator.start()
            for shop in shops.both:
                shop.gateway.start()
            for number in range(1, rounds + 1):
                for victim in VICTIMS:
                    crash(shops, number, victim, options.clients, options.short)
            wrong = payments.resolve(shops.first)
            for shop in shops.both:
                wrong += payments.fates(shop) + payments.judge(shop)
            wrong += disagreements(shops)
            print("requests    " + "; ".join(
                f"{shop.name}: {shop.counts['answers']} answered, {shop.counts['broken']} broken, "
                f"{shop.counts['sent again']} sent again" for shop in shops.both))
            for shop in shops.both:
                shop.gateway.stop()
            shops.simulator.stop()
        finally:
            for program in (shops.first.gateway, shops.second.gateway, shops.simulator):
                program.abandon()
        wrong += daemon.stop()
    return wrong
