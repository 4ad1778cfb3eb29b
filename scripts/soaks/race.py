"""The same payment tokens offered to three daemons at once, which share a ledger on one PostgreSQL server: nodes with HSM tokens
of their own that hold the same merchant key. The server is durable and has no standby.

Each payment token goes to all three at the same moment, in a random order. Of every other one all ask under references of their
own: one releases it, and the others must refuse it as transaction_replayed. Of the rest all ask under the same reference, as a
caller does who tries several hosts: one releases it, and the others must say that they repeat. Wrong is every other answer; a
release that does not stand in the record of the node that answered it; a claim without one; and a chain that a verifier does not
accept.
"""
import collections
import contextlib
import json
import random
import select
import time

import database
import deployment
import load
import proof
import service

NODES = ["node-1", "node-2", "node-3"]


class Race:
    """Offers tokens to all daemons at once, so many tokens at a time, and takes what is answered."""

    def __init__(self, daemons, together, chance):
        """daemons: by node."""
        self.chance, self.answers, self.poll = chance, proof.Answers(), select.epoll()
        self.counts = {node: collections.Counter() for node in daemons}
        self.times = {node: [] for node in daemons}
        # By descriptor, and how many answers each place still waits for.
        self.asked, self.waiting = {}, {}
        self.places = [{node: load.Connection(daemon.socket) for node, daemon in daemons.items()} for _ in range(together)]

    def run(self, tokens):
        """Until all of them are answered."""
        numbered = enumerate(tokens)
        for place in range(len(self.places)):
            self._offer(place, next(numbered, None))
        while self.waiting:
            ready = self.poll.poll(service.GUARD)
            if not ready:
                raise service.Failed(f"nothing was answered for {service.GUARD} s")
            for descriptor, _ in ready:
                place, node, connection = self.asked[descriptor]
                answer = connection.receive()
                if answer is None:
                    continue
                if answer[2]:
                    raise service.Failed(f"{node} closes a connection: {answer[:2]}")
                self.poll.unregister(descriptor)
                self._take(node, connection, *answer[:2])
                self.waiting[place] -= 1
                if self.waiting[place] == 0:
                    del self.waiting[place]
                    self._offer(place, next(numbered, None))

    def _offer(self, place, numbered):
        if numbered is None:
            return
        number, token = numbered
        connections = list(self.places[place].items())
        self.chance.shuffle(connections)
        self.waiting[place] = len(connections)
        for node, connection in connections:
            reference = f"race-{number}" if number % 2 else f"race-{number}-{node}"
            connection.send(reference, load.decrypt(token, reference.encode()))
            self.asked[connection.socket.fileno()] = place, node, connection
            self.poll.register(connection.socket, select.EPOLLIN)

    def _take(self, node, connection, status, body):
        self.times[node].append(time.monotonic() - connection.began)
        reference, answer = connection.tag, json.loads(body)
        # Whether all asked under the same reference.
        is_shared = not reference.endswith(node)
        if status == 200:
            self.answers.take(reference, body)
            if answer["audit"]["node"] != node:
                self.answers.wrong.append(f"{node} answered {reference} with a record of {answer['audit']['node']}")
            self.counts[node]["repeated" if answer["repeated"] else "released"] += 1
            if answer["repeated"] and not is_shared:
                self.answers.wrong.append(f"{node} repeated {reference}, which nobody else had")
        else:
            self.counts[node][answer.get("code")] += 1
            if status != 409 or answer.get("code") != "transaction_replayed" or is_shared:
                self.answers.wrong.append(f"{node} answered {reference} with {status} {answer.get('code')}")

    def close(self):
        for connections in self.places:
            for connection in connections.values():
                connection.socket.close()


def check(ledger, race, count):
    """What the database says, over all nodes and of each: what is wrong."""
    wrong, counts = proof.compare(ledger, race.answers)
    wrong += race.answers.wrong
    asked = {"released": count, "repeated": 2 * (count // 2), "transaction_replayed": 2 * (count - count // 2)}
    for kind, expected in asked.items():
        answered = sum(each[kind] for each in race.counts.values())
        if answered != expected:
            wrong.append(f"{answered} were {kind}, and not {expected}")
    for kind, expected in (("claims", count), ("released", count), ("repeats", asked["repeated"])):
        if counts[kind] != expected:
            wrong.append(f"the ledger has {counts[kind]} {kind}, and not {expected}")
    # A claim names the node that made it, and that one's record tells of the release.
    astray, = ledger.sql("SELECT count(*) FROM claim WHERE NOT EXISTS (SELECT FROM audit_record AS r WHERE "
                         "r.transaction_id = claim.transaction_id AND r.node = claim.node AND r.outcome = 'ok')")
    if astray != "0":
        wrong.append(f"{astray} claims of a node are not in its record as releases")
    recorded = dict(line.split("|") for line in ledger.sql("SELECT node, count(*) FROM audit_record GROUP BY node"))
    print(f"{'':12}{'released':>10}{'replayed':>10}{'repeated':>10}{'records':>10}{'p50':>12}{'p99':>12}")
    for node, each in race.counts.items():
        times = sorted(race.times[node])
        print(f"{node:12}{each['released']:10}{each['transaction_replayed']:10}{each['repeated']:10}{recorded[node]:>10}"
              f"{load.percentile(times, 0.5):9.1f} ms{load.percentile(times, 0.99):9.1f} ms")
    print(f"{'all':12}{asked['released']:10}{asked['transaction_replayed']:10}{asked['repeated']:10}"
          f"{sum(map(int, recorded.values())):10}   {count} payment tokens, {counts['claims']} claims")
    return wrong


def main(parser):
    parser.add_argument("--tokens", type=int, help="payment tokens (10000; 200 with --short)")
    parser.add_argument("--together", type=int, default=16, help="payment tokens under way at once (16)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the order in which nodes are asked")
    options = parser.parse_args()
    count = options.tokens or (200 if options.short else 10_000)
    print(f"{count} payment tokens, {options.together} at a time, each to {len(NODES)} daemons, --seed {options.seed}")
    with contextlib.ExitStack() as ending:
        ledger = ending.enter_context(database.Server()).ledger("ledger")
        # Nobody waits that long: a slow machine decides nothing.
        there = {node: ending.enter_context(deployment.Deployment(
            node, {"a": deployment.SoftHSMToken}, merchants=("ec",), call_timeout="60s",
            listener={"max_connections": 1024, "max_connections_per_uid": 1024},
            ledger=ledger.settings(node, timeout="60s"))) for node in NODES}
        daemons = {node: each.daemon for node, each in there.items()}
        race = Race(daemons, options.together, random.Random(options.seed))
        began, left = time.monotonic(), count
        with service.Minter(certificate="authority/ec.pem") as minter:
            # Minted while it runs: they need not all be kept.
            def tokens():
                nonlocal left
                while left:
                    taken = minter.take(min(left, 100))
                    left -= len(taken)
                    yield from taken
            race.run(tokens())
        took = time.monotonic() - began
        race.close()
        wrong = check(ledger, race, count)
        print(f"took        {took:.1f} s, {count / took:.0f} payment tokens a second")
        for node, daemon in daemons.items():
            print(f"verified    {node}")
            wrong += proof.verify(daemon)
        for daemon in daemons.values():
            wrong += daemon.stop()
    return wrong
