"""A shop that pays at paytoken-gateway, with processor-simulator as its processor, and the results that its clients got."""
import collections
import copy
import json
import os
import pathlib
import time

import clocks
import history
import load
import service

# The number of payments in a hundred for each of the simulator's amounts, which are in cents.
PLAIN = {1000: 80, 1080: 5, 1081: 5}
LOST = {1084: 2, 1085: 2, 1086: 2, 1087: 2, 1090: 1, 1092: 1}


class Payment:
    """One payment token of either wallet, and the result that its client got."""
    __slots__ = ("identifier", "is_google", "cents", "request", "result", "code")

    def __init__(self, token, cents, key):
        self.identifier, self.is_google = load.transaction(token), load.is_google(token)
        self.cents, self.result, self.code = cents, None, None
        amount = b'"amount":"%d.%02d","currency":"USD"' % (cents // 100, cents % 100)
        stated = (b'"merchantIdentifier":"%s",%s' % (load.GOOGLE_MERCHANT.encode(), amount) if self.is_google else
                  b'"expected":{%s}' % amount)
        body = b'{"token":' + token.strip() + b',"orderId":"order-%s",%s}' % (self.identifier[:12].encode(), stated)
        self.request = load.post(b"/payments/google-pay" if self.is_google else b"/payments/apple-pay", body, key)

    def again(self):
        """Returns a payment with the same payment token and order, for another gateway."""
        other = copy.copy(self)
        other.result = other.code = None
        return other

    def take(self, status, body):
        """Stores the result. Returns False after a 503 or no answer, since the payment must then be sent again."""
        if status == 200:
            self.result = json.loads(body)["status"]
        elif status == 422 and json.loads(body)["code"] in ("payment_declined", "payment_failed"):
            self.result = {"payment_declined": "declined", "payment_failed": "error"}[json.loads(body)["code"]]
        elif status in (None, 0, 503):
            self.code = f"503 {json.loads(body)['code']}" if status == 503 else None
            return False
        else:
            self.result, self.code = "refused", f"{status} {json.loads(body).get('code')}"
        return True


class Client:
    """A client of the gateway, and its key."""

    def __init__(self, name):
        made = json.loads(service.run("paytoken-gateway", "new-key", "--output", "json"))
        self.name, self.key, self.key_sha256 = name, made["key"].encode(), made["key_sha256"]


class Shop:
    """The three programs, and the payments so far."""
    # The most that one list returns.
    PAGE = 1000

    def __init__(self, daemon, chance, name="gateway", database=None, like=None, with_google=False, has_clock=False):
        """name: the name of the gateway's files. database: the URL of a store in PostgreSQL; by default, the store is a file.
        like: another shop, whose client and simulator this one shares. with_google: a third of the payment tokens are of Google
        Pay; the daemon must have its key. has_clock: the gateway has its own clock."""
        self.daemon, self.chance, self.name, self.database = daemon, chance, name, database
        self.socket, self.admin = f"{name}.sock", f"{name}-admin.sock"
        here = os.getcwd()
        self.client = like.client if like else Client("shop")
        self.key = self.client.key
        self.with_google = like.with_google if like else with_google
        os.makedirs("store", mode=0o700, exist_ok=True)
        self.configure()
        self.clock = clocks.Clock(f"{name}.clock") if has_clock else None
        self.gateway = service.Program(self.socket, *(self.clock.words() if self.clock else []), "paytoken-gateway", "--config",
                                       f"{name}.yaml")
        self.simulator = like.simulator if like else service.Program(
            "simulator.sock", "processor-simulator", "--listen", f"unix:{here}/simulator.sock", "--log", f"{here}/simulator.log")
        # Two gateways of one store share a history.
        self.past = like.past if like else history.History()
        self.payments, self.counts = [], collections.Counter()
        self.steps, self.cuts, self.wrong = collections.Counter(), collections.Counter(), []

    def configure(self, paytokend=None, simulator="simulator.sock", store="store", connections=1024, others=()):
        """Writes the configuration of the gateway's next start. connections: the maximum of each client. others: more clients."""
        google = f", google_pay: {{ merchants: [{load.GOOGLE_MERCHANT}] }}" if self.with_google else ""
        clients = "".join(
            f"  - {{ name: {client.name}, key_sha256: '{client.key_sha256}', merchants: ['*'], operations: [pay, status]{google} }}\n"
            for client in (self.client, *others))
        pathlib.Path(f"{self.name}.yaml").write_text(
            f"listener: {{ address: 'unix:{self.socket}' }}\nadmin: {{ socket: {self.admin} }}\n"
            f"paytokend: {{ socket: {paytokend or self.daemon.socket}, timeout: 2s }}\n"
            "limits: { requests_per_second: 100000, burst: 100000, "
            f"max_connections: 2048, max_connections_per_client: {connections} }}\n"
            f"store: {{ url: '{self.database or f'sqlite:{store}/payments.sqlite'}' }}\ndeadline: 3s\n"
            f"processors: [{{ name: simulator, kind: simulator, url: 'unix:{os.getcwd()}/{simulator}', merchants: ['*']"
            f"{google} }}]\n"
            f"clients:\n{clients}"
            "log: { level: warning }\n")

    def mint(self, count):
        """Returns `count` payments with randomly mixed amounts and wallets."""
        amounts = {**PLAIN, **LOST}
        wanted = collections.Counter(self.chance.choices(list(amounts), list(amounts.values()), k=count))
        minted = []
        for cents, number in wanted.items():
            google = sum(self.chance.random() < 1 / 3 for _ in range(number)) if self.with_google else 0
            tokens = service.mint(number - google, "--amount", str(cents)) if number > google else []
            # Those of Google Pay name no amount.
            tokens += service.mint(google, certificate=service.GOOGLE_KEY) if google else []
            minted += [Payment(token, cents, self.key) for token in tokens]
        self.chance.shuffle(minted)
        self.payments += minted
        return minted

    def send(self, payments, clients, tick=None):
        """Sends each payment once. Returns those without an answer."""
        left = []

        def answered(payment, status, body, began, ended):
            self.counts["answers" if status else "broken"] += 1
            is_answered = payment.take(status, body)
            if not is_answered:
                left.append(payment)
            self.past.operation(
                began, ended, self.name, "pay", payment.result if is_answered else "unknown",
                {"code": payment.code.partition(" ")[2]} if payment.code else {}, payment=payment.identifier)
            if tick:
                tick()
        load.drive(self.gateway.socket, clients, [(payment, payment.request) for payment in payments], answered)
        seen = {id(payment) for payment in left}
        # The result includes payments that were not sent, because no gateway accepted connections.
        return left + [payment for payment in payments if payment.result is None and id(payment) not in seen]

    def settle(self, payments):
        """Sends payments without an answer again until all have one."""
        left = list(payments)

        def are_answered():
            self.counts["sent again"] += len(left)
            left[:] = self.send(left, 8) if left else []
            return not left
        service.wait(lambda: f"answers to {len(left)} payments", are_answered, pause=0.2)

    def await_readiness(self, wanted, code=""):
        """Waits until the gateway's GET /readyz has the status `wanted`, with this code among its reasons."""
        def answers():
            status, body = load.once(self.admin, service.GET_READY)
            return status == wanted and code.encode() in body
        service.wait(f"/readyz with {wanted} {code}", answers)

    def pending(self):
        return [item["transactionId"] for item in json.loads(service.run(
            "paytoken-gateway", "payment", "list", "--state", "pending", "--limit", str(self.PAGE), "--output", "json", "--socket",
            self.admin))["items"]]

    def status(self, payment):
        status, body = load.once(self.gateway.socket, load.get(f"/payments/apple-pay/{payment.identifier}", self.key))
        return json.loads(body)["status"] if status == 200 else status

    def judge(self, name):
        """Returns what is wrong with the history, which ends with the simulator's log."""
        for identifier, outcomes in self.submissions().items():
            for outcome in outcomes:
                self.past.operation(time.monotonic(), time.monotonic(), "simulator", "submit", "done", {"outcome": outcome},
                                    payment=identifier)
        return self.past.judge(name)

    def submissions(self):
        """Returns, by payment, the outcome of each submission in the simulator's log."""
        found = collections.defaultdict(list)
        for line in pathlib.Path("simulator.log").read_text().splitlines():
            entry = json.loads(line)
            if entry["event"] == "submitted":
                found[entry["payment"]].append(entry["outcome"])
        return found
