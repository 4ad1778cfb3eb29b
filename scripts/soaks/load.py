"""Many HTTP connections to a Unix socket from one thread. It uses little processor time, so that measured times are those of the
daemon. Requests are made before the clock starts."""
import hashlib
import json
import os
import re
import select
import socket
import subprocess
import threading
import time

# The limit in seconds for waits that would otherwise never end. No measurement depends on it.
GUARD = 300
# The merchant's identifier at Google, in runs that serve Google Pay.
GOOGLE_MERCHANT = os.environ.get("SANDBOX_GOOGLE_MERCHANT", "")
LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.I)


class Failed(Exception):
    """An error after which the soak cannot continue."""


def get(path, key=None):
    """Returns a complete request. key: a client's bearer key."""
    return b"GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (path.encode(), _authorization(key))


def post(path, body, key=None):
    return (b"POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (path, _authorization(key), len(body))) + body


def _authorization(key):
    return b"Authorization: Bearer %s\r\n" % key if key else b""


def decrypt(token, reference=None, expected=None, attempt=None, after=()):
    """Returns a request to decrypt; token is the line that token-forge printed, of either wallet. attempt, after: names of
    attempts."""
    body = b'{"token":' + token.strip()
    if is_google(token):
        body += b',"merchantIdentifier":"%s","amount":"10.99","currency":"USD"' % GOOGLE_MERCHANT.encode()
    if reference is not None:
        body += b',"reference":"%s"' % reference
    if expected is not None:
        body += b',"expected":' + expected
    if attempt is not None:
        body += b',"attempt":"%s","after":[%s]' % (attempt.encode(), b",".join(b'"%s"' % name.encode() for name in after))
    return post(b"/v1/google-pay/decrypt" if is_google(token) else b"/v1/decrypt", body + b"}")


def is_google(token):
    """Returns True for a payment token of Google Pay, and False for one of Apple Pay."""
    return b'"signedMessage":' in token


def transaction(token):
    """Returns the transactionId of a payment token. Only Apple's name it."""
    content = json.loads(token)
    if is_google(token):
        return hashlib.sha256(content["signedMessage"].encode()).hexdigest()
    return content["paymentData"]["header"]["transactionId"]


def claim(transaction_id, google):
    """Returns the name under which the ledger claims a transaction. google: True if it is of Google Pay. Its name covers the
    wallet and the merchant, so that no identifier that Apple chose equals it."""
    if not google:
        return transaction_id
    parts = [b"paytokend claim", b"google-pay", b"signed-message", GOOGLE_MERCHANT.encode(), bytes.fromhex(transaction_id)]
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "little") + part for part in parts)).hexdigest()


def recipient(token, keys):
    """Returns the publicKeyHash of the key that opens a payment token, in base64. keys: the hashes by the keys' use, of which
    Google's are needed, because its payment tokens do not name the key."""
    return keys["google-pay"] if is_google(token) else json.loads(token)["paymentData"]["header"]["publicKeyHash"]


def pair(payment, other):
    """Notes two payments as twins: their payment tokens have the same messageId, which has one name in the history."""
    payment.twin, other.twin = other, payment
    payment.message = other.message = payment.transaction


class Connection:
    """A connection with at most one request under way."""
    __slots__ = ("socket", "tag", "began", "received", "head")

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.tag, self.began, self.received, self.head = None, 0.0, b"", b""

    def send(self, tag, request):
        self.tag, self.received, self.began = tag, b"", time.monotonic()
        self.socket.sendall(request)

    def receive(self):
        """Returns status, body, and True if the daemon closes the connection after this answer. Returns None while bytes are
        missing. The answer's head is in `head` then."""
        piece = self.socket.recv(262144)
        if not piece:
            raise ConnectionResetError
        self.received += piece
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return None
        self.head = head = self.received[:end + 2]
        length = LENGTH.search(head)
        body = self.received[end + 4:]
        if length is None or len(body) < int(length[1]):
            return None
        return int(head[9:12]), body, b"\nconnection: close" in head.lower()


def drive(path, clients, requests, answered, until=None, tick=None, limit=None):
    """Keeps `clients` connections busy until the requests run out or `until` has come, and collects all answers.

    requests: an iterator of (tag, request). None instead of a pair means that there is none at present. answered: called with
    tag, status, body, began, ended; the status is None if the connection broke before the answer. tick: called at least every 20
    ms, also while no answer comes; the load ends when it returns true. limit: the time limit for an answer, in seconds; after it
    the status is 0. A connection that broke is replaced as long as the socket accepts one; with a tick, also later.
    """
    poll, busy, idle = select.epoll(), {}, []
    requests = iter(requests)
    dry = False

    def connect():
        try:
            return Connection(path)
        except OSError:
            return None

    def following():
        """Returns the next request, or () after the last."""
        nonlocal dry
        dry = dry or until is not None and time.monotonic() >= until
        pair = () if dry else next(requests, ())
        dry = pair == ()
        return pair

    def give(connection):
        """Sends the next request on the connection, or on a new one if that is closed."""
        while connection is not None:
            pair = following()
            if pair is None:
                idle.append(connection)
                return
            if pair == ():
                connection.socket.close()
                return
            try:
                connection.send(*pair)
            except OSError:
                answered(pair[0], None, b"", connection.began, time.monotonic())
                connection.socket.close()
                connection = connect()
                continue
            busy[connection.socket.fileno()] = connection
            poll.register(connection.socket, select.EPOLLIN)
            return

    try:
        for _ in range(clients):
            give(connect())
        while busy or idle or tick is not None and not dry:
            dry = dry or tick is not None and tick()
            if tick is not None and not dry:
                for _ in range(clients - len(busy) - len(idle)):
                    give(connect())
            for descriptor, _ in poll.poll(0.02 if tick is not None or idle else 1.0):
                connection = busy[descriptor]
                closes = True
                try:
                    answer = connection.receive()
                    if answer is None:
                        continue
                    status, body, closes = answer
                except OSError:
                    status, body = None, b""
                poll.unregister(descriptor)
                del busy[descriptor]
                answered(connection.tag, status, body, connection.began, time.monotonic())
                if closes:
                    connection.socket.close()
                    connection = connect()
                give(connection)
            now = time.monotonic()
            for connection in [late for late in busy.values() if limit is not None and now - late.began > limit]:
                poll.unregister(connection.socket)
                del busy[connection.socket.fileno()]
                answered(connection.tag, 0, b"", connection.began, now)
                connection.socket.close()
                give(connect())
            rested, idle = idle, []
            for connection in rested:
                give(connection)
    finally:
        for connection in busy.values():
            connection.socket.close()
        poll.close()


class Asking(threading.Thread):
    """A thread that sends requests until `finish`. A subclass sends them in `turn`, which the thread calls repeatedly, receives
    answers in `answered`, and returns True from `is_idle` when it has no more requests to send."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock, self.poll, self.under_way = threading.Lock(), select.epoll(), {}
        self.is_finishing, self.failure = False, None

    def run(self):
        try:
            while not (self.is_finishing and self.is_idle() and not self.under_way):
                with self.lock:
                    self.turn()
                ready = self.poll.poll(0.005)
                with self.lock:
                    for descriptor, _ in ready:
                        self._receive(self.under_way[descriptor])
        except BaseException as error:
            self.failure = error
            raise

    def send(self, connection, tag, request):
        connection.send(tag, request)
        self.under_way[connection.socket.fileno()] = connection
        self.poll.register(connection.socket, select.EPOLLIN)

    def forget(self, connection):
        """Stops waiting for an answer on the connection."""
        self.poll.unregister(connection.socket)
        del self.under_way[connection.socket.fileno()]

    def _receive(self, connection):
        try:
            answer = connection.receive()
            if answer is None:
                return
        except OSError:
            answer = None
        self.forget(connection)
        self.answered(connection, answer)

    def must_go_on(self):
        if self.failure or not self.is_alive():
            raise Failed(f"the load has ended: {self.failure}")
        return True

    def finish(self):
        """Sends no new requests, and returns when all are answered."""
        self.is_finishing = True
        self.join(GUARD)
        if self.is_alive() or self.failure:
            raise Failed(f"not all was answered {GUARD} s after the last fault: {self.failure or ''}")


def once(path, request):
    """Sends one request on a separate connection. Returns status and body."""
    answers = []
    drive(path, 1, [(None, request)], lambda tag, status, body, began, ended: answers.append((status, body)), limit=GUARD)
    return answers[0] if answers else (None, b"")


def connects(place):
    """Returns True if a program accepts connections. place: a path, or a port of this host."""
    try:
        with socket.socket(socket.AF_UNIX if isinstance(place, str) else socket.AF_INET) as connection:
            connection.connect(place if isinstance(place, str) else ("127.0.0.1", place))
            return True
    except OSError:
        return False


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def generate(path, requests, connections, seconds, rate=None, priority=()):
    """Sends the requests with the program load-generator, which needs less processor time. Returns its report (see its --help).

    priority: words before the command.
    """
    command = [*priority, "load-generator", path, "--connections", str(connections), "--seconds", str(seconds)]
    done = subprocess.run(command + (["--rate", f"{rate:.3f}"] if rate else []), capture_output=True,
                          input=b"".join(len(request).to_bytes(4, "big") + request for request in requests))
    if done.returncode != 0:
        raise OSError(f"load-generator: {done.stderr.decode(errors='replace').strip()}")
    return json.loads(done.stdout)


def rounds(seconds, make, play):
    """Plays rounds of requests until their times add up to `seconds`. Returns the number of requests and their time. Each round
    is made before its clock starts, large enough for a second at the rate so far. So requests never run out, however fast the
    machine is, and none is made long before its use.

    make: called with a number; returns that many requests. play: called with them; returns when all are answered.
    """
    count, took, size = 0, 0.0, 100
    while took < seconds:
        requests = make(size)
        began = time.monotonic()
        play(requests)
        took += time.monotonic() - began
        count += size
        size = max(100, int(count / took * min(1.0, seconds - took)))
    return count, took


def percentile(ordered, share):
    """Returns a percentile, in milliseconds, of a list of seconds in ascending order."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else 0.0
