"""Callers that follow Calling.md. Each payment has a reference. After a 503, the caller repeats the request after the time that
the answer names. If a connection is closed before the answer, the caller opens another one and repeats the payment with its
reference."""
import collections
import json
import re
import time

import load
import outcome
import proof
import service

RETRY = re.compile(rb"\r\nretry-after: *([0-9]+)", re.I)


class Payment:
    __slots__ = ("number", "node", "payload", "request", "due", "after", "ended", "closed", "unavailable", "answered")

    def __init__(self, number, node, payload, token, due):
        self.number, self.node, self.payload, self.due = number, node, payload, due
        asked = json.loads(payload)
        self.request = load.decrypt(token, b"upgrade-%d" % number, json.dumps(
            {name: asked[name] for name in ("currencyCode", "transactionAmount")}).encode())
        # The earliest time at which the payment may be sent, the time of its final answer, and the node that gave the answer.
        self.after, self.ended, self.answered = due, None, None
        # The number of times that its connection was closed before the answer, and the number of 503 answers.
        self.closed = self.unavailable = 0


class Connection(load.Connection):
    """A connection that keeps the head of an answer, which has Retry-After."""

    def receive(self):
        found = super().receive()
        return found and (*found, self.received[:self.received.find(b"\r\n\r\n") + 2])


class Callers(load.Asking):
    """Sends `rate` payments a second until `finish`, in a separate thread. Each payment is due at its time, however late other
    answers are. Each node has at most `connections` persistent connections.

    sockets: by node. certificate: of the merchant who is paid.
    """

    def __init__(self, sockets, rate, connections, certificate="authority/ec.pem"):
        super().__init__()
        self.sockets, self.rate, self.connections, self.certificate = sockets, rate, connections, certificate
        self.nodes = list(sockets)
        self.idle = {node: [] for node in sockets}
        self.waiting = {node: collections.deque() for node in sockets}
        self.payments, self.answers, self.refused, self.wrong = [], proof.Answers(), collections.Counter(), []
        # The time of each node's latest release.
        self.released = {node: 0.0 for node in sockets}

    # Called by the soak's thread.

    def steady(self, seconds):
        """Waits for this time, and then until each node has released a payment since the call."""
        began = time.monotonic()
        time.sleep(seconds)
        self.wait_for_releases(self.nodes, began)

    def wait_for_releases(self, nodes, since):
        """Waits until each of these nodes has released a payment after `since`. Returns the time of the last of these
        releases."""
        def have_released():
            self.must_go_on()
            return min(self.released[node] for node in nodes) > since
        service.wait(lambda: f"a release ({dict(self.refused)} {self.wrong[:1]})", have_released, pause=0.005)
        return max(self.released[node] for node in nodes)

    # Called by the thread itself.

    def run(self):
        with service.Minter(certificate=self.certificate, with_payloads=True) as self.minter:
            self.following = time.monotonic()
            super().run()

    def is_idle(self):
        return not any(self.waiting.values())

    def turn(self):
        now = time.monotonic()
        while self.following <= now and not self.is_finishing:
            (payload, token), = self.minter.take(1)
            number = len(self.payments)
            payment = Payment(number, self.nodes[number % len(self.nodes)], payload, token, self.following)
            self.payments.append(payment)
            self.waiting[payment.node].append(payment)
            self.following += 1 / self.rate
        for node in self.nodes:
            self._send(node, now)

    def _send(self, node, now):
        waiting = self.waiting[node]
        for _ in range(len(waiting)):
            under_way = sum(connection.tag.node == node for connection in self.under_way.values())
            if under_way >= self.connections:
                return
            payment = waiting.popleft()
            if payment.after > now:
                waiting.append(payment)
                continue
            connection = self.idle[node].pop() if self.idle[node] else Connection(self.sockets[node])
            try:
                self.send(connection, payment, payment.request)
            except OSError:
                # The daemon had closed it while it was idle.
                connection.socket.close()
                self._closed(payment)

    def _closed(self, payment):
        payment.closed += 1
        self.waiting[payment.node].appendleft(payment)

    def answered(self, connection, answer):
        payment = connection.tag
        if answer is None:
            connection.socket.close()
            self._closed(payment)
            return
        status, body, closes, head = answer
        if closes:
            connection.socket.close()
        else:
            self.idle[payment.node].append(connection)
        self._answered(payment, status, body, head, time.monotonic())

    def _answered(self, payment, status, body, head, now):
        if status == 503:
            retry = RETRY.search(head)
            if retry is None:
                self.wrong.append("a 503 came without Retry-After")
            payment.unavailable += 1
            payment.after = now + (int(retry[1]) if retry else 1)
            self.waiting[payment.node].append(payment)
            return
        payment.ended = now
        if status != 200:
            self.refused[json.loads(body).get("code", status)] += 1
            return
        self.released[payment.node] = now
        answer = json.loads(body)
        payment.answered = answer["audit"]["node"]
        self.answers.take(f"upgrade-{payment.number}", body)
        if outcome.opened(body) != payment.payload:
            self.wrong.append(f"upgrade-{payment.number} was answered with other payment data")
        if answer["repeated"] and not payment.closed + payment.unavailable:
            self.wrong.append(f"upgrade-{payment.number} was sent once and answered as a repeat")
