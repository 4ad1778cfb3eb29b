"""A shop that pays at paytoken-gateway, with processor-simulator behind it, and what its clients were told."""
import collections
import json
import os
import pathlib
import subprocess
import time

import load
import service

# The simulator's amounts, in cents, and how many in a hundred have them.
PLAIN = {1000: 80, 1080: 5, 1081: 5}
LOST = {1084: 2, 1085: 2, 1086: 2, 1087: 2, 1090: 1, 1092: 1}
ASK = b"GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"


class Program:
    """The gateway or the simulator."""

    def __init__(self, socket, *command):
        self.socket, self.command, self.process = socket, command, None

    def start(self):
        with open(f"{self.socket}.log", "ab") as log:
            self.process = subprocess.Popen(self.command, stderr=log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + service.GUARD
        while not load.connects(self.socket):
            if self.process.poll() is not None or time.monotonic() > until:
                raise service.Failed(f"{self.command[0]} does not serve: "
                                     + pathlib.Path(f"{self.socket}.log").read_text(errors="replace")[-500:])
            time.sleep(0.01)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def abandon(self):
        """Ends it, whatever it is at, unless it has ended."""
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def stop(self):
        self.process.terminate()
        if self.process.wait(service.GUARD) != 0:
            raise service.Failed(f"{self.command[0]} ended with {self.process.returncode}")


class Payment:
    """One payment token, and what its client was told."""
    __slots__ = ("identifier", "cents", "request", "told", "code")

    def __init__(self, token, cents, key):
        self.identifier = json.loads(token)["paymentData"]["header"]["transactionId"]
        self.cents, self.told, self.code = cents, None, None
        body = (b'{"token":' + token.strip() + b',"orderId":"order-%s","expected":{"amount":"%d.%02d","currency":"USD"}}'
                % (self.identifier[:12].encode(), cents // 100, cents % 100))
        self.request = load.post(b"/payments/apple-pay", body).replace(
            b"\r\nContent-Type", b"\r\nAuthorization: Bearer " + key + b"\r\nContent-Type", 1)

    def copy(self):
        """The same token and order, brought elsewhere as well."""
        other = object.__new__(Payment)
        other.identifier, other.cents, other.request, other.told, other.code = self.identifier, self.cents, self.request, None, None
        return other

    def take(self, status, body):
        """Whether that was an answer; 503 and none are not."""
        if status == 200:
            self.told = json.loads(body)["status"]
        elif status == 422 and json.loads(body)["code"] in ("payment_declined", "payment_failed"):
            self.told = {"payment_declined": "declined", "payment_failed": "error"}[json.loads(body)["code"]]
        elif status in (None, 0, 503):
            self.code = f"503 {json.loads(body)['code']}" if status == 503 else None
            return False
        else:
            self.told, self.code = "refused", f"{status} {json.loads(body).get('code')}"
        return True


class Shop:
    """All three programs, and the payments so far."""
    # The most that one question lists.
    PAGE = 1000

    def __init__(self, daemon, chance, name="gateway", database=None, like=None):
        """name: of the gateway's files. database: the URL of a store in PostgreSQL. like: another shop, whose client this is too."""
        self.daemon, self.chance, self.name, self.database = daemon, chance, name, database
        self.socket, self.admin = f"{name}.sock", f"{name}-admin.sock"
        here = os.getcwd()
        if like is None:
            made = json.loads(service.run("paytoken-gateway", "new-key", "--output", "json"))
        self.key, self.key_sha256 = (like.key, like.key_sha256) if like else (made["key"].encode(), made["key_sha256"])
        os.makedirs("store", mode=0o700, exist_ok=True)
        self.configure()
        self.gateway = Program(self.socket, "paytoken-gateway", "--config", f"{name}.yaml")
        self.simulator = Program("simulator.sock", "processor-simulator", "--listen", f"unix:{here}/simulator.sock",
                                 "--log", f"{here}/simulator.log")
        self.payments, self.counts = [], collections.Counter()
        self.steps, self.cuts = collections.Counter(), collections.Counter()

    def configure(self, paytokend=None, simulator="simulator.sock", store="store"):
        """What the gateway's next start reads."""
        pathlib.Path(f"{self.name}.yaml").write_text(
            f"listener: {{ address: 'unix:{self.socket}' }}\nadmin: {{ socket: {self.admin} }}\n"
            f"paytokend: {{ socket: {paytokend or self.daemon.socket}, timeout: 2s }}\n"
            "limits: { requests_per_second: 100000, burst: 100000, max_connections: 2048, max_connections_per_client: 1024 }\n"
            f"store: {{ url: '{self.database or f'sqlite:{store}/payments.sqlite'}' }}\ndeadline: 3s\n"
            f"processors: [{{ name: simulator, kind: simulator, url: 'unix:{os.getcwd()}/{simulator}', merchants: ['*'] }}]\n"
            f"clients: [{{ name: shop, key_sha256: '{self.key_sha256}', merchants: ['*'], operations: [pay, status] }}]\n"
            "log: { level: warning }\n")

    def mint(self, count):
        """So many payments, with amounts mixed by chance."""
        amounts = {**PLAIN, **LOST}
        wanted = collections.Counter(self.chance.choices(list(amounts), list(amounts.values()), k=count))
        minted = [Payment(token, cents, self.key) for cents, number in wanted.items()
                  for token in service.mint(number, "--amount", str(cents))]
        self.chance.shuffle(minted)
        self.payments += minted
        return minted

    def send(self, payments, clients, tick=None):
        """Each of them once. Returns those without an answer."""
        left = []

        def answered(payment, status, body, began, ended):
            self.counts["answers" if status else "broken"] += 1
            if not payment.take(status, body):
                left.append(payment)
            if tick:
                tick()
        load.drive(self.gateway.socket, clients, [(payment, payment.request) for payment in payments], answered)
        seen = {id(payment) for payment in left}
        # Those that were not even sent, since nobody accepted any more.
        return left + [payment for payment in payments if payment.told is None and id(payment) not in seen]

    def settle(self, payments):
        """Sends again what has no answer until all have one."""
        until = time.monotonic() + service.GUARD
        while payments:
            if time.monotonic() > until:
                raise service.Failed(f"{len(payments)} payments had no answer {service.GUARD} s after the last fault")
            self.counts["sent again"] += len(payments)
            payments = self.send(payments, 8)
            time.sleep(0.2)

    def await_readiness(self, wanted, code=""):
        """Waits until GET /readyz of the gateway answers so, with that code among its reasons."""
        until = time.monotonic() + service.GUARD
        while True:
            status, body = load.once(self.admin, service.GET_READY)
            if status == wanted and code.encode() in body:
                return
            if time.monotonic() > until:
                raise service.Failed(f"/readyz is not {wanted} {code} after {service.GUARD} s: {status} {body[:200]}")
            time.sleep(0.05)

    def pending(self):
        return [item["transactionId"] for item in json.loads(service.run(
            "paytoken-gateway", "payment", "list", "--state", "pending", "--limit", str(self.PAGE), "--output", "json", "--socket",
            self.admin))["items"]]

    def status(self, payment):
        status, body = load.once(self.gateway.socket, ASK % (b"/payments/apple-pay/" + payment.identifier.encode(), self.key))
        return json.loads(body)["status"] if status == 200 else status

    def submissions(self):
        """By payment, the outcome of each submission, by the simulator's log."""
        found = collections.defaultdict(list)
        for line in pathlib.Path("simulator.log").read_text().splitlines():
            entry = json.loads(line)
            if entry["event"] == "submitted":
                found[entry["payment"]].append(entry["outcome"])
        return found
