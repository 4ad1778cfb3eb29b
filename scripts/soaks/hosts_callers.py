"""Callers of several daemons that share a ledger, and the outcome of each payment. They repeat their requests with their
references until they are answered, regardless of which components fail.

A payment token is sent to one daemon, to several daemons with the same reference (as by a caller that tries several hosts), or to
several with different references, of which only one may get the payment. After a 503 or no answer, a caller repeats the request
at the same daemon or another one. Some released payment tokens are sent again with their reference, which must repeat the
payment, and some with another reference, which must be refused.
"""
import collections
import heapq
import itertools
import json
import random
import time

import load
import outcome
import service

# The maximum number of open requests at each daemon, and at all daemons together.
TOGETHER, OPEN = 24, 150

Answer = collections.namedtuple("Answer", "payment transaction reference node sequence repeated began")


class Payment:
    """One payment token, and its requests."""
    __slots__ = ("number", "token", "era", "asked", "winner", "transaction", "is_released", "is_lost")

    def __init__(self, number, token, era):
        self.number, self.token, self.era = number, token, era
        # The number of times that the payment token was sent, by reference.
        self.asked = collections.Counter()
        # The reference that got the payment.
        self.winner = self.transaction = None
        self.is_released = self.is_lost = False


class Ask:
    __slots__ = ("payment", "reference", "node")

    def __init__(self, payment, reference, node):
        self.payment, self.reference, self.node = payment, reference, node


class Payments(load.Asking):
    """Sends requests until `finish`, in a separate thread.

    sockets: the daemons' sockets by node. limit: the seconds after which a request counts as hung. rate: the maximum number of
    payment tokens a second.
    """

    def __init__(self, sockets, limit, rate, seed):
        super().__init__()
        self.sockets, self.limit, self.rate = sockets, limit, rate
        self.nodes, self.chance = list(sockets), random.Random(seed)
        self.minter, self.numbers, self.order = None, itertools.count(), itertools.count()
        self.queue, self.busy, self.following = [], collections.Counter(), 0.0
        # The number of the next payment tokens that are sent to all daemons at once.
        self.racing = 0
        # The times at which each release was requested and answered, by node and in the order of the answers.
        self.releases = {node: [] for node in sockets}
        # The periods in which a daemon was stopped, which do not count as waiting.
        self.standstills, self.stopped = {node: [] for node in sockets}, {}
        self.recent = collections.deque(maxlen=500)
        self.payments, self.answers, self.counts = [], [], collections.Counter()
        self.wrong, self.twice, self.hung, self.longest = [], [], [], 0.0
        # For each restore: the time at which the old server had ended, the end of each node's record in the copy, and the claims
        # in the copy.
        self.restores, self.held_since = [], None
        # The era is counted up at each restore. Payment tokens of an earlier era were signed before the newest fence.
        self.era, self.fenced = 0, 0.0

    # Called by the soak's thread.

    def mint(self, *arguments):
        """Mints all later payment tokens with these options of token-forge."""
        minter = service.Minter(*arguments, certificate="authority/ec.pem")
        with self.lock:
            self.minter, before = minter, self.minter
        if before:
            before.__exit__()

    def is_idle(self):
        return not self.queue

    def turn(self):
        self._create()
        self._send()
        self._give_up()

    def finish(self):
        super().finish()
        self.minter.__exit__()

    def wait_for_releases(self, nodes, since, what):
        """Waits until each of these nodes has released a payment that was requested after `since`. Returns the time for each
        node."""
        found = {}

        def have_released():
            self.must_go_on()
            for node in set(nodes) - set(found):
                answered = [ended for began, ended in self.releases[node][-2000:] if began >= since]
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

    # Restores.

    def restored(self, ended, heads, claims):
        """Notes that the ledger is now a restored copy. Returns the payments whose releases the copy lacks.

        ended: the time at which the replaced server had ended. heads: the sequence at which each node's record ends in the copy.
        claims: the transactionIds of the claims in the copy.
        """
        with self.lock:
            self.restores.append((ended, heads, claims))
            self.held_since = ended
            lost = [payment for payment in self.payments if payment.transaction and payment.transaction not in claims
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
            self.held_since, self.fenced, self.era = None, time.monotonic(), self.era + 1
            self.minter, before = None, self.minter
        before.__exit__()

    def ask_again(self, lost):
        """Sends the lost payment tokens again, with the reference that got the payment and with another. Neither may get it."""
        with self.lock:
            for payment in lost:
                for reference in (payment.winner, f"lost-{payment.number}"):
                    self._put(Ask(payment, reference, self.chance.choice(self.nodes)))

    # Called by the thread itself.

    def _put(self, ask, after=0.0):
        heapq.heappush(self.queue, (time.monotonic() + after, next(self.order), ask))

    def _create(self):
        now = time.monotonic()
        if (self.is_finishing or self.minter is None or now < self.following and not self.racing
                or len(self.queue) + len(self.under_way) >= OPEN):
            return
        if not self.racing:
            self.following = max(self.following + 1 / self.rate, now - 0.1)
        token = self.minter.ready()
        if token is None:
            return
        payment = Payment(next(self.numbers), token, self.era)
        self.payments.append(payment)
        nodes = self.chance.sample(self.nodes, len(self.nodes) if self.racing else self.chance.choice([1, 1, 2, len(self.nodes)]))
        self.racing = max(0, self.racing - 1)
        is_shared = self.chance.random() < 0.5
        for node in nodes:
            reference = f"soak-{payment.number}" if is_shared or len(nodes) == 1 else f"soak-{payment.number}-{node}"
            self._put(Ask(payment, reference, node))
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
            if self.busy[ask.node] >= TOGETHER:
                waiting.append(item)
                continue
            try:
                connection = load.Connection(self.sockets[ask.node])
                self.send(connection, ask, load.decrypt(ask.payment.token, ask.reference.encode()))
            except OSError:
                self._again(ask, "no connection")
                continue
            ask.payment.asked[ask.reference] += 1
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
                self._again(ask, "hung")

    def _take(self, ask, status, body, began):
        self.longest = max(self.longest, self._waited(ask.node, began))
        if status is None:
            self._again(ask, "closed")
            return
        answer = json.loads(body)
        code = answer.get("code")
        if status == 503 and code in outcome.CLEAN:
            self._again(ask, code)
            return
        if status == 200:
            self._has(ask, answer, began)
        elif (status, code) == (409, "transaction_replayed"):
            self._has_not(ask)
        else:
            self.wrong.append(f"{ask.node} answered {ask.reference} with {status} {code}")

    def _has(self, ask, answer, began):
        payment, where, is_repeated = ask.payment, answer["audit"], answer["repeated"]
        transaction = answer["transactionId"]
        if where["node"] != ask.node:
            self.wrong.append(f"{ask.node} answered {ask.reference} with a record of {where['node']}")
        self.answers.append(Answer(payment, transaction, ask.reference, ask.node, where["sequence"], is_repeated, began))
        self.counts["repeated" if is_repeated else "released"] += 1
        if self.held_since is not None and began >= self.held_since:
            self.wrong.append(f"{ask.node} released {ask.reference} before the restored ledger was accepted")
        if payment.is_lost or payment.winner not in (None, ask.reference):
            self.twice.append(f"{transaction} was released to {payment.winner}, and to {ask.reference}"
                              + (" after the restore" if payment.is_lost else ""))
        if is_repeated:
            # An earlier or simultaneous request with the same reference got the payment.
            if payment.winner is None and payment.asked[ask.reference] < 2:
                self.wrong.append(f"{ask.node} repeated {ask.reference}, which had not been asked for")
        else:
            if payment.is_released:
                self.twice.append(f"{transaction} was released twice to {ask.reference}")
            if payment.era < self.era and began >= self.fenced:
                self.wrong.append(f"{ask.node} released {ask.reference}, which was signed before the fence")
            payment.is_released = True
            self.releases[ask.node].append((began, time.monotonic()))
        payment.winner, payment.transaction = ask.reference, transaction
        self._tell_loss(payment, began)
        if not payment.is_lost and payment.era == self.era:
            self.recent.append(payment)

    def _tell_loss(self, payment, began):
        """Marks a payment as lost if its answer was under way when the server ended."""
        for ended, _, claims in self.restores:
            if began < ended and payment.transaction not in claims:
                payment.is_lost = True

    def _has_not(self, ask):
        payment = ask.payment
        self.counts["replayed"] += 1
        if payment.era < self.era:
            # A payment token that was signed before the fence and has no claim is refused.
            if ask.reference == payment.winner and not payment.is_lost:
                self.wrong.append(f"{ask.reference} was answered, has its claim, and is refused")
            return
        if ask.reference == payment.winner:
            self.wrong.append(f"{ask.reference} was answered, and is refused")
        elif len(payment.asked) == 1:
            self.wrong.append(f"{ask.reference} was refused, and no other caller asked for it")

    # Called at the end.

    def _is_kept(self, answer):
        return all(answer.began >= ended or answer.sequence <= heads.get(answer.node, 0) for ended, heads, _ in self.restores)

    def kept(self):
        """Returns the answers whose records must exist: (releases by transactionId, repeats), as proof.Answers has them."""
        released, repeated = {}, []
        for answer in filter(self._is_kept, self.answers):
            if answer.repeated:
                repeated.append((answer.transaction, answer.node, answer.sequence))
            else:
                released[answer.transaction] = (answer.reference, answer.node, answer.sequence)
        return released, repeated

    def unserved(self):
        """Returns the payments that no caller got, although they were not lost with a restore."""
        return [payment for payment in self.payments
                if payment.winner is None and payment.asked and payment.era == self.era]
