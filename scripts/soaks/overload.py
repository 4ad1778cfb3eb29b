"""Measures what twice as many payments as the HSM can open do to paytokend, and then to a gateway in front of it: to the caller who sends
them, and to another one.

The HSM token has a latency, so that it is the bottleneck on every machine. First the caller has as many requests under way as keep all
sessions busy, and its rate is the maximum. Then its requests come at twice that rate, whether or not earlier ones are answered. Each
uses a free connection or a new one, as the clients of a growing queue do, so that the caller soon has all the connections that it may
have (listener.max_connections_per_uid; limits.max_connections_per_client of the gateway). Meanwhile another user, or another client
of the gateway, pays one after the other. Figures are of one round, and the median of the rounds counts.

The soak fails if the rate of payments is less than 0.9 of the maximum (0.5 with --short); if an answer is anything but a payment or
a refusal (503 `overloaded`; 429 `rate_limited` of the gateway) with the header Retry-After; if a payment took more than three times
as long as the HSM needs for all connections; if the other caller was refused, or its median is not less than half of the caller's;
or if the ledger has another number of claims than payments were answered. Then the same number of payments, without the latency,
and of refusals follow one another without a pause: a refusal must take at most half of a payment's processor time (not judged with
--short).
"""
import contextlib
import multiprocessing
import os
import random
import select
import sqlite3
import statistics
import time

import deployment
import load
import service
import shop

CALLER, OTHER = 8, 9
SESSIONS = 8
# The seconds of one derivation. Those of --short are so long that even a debug build's own time is small in comparison.
LATENCY, SHORT = 0.05, 0.1
# The maximum number of a caller's connections. The HSM needs 0.8 s, or 1.6 s with --short, for so many requests.
PLACES = 128
OVERLOAD = 2
GOODPUT, LATEST, REFUSAL = 0.9, 3.0, 0.5
# The goodput of --short, which has one round, and shares the machine with other programs.
SHORT_GOODPUT = 0.5
# The number of payments, and of refusals, whose processor time --short measures.
PRICED = 200
# The amount of each payment, in cents.
CENTS = 1000


class Daemon:
    """paytokend, whose callers are users."""
    name, refusal = "paytokend", (503, b'"overloaded"')

    def __init__(self, there):
        self.socket, self.there = there.socket, there

    def become(self, number):
        service.become(number)

    def request(self, token, number):
        return load.decrypt(token, b"order-%d" % number)

    def question(self, _):
        """Returns a request that needs no payment token."""
        return load.get("/readyz")

    def processor_time(self):
        return sum(map(service.processor_time, self.there.daemon.processes()))


class Gateway(Daemon):
    """paytoken-gateway in front of that paytokend. Its callers are clients, each with a key."""
    name, refusal = "gateway", (429, b'"rate_limited"')

    def __init__(self, there, front, keys):
        super().__init__(there)
        self.socket, self.process, self.keys = front.socket, front.gateway.process.pid, keys

    def become(self, number):
        pass

    def request(self, token, number):
        return shop.Payment(token, CENTS, self.keys[number]).request

    def question(self, number):
        return load.get("/payments/none", self.keys[number])

    def processor_time(self):
        return super().processor_time() + service.processor_time(self.process)


class Answers:
    """What one caller was answered: the times of its payments in seconds, and their ends; the number of its refusals; and what is
    wrong. refusal: status and code of a refusal."""

    def __init__(self, refusal):
        self.refusal = refusal
        self.times, self.ends, self.refused, self.wrong, self.began = [], [], 0, [], time.monotonic()

    def add(self, status, head, body, due):
        now = time.monotonic()
        if status == 200:
            self.times.append(now - due)
            self.ends.append(now)
        elif status == self.refusal[0] and self.refusal[1] in body and b"\nretry-after: 1\r\n" in head.lower():
            self.refused += 1
        else:
            self.wrong.append(f"an answer was {status} {body[:80].decode(errors='replace')}")


def steadily(front, requests, ended, clients, seconds):
    """Runs a caller with as many requests under way as it has clients, for some seconds or until `ended` is set. Returns its
    answers."""
    answers = Answers(front.refusal)

    def following():
        for request in requests:
            if ended.is_set():
                return
            yield None, request
    load.drive(front.socket, clients, following(), lambda tag, status, body, begin, end: answers.add(status, b"", body, begin),
               until=answers.began + seconds)
    return answers


def surge(front, requests, rate):
    """Runs a caller whose requests come at a constant rate. Returns its answers."""
    answers, poll, busy, free, sent = Answers(front.refusal), select.epoll(), {}, [], 0
    while sent < len(requests) or busy:
        while sent < len(requests) and answers.began + sent / rate <= time.monotonic():
            connection = free.pop() if free else load.Connection(front.socket)
            # A connection is refused before its request is read, so that sending can fail.
            with contextlib.suppress(OSError):
                connection.send(answers.began + sent / rate, requests[sent])
            busy[connection.socket.fileno()] = connection
            poll.register(connection.socket, select.EPOLLIN)
            sent += 1
        pause = max(0.0, answers.began + sent / rate - time.monotonic()) if sent < len(requests) else 1.0
        for descriptor, _ in poll.poll(pause):
            connection = busy[descriptor]
            try:
                answer = connection.receive()
            except OSError as error:
                answer = (None, repr(error).encode(), True)
            if answer is None:
                continue
            status, body, closes = answer
            answers.add(status, connection.head, body, connection.tag)
            poll.unregister(descriptor)
            del busy[descriptor]
            if closes:
                connection.socket.close()
            else:
                free.append(connection)
    return answers


def refused(front, count):
    """Runs a caller that has all connections that it may have, and makes more, one after the other. Returns the refusals' answers."""
    answers, held = Answers(front.refusal), []

    def ask(connection):
        with contextlib.suppress(OSError):
            connection.send(time.monotonic(), front.question(CALLER))
        while (answer := connection.receive()) is None:
            pass
        return answer
    for _ in range(PLACES):
        held.append(load.Connection(front.socket))
        ask(held[-1])
    for _ in range(count):
        connection = load.Connection(front.socket)
        status, body, _ = ask(connection)
        answers.add(status, connection.head, body, connection.began)
        connection.socket.close()
    return answers


class Caller:
    """A caller in a separate process. run: `steadily`, `surge` or `refused`, which gets the arguments."""

    def __init__(self, front, number, run, *arguments):
        def call():
            front.become(number)
            self.result.put(run(front, *arguments))
        self.result = multiprocessing.Queue()
        self.process = multiprocessing.Process(target=call, daemon=True)
        self.process.start()

    def answers(self):
        found = self.result.get(timeout=load.GUARD)
        self.process.join()
        return found


def play(front, minter, seconds, latency):
    """Plays one round. latency: of the HSM token. Returns its figures, what is wrong, and the number of payments."""
    def requests(count, number=CALLER):
        return [front.request(token, number) for token in minter.take(int(count))]
    ended = multiprocessing.Event()
    steady = Caller(front, CALLER, steadily, requests(2 * SESSIONS / latency * seconds), ended, 2 * SESSIONS, seconds).answers()
    maximum = len(steady.times) / (steady.ends[-1] - steady.began)

    arriving = requests(OVERLOAD * maximum * seconds)
    other = Caller(front, OTHER, steadily, requests(4 / latency * seconds, OTHER), ended, 1, load.GUARD)
    flooded = Caller(front, CALLER, surge, arriving, OVERLOAD * maximum).answers()
    ended.set()
    visited = other.answers()

    wrong = steady.wrong + flooded.wrong + [f"the other caller: {fault}" for fault in visited.wrong]
    if steady.refused or visited.refused:
        wrong.append(f"{steady.refused} requests of the maximum and {visited.refused} of the other caller were refused")
    if not flooded.refused:
        wrong.append("nothing was refused, so this was no overload")
    # The other caller's payments are part of what the HSM can do. What still waits after the last request does not count.
    paid = sum(end <= flooded.began + seconds for answers in (flooded, visited) for end in answers.ends)
    payments = len(flooded.times) + len(visited.times)
    return {
        "maximum": maximum, "goodput": paid / seconds / maximum, "refused": flooded.refused,
        "p50": statistics.median(flooded.times), "longest": max(flooded.times), "full": (PLACES + 1) / maximum,
        "other": statistics.median(visited.times),
    }, [f"{front.name}: {fault}" for fault in wrong], len(steady.times) + payments


def price(front, minter, count):
    """Returns the processor time of a refusal over a payment's, what is wrong, and the number of payments."""
    times = [front.processor_time()]
    requests = [front.request(token, CALLER) for token in minter.take(count)]
    paid = Caller(front, CALLER, steadily, requests, multiprocessing.Event(), 2 * SESSIONS, load.GUARD).answers()
    times.append(front.processor_time())
    declined = Caller(front, CALLER, refused, count).answers()
    times.append(front.processor_time())
    wrong = paid.wrong + declined.wrong
    if (len(paid.times), declined.refused) != (count, count):
        wrong.append(f"of {count}, {len(paid.times)} were paid and {declined.refused} were refused")
    return (times[2] - times[1]) / (times[1] - times[0]), [f"{front.name}: {fault}" for fault in wrong], len(paid.times)


def judge(front, rounds, goodput):
    """Returns what is wrong with the medians."""
    median = {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}
    wrong = []
    if median["goodput"] < goodput:
        wrong.append(f"{front.name}: the rate of payments is {median['goodput']:.2f} of the maximum")
    if median["longest"] > LATEST * median["full"]:
        wrong.append(f"{front.name}: a payment took {median['longest']:.1f} s, and the HSM needs {median['full']:.1f} s for a full queue")
    if median["other"] > median["p50"] / 2:
        wrong.append(f"{front.name}: the other caller waited {median['other']:.2f} s, the one with the overload {median['p50']:.2f} s")
    return wrong


def main(parser):
    options = service.parse(parser, rounds=(5, 1, "of maximum and overload"), seconds=(10.0, 3.0, "of each"))
    if os.geteuid() != 0:
        print("overload: skipped: only root can connect as two users")
        return []
    # Both users must be able to reach the socket through this directory.
    os.chmod(".", 0o711)
    access = ('access:\n  - { name: owner, user: "0", roles: [decrypt, monitor, admin] }\n'
              + "".join(f'  - {{ name: {name}, user: "{number}", roles: [decrypt] }}\n'
                        for name, number in {"caller": CALLER, "other": OTHER}.items()))
    there = deployment.Deployment(
        "over", {"a": deployment.ScriptedToken}, merchants=("ec",), sessions=SESSIONS, call_timeout="10s",
        listener={"mode": '"0666"', "max_connections_per_uid": PLACES},
        ledger=f"ledger:\n  url: sqlite:{os.path.abspath('over')}/ledger.sqlite\n{access}")
    os.chmod("over", 0o711)
    wrong, payments, latency = [], 0, SHORT if options.short else LATENCY
    with contextlib.ExitStack() as ending:
        ending.enter_context(there)
        minter = ending.enter_context(service.Minter("--amount", str(CENTS), certificate="authority/ec.pem"))
        gate = shop.Shop(there.daemon, random.Random(0))
        visitor = shop.Client("other")
        gate.configure(connections=PLACES, others=[visitor])
        for program in (gate.simulator, gate.gateway):
            ending.enter_context(program.started())
        print(f"{'':12}{'maximum':>8}{'goodput':>9}{'refused':>9}{'p50':>9}{'longest':>9}{'full queue':>12}{'other':>9}")
        for front in (Daemon(there), Gateway(there, gate, {CALLER: gate.key, OTHER: visitor.key})):
            rounds = []
            there.tokens[0].play(f"fault C_DeriveKey always delay={latency * 1000:.0f}")
            for _ in range(options.rounds):
                figures, faults, count = play(front, minter, options.seconds, latency)
                rounds.append(figures)
                wrong += faults
                payments += count
                print(f"{front.name:12}{figures['maximum']:6.0f}/s{figures['goodput']:9.2f}{figures['refused']:9}"
                      f"{figures['p50']:7.2f} s{figures['longest']:7.2f} s{figures['full']:10.2f} s{figures['other']:7.2f} s", flush=True)
            there.tokens[0].play()
            cost, faults, count = price(front, minter, PRICED if options.short else 10 * PRICED)
            wrong += judge(front, rounds, SHORT_GOODPUT if options.short else GOODPUT) + faults
            payments += count
            print(f"{front.name:12}a refusal takes {cost:.2f} of a payment's processor time")
            if cost > REFUSAL and not options.short:
                wrong.append(f"{front.name}: a refusal takes {cost:.2f} of a payment's processor time")
        wrong += gate.gateway.stop() + there.daemon.stop()
        with contextlib.closing(sqlite3.connect("over/ledger.sqlite")) as ledger:
            claims, = ledger.execute("SELECT count(*) FROM claim").fetchone()
    if claims != payments:
        wrong.append(f"{payments} payments were answered, and {claims} are claimed")
    return wrong
