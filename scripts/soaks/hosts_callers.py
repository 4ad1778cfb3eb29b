"""Callers of several daemons that share a ledger, and the outcome of each payment. They repeat their requests with their
references until they are answered, regardless of which components fail.

A third of the payment tokens may be of Google Pay. Each of these has a twin, another message with the same messageId, and half of the
twins are sent too, with the same reference, of which at most one may be released.

A payment token is sent to one daemon, to several daemons with the same reference (as by a caller that tries several hosts), or to
several with different references, of which only one may get the payment. After a 503 or no answer, a caller repeats the request
at the same daemon or another one. Some released payment tokens are sent again with their reference, which must repeat the
payment, and some with another reference, which must be refused. Some callers name their attempts, and each repetition names those
before it. All requests and answers are written to a history (history.py), whose rules judge them.
"""
import collections
import contextlib
import heapq
import itertools
import json
import math
import random
import time

import history
import load
import outcome
import service

# The maximum number of open requests at each daemon, and at all daemons together.
TOGETHER, OPEN = 24, 150
# The refusals of a daemon with a wrong clock.
BY_CLOCK = ("signing_time_outside_window", "message_expired", "certificate_untrusted")


class Payment:
    """One payment token, and its requests."""
    __slots__ = ("number", "token", "era", "transaction", "message", "twin", "key", "attempts", "winner", "is_lost")

    def __init__(self, number, token, era, is_named, keys, twin=None):
        """keys: the merchant's, as load.recipient takes them. twin: the payment token of another message with the same
        messageId."""
        self.number, self.token, self.era = number, token, era
        self.transaction, self.key, self.message, self.twin = load.transaction(token), load.recipient(token, keys), None, None
        if twin is not None:
            load.pair(self, Payment(number, twin, era, is_named, keys))
        # The names of the attempts by reference; None if the callers do not name them.
        self.attempts = collections.defaultdict(list) if is_named else None
        # The reference that got the payment.
        self.winner, self.is_lost = None, False


class Ask:
    __slots__ = ("payment", "reference", "node", "attempt", "after")

    def __init__(self, payment, reference, node):
        self.payment, self.reference, self.node = payment, reference, node
        self.attempt = self.after = None

    def request(self, chance):
        """Returns the request, with a new attempt if the caller names them."""
        attempts = self.payment.attempts
        if attempts is not None:
            # A request names at most a hundred attempts.
            self.attempt, self.after = f"{chance.getrandbits(64) or 1:016x}", attempts[self.reference][-100:]
            attempts[self.reference].append(self.attempt)
        return load.decrypt(self.payment.token, self.reference.encode(), attempt=self.attempt, after=self.after or ())


class Payments(load.Asking):
    """Sends requests until `finish`, in a separate thread.

    sockets: the daemons' sockets by node. limit: the seconds after which a request counts as hung. rate: the maximum number of
    payment tokens a second. with_google: a third of the payment tokens are of Google Pay.
    """

    def __init__(self, sockets, limit, rate, seed, with_google=False):
        super().__init__()
        # The merchant's keys, as service.Service.keys returns them.
        self.past, self.keys, self.with_google = history.History(), {}, with_google
        self.sockets, self.limit, self.rate = sockets, limit, rate
        self.nodes, self.chance = list(sockets), random.Random(seed)
        # The sources of payment tokens, of which one is chosen for each payment.
        self.minters, self.numbers, self.order = [], itertools.count(), itertools.count()
        self.queue, self.busy, self.following = [], collections.Counter(), 0.0
        # The number of the next payment tokens that are sent to all daemons at once.
        self.racing = 0
        # The times at which each release was requested and answered, and the key, by node and in the order of the answers.
        self.releases = {node: [] for node in sockets}
        # The number of payment tokens that each node has opened with each key.
        self.opened = collections.Counter()
        # The periods in which a daemon was stopped, which do not count as waiting.
        self.standstills, self.stopped = {node: [] for node in sockets}, {}
        self.recent = collections.deque(maxlen=500)
        self.payments, self.counts = [], collections.Counter()
        self.wrong, self.hung, self.longest = [], [], 0.0
        # The nodes whose clock is wrong, and the times at which the others' was wrong last. Nodes to which nothing is sent.
        self.wrong_clocks, self.rested = {}, set()
        # The era is counted up at each restore. Payment tokens of an earlier era were signed before the newest fence.
        self.era, self.restore = 0, None

    # Called by the soak's thread.

    def mint(self, *arguments):
        """Mints all later payment tokens with these options of token-forge."""
        minters = [service.Minter(*arguments, certificate="authority/ec.pem")]
        if self.with_google:
            google = service.Minter(*arguments, *service.WITH_TWIN, certificate=service.GOOGLE_KEY)
            minters = [*minters * 2, google]
        self._replace(minters)

    def _replace(self, minters):
        with self.lock:
            self.minters, before = minters, self.minters
        for minter in set(before):
            minter.__exit__()

    def is_idle(self):
        return not self.queue

    def turn(self):
        self._create()
        self._send()
        self._give_up()

    def finish(self):
        super().finish()
        self._replace([])

    def wait_for_releases(self, nodes, since, what):
        """Waits until each of these nodes has released a payment that was requested after `since`. Returns the time for each
        node."""
        found = {}

        def have_released():
            self.must_go_on()
            for node in set(nodes) - set(found):
                answered = [ended for began, ended, _ in self.releases[node][-2000:] if began >= since]
                if answered:
                    found[node] = answered[0]
            return len(found) == len(nodes)
        service.wait(lambda: f"{what}: releases of {', '.join(sorted(set(nodes) - set(found)))}", have_released, pause=0.02)
        return found

    def released(self):
        """Returns the number of payment tokens released so far."""
        return sum(map(len, self.releases.values()))

    def race(self, count):
        """Sends `count` payment tokens to all daemons at the same moment, as soon as they are minted. Returns after the last
        one."""
        with self.lock:
            self.racing = count
        service.wait(f"the last of {count} payment tokens", lambda: self.must_go_on() and not self.racing, pause=0.02)

    def stands_still(self, node):
        self.stopped[node] = time.monotonic()

    def goes_on(self, node):
        with self.lock:
            self.standstills[node].append((self.stopped.pop(node), time.monotonic()))

    def is_wrong(self, node):
        """Permits the node to refuse by its clock."""
        self.wrong_clocks[node] = math.inf

    def is_right(self, node):
        self.wrong_clocks[node] = time.monotonic()

    def has_wrong_clock(self, node):
        return self.wrong_clocks.get(node) == math.inf

    @contextlib.contextmanager
    def resting(self, node):
        """Sends the node nothing meanwhile; begins when it has answered everything."""
        self.rested.add(node)
        try:
            service.wait(f"the answers of {node}", lambda: self.must_go_on() and not self.busy[node], pause=0.01)
            yield
        finally:
            self.rested.discard(node)

    def nothing_since(self, since, why, node=None, key=None):
        """Notes a fault if payments were released by requests since this time, or one with this key. Must be called before that is
        permitted again."""
        now = time.monotonic()
        for each in [node] if node else self.nodes:
            released = sum(began >= since and ended <= now and key in (None, used)
                           for began, ended, used in self.releases[each][-5000:])
            if released:
                self.wrong.append(f"{each} released {released} payment tokens {why}")

    # Restores.

    def restored(self, ended, heads, claims):
        """Notes that the ledger is now a restored copy. Returns the payments whose releases the copy lacks.

        ended: the time at which the replaced server had ended. heads: the sequence at which each node's record ends in the copy.
        claims: the names of the claims in the copy.
        """
        with self.lock:
            kept = {payment.transaction for payment in self.payments
                    if load.claim(payment.transaction, load.is_google(payment.token)) in claims}
            self.restore = self.past.invoked(ended, "operator", "restore", era=self.era + 1, kept=sorted(kept), heads=heads)
            lost = [payment for payment in self.payments if payment.winner and payment.transaction not in kept
                    and not payment.is_lost]
            for payment in lost:
                payment.is_lost = True
            self.recent.clear()
            return lost

    def accept(self):
        """Prepares for the copy to be accepted: payment tokens of requests until now are before the fence, unless they have a
        claim. There are no more payments until `mint` brings payment tokens that were signed later.
        """
        with self.lock:
            self.past.answered(self.restore, time.monotonic(), "done")
            self.era += 1
        self._replace([])

    def ask_again(self, lost):
        """Sends the lost payment tokens again, with the reference that got the payment and with another, and their twins. None may
        get it."""
        with self.lock:
            for payment in lost:
                for each, reference in ((payment, payment.winner), (payment, f"lost-{payment.number}"), (payment.twin, payment.winner)):
                    if each:
                        self._put(Ask(each, reference, self.chance.choice(self.nodes)))

    # Called by the thread itself.

    def _put(self, ask, after=0.0):
        heapq.heappush(self.queue, (time.monotonic() + after, next(self.order), ask))

    def _create(self):
        now = time.monotonic()
        if (self.is_finishing or not self.minters or now < self.following and not self.racing
                or len(self.queue) + len(self.under_way) >= OPEN):
            return
        if not self.racing:
            self.following = max(self.following + 1 / self.rate, now - 0.1)
        minter = self.chance.choice(self.minters)
        token = minter.ready()
        if token is None:
            return
        twin = minter.take(1)[0] if load.is_google(token) else None
        payment = Payment(next(self.numbers), token, self.era, self.chance.random() < 0.2, self.keys, twin)
        self.payments.append(payment)
        nodes = self.chance.sample(self.nodes, len(self.nodes) if self.racing else self.chance.choice([1, 1, 2, len(self.nodes)]))
        self.racing = max(0, self.racing - 1)
        is_shared = self.chance.random() < 0.5
        for node in nodes:
            reference = f"soak-{payment.number}" if is_shared or len(nodes) == 1 else f"soak-{payment.number}-{node}"
            self._put(Ask(payment, reference, node))
        if payment.twin and self.chance.random() < 0.5:
            self.payments.append(payment.twin)
            self._put(Ask(payment.twin, reference, self.chance.choice(self.nodes)))
        if self.recent and self.chance.random() < 0.2:
            known = self.chance.choice(self.recent)
            # The caller that got the payment must get it again, and no other caller may get it.
            reference = known.winner if self.chance.random() < 0.5 else f"another-{next(self.order)}"
            self._put(Ask(known, reference, self.chance.choice(self.nodes)))

    def _send(self):
        now, waiting = time.monotonic(), []
        while self.queue and self.queue[0][0] <= now:
            item = heapq.heappop(self.queue)
            ask = item[2]
            if self.busy[ask.node] >= TOGETHER or ask.node in self.rested:
                waiting.append(item)
                continue
            try:
                connection = load.Connection(self.sockets[ask.node])
                self.send(connection, ask, ask.request(self.chance))
            except OSError:
                self._again(ask, "no connection")
                continue
            self.busy[ask.node] += 1
        for item in waiting:
            heapq.heappush(self.queue, item)

    def _again(self, ask, why):
        self.counts[why] += 1
        if self.chance.random() < 0.5:
            ask.node = self.chance.choice(self.nodes)
        self._put(ask, self.chance.uniform(0.1, 0.5))

    def _close(self, connection):
        connection.socket.close()
        self.busy[connection.tag.node] -= 1

    def answered(self, connection, answer):
        self._close(connection)
        status, body = (answer or (None, b""))[:2]
        self._take(connection.tag, status, body, connection.began)

    def _waited(self, node, began):
        """Returns the seconds since `began`, without those in which the daemon was stopped."""
        now = time.monotonic()
        spans = self.standstills[node] + ([(self.stopped[node], now)] if node in self.stopped else [])
        return now - began - sum(max(0.0, end - max(start, began)) for start, end in spans)

    def _give_up(self):
        for connection in list(self.under_way.values()):
            ask = connection.tag
            if self._waited(ask.node, connection.began) > self.limit:
                self.hung.append(f"{ask.node} did not answer {ask.reference} for {self.limit} s")
                self.forget(connection)
                self._close(connection)
                self._note(ask, None, b"", connection.began)
                self._again(ask, "hung")

    def _note(self, ask, status, body, began):
        self.past.released(began, time.monotonic(), ask.node, status, body, transaction=ask.payment.transaction,
                           message=ask.payment.message, reference=ask.reference, key=ask.payment.key, attempt=ask.attempt,
                           after=ask.after, era=ask.payment.era)

    def _take(self, ask, status, body, began):
        self.longest = max(self.longest, self._waited(ask.node, began))
        self._note(ask, status, body, began)
        if status is None:
            self._again(ask, "closed")
            return
        answer = json.loads(body)
        code = answer.get("code")
        if status == 503 and code in outcome.CLEAN or code == "key_not_active":
            self._again(ask, code)
        elif status == 422 and code in BY_CLOCK and began <= self.wrong_clocks.get(ask.node, 0.0):
            self.counts["clock"] += 1
            self._again(ask, code)
        elif status == 200:
            self._has(ask, answer, began)
        elif (status, code) == (409, "transaction_replayed"):
            self.counts["replayed"] += 1
        else:
            self.wrong.append(f"{ask.node} answered {ask.reference} with {status} {code}")

    def _has(self, ask, answer, began):
        payment, where = ask.payment, answer["audit"]
        if where["node"] != ask.node:
            self.wrong.append(f"{ask.node} answered {ask.reference} with a record of {where['node']}")
        self.counts["repeated" if answer["repeated"] else "released"] += 1
        if not answer["repeated"]:
            self.releases[ask.node].append((began, time.monotonic(), payment.key))
            self.opened[ask.node, payment.key] += 1
        payment.winner = ask.reference
        if not payment.is_lost and payment.era == self.era:
            self.recent.append(payment)
