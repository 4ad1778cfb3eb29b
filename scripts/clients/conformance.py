"""Checks that a client of paytokend, in any language, repeats, waits and decides as "Calling paytokend" says.

    python3 conformance.py [--only TEXT] COMMAND [ARGUMENT…]

COMMAND uses the client, by the protocol in README.md. For each scenario a scripted daemon answers it on a Unix socket. Prints a
line for each scenario; exits 0, or 1 if one fails. --only runs the scenarios whose names contain TEXT.
"""
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import pathlib
import queue
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
# The location of the documents in the repository, and on a host.
SOURCES, INSTALLED = HERE.parent.parent / "Sources", pathlib.Path("/usr/share/doc/paytokend")
OPENAPI, CODES = ((SOURCES / "Service/DaemonAPI/openapi.json", SOURCES / "Daemon/Daemon/Documentation.docc/Codes.md")
                  if SOURCES.exists() else (INSTALLED / "openapi.json", INSTALLED / "articles/Codes.md"))
# Parts of card data and payment tokens, which a client must never print.
SECRETS = "4111111111111111", "c2VjcmV0IG9mIHRva2Vu"
EXPECTED = {"currencyCode": "840", "transactionAmount": 1099}
ORDERS = itertools.count()
SLACK = 15         # seconds that a busy machine may add to a deadline


@dataclass
class Reply:
    """A daemon's answer to one request. Without a code and a body, it is the payment."""
    code: str | None = None
    status: int = 200
    repeated: bool = False
    retry_after: str | None = None
    body: bytes | None = None
    delay: float = 0
    sends: int | None = None         # bytes of the answer before the connection closes
    drips: bool = False              # a byte at a time
    closes: bool = False             # once it has answered


@dataclass
class Payment:
    """A call of the client: the replies to its requests, and the outcome that the client must report."""
    replies: list = field(default_factory=lambda: [Reply()])
    verdict: str = "charge"
    code: str | None = None
    deadline: float = 10
    within: float = 0                # seconds; the deadline by default
    after: list | None = None        # in attempts
    order: str = field(default_factory=lambda: f"order {next(ORDERS)}")

    def token(self):
        return {"paymentData": {"version": "EC_v1", "data": SECRETS[1], "header": {"transactionId": self.order.encode().hex()}}}


class Daemon:
    """A scripted paytokend on a Unix socket, and the faults that it finds in the requests."""

    def __init__(self, path, payments):
        self.path, self.faults, self.saved, self.restarts = path, set(), {}, []
        self.payments = {payment.order: payment for payment in payments}
        self.replies = {order: itertools.chain(*(payment.replies for payment in payments if payment.order == order))
                        for order in self.payments}
        self.requests = {order: [] for order in self.payments}
        self.not_before, self.accepted, self.open, self.lock = {}, 0, [], threading.Lock()
        self.start()

    def start(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def stop(self):
        for timer in self.restarts:
            timer.join()
        pathlib.Path(self.path).unlink()
        for one in [self.listener, *self.open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def restart(self):
        self.stop()
        self.restarts.append(threading.Timer(0.5, self.start))
        self.restarts[-1].start()

    def accept(self, listener):
        with contextlib.suppress(OSError):
            while connection := listener.accept()[0]:
                self.accepted += 1
                self.open.append(connection)
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with connection, connection.makefile("rb") as stream:
                while line := stream.readline():
                    head = http.client.parse_headers(stream)
                    self.expect(line == b"POST /v1/decrypt HTTP/1.1\r\n", "a request is not POST /v1/decrypt HTTP/1.1")
                    self.expect(head.get_content_type() == "application/json", "Content-Type is not application/json")
                    self.expect(len(head.get_all("Host", [])) == 1, "Host does not come once")
                    self.expect(head["Content-Length"] and not head["Transfer-Encoding"], "a body has no Content-Length")
                    if not self.answer(connection, stream.read(int(head["Content-Length"] or 0))):
                        return
        except OSError:
            pass       # the client gave up
        except ValueError:
            self.faults.add("a request is not HTTP with a JSON object")

    def expect(self, holds, fault):
        if not holds:
            self.faults.add(fault)

    def answer(self, connection, content):
        """Checks a request and answers it. Returns false if the connection closes then."""
        body = json.loads(content)
        order = body.get("reference")
        payment = self.payments.get(order)
        if payment is None or body.get("token") != payment.token() or body.get("expected") != EXPECTED:
            self.faults.add("reference, token and expected are not those of one payment")
            return False
        with self.lock:
            earlier, reply = list(self.requests[order]), next(self.replies[order], None)
            self.requests[order].append(content)
        self.expect(time.monotonic() >= self.not_before.get(order, 0), "a request came before Retry-After had passed")
        if payment.after is None:
            self.expect(content == (earlier or [content])[0], "a repeat differs from the first request")
        else:
            self.check_attempt(payment, body, [json.loads(one).get("attempt") for one in earlier])
        if reply is None:
            self.faults.add("a request came after the final answer")
            return False
        time.sleep(reply.delay)
        answer = reply.body
        if answer is None:
            answer = json.dumps({"code": reply.code, "message": "A sentence."} if reply.status != 200 else {
                "transactionId": body["token"]["paymentData"]["header"]["transactionId"], "repeated": reply.repeated,
                "merchantIdentifier": "merchant.com.example", "checked": list(EXPECTED),
                "paymentData": {"applicationPrimaryAccountNumber": SECRETS[0]}}).encode()
        head = f"HTTP/1.1 {reply.status} -\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n"
        if reply.retry_after is not None:
            head += f"Retry-After: {reply.retry_after}\r\n"
            self.not_before[order] = time.monotonic() + (float(reply.retry_after) if reply.retry_after.isdigit() else 0)
        whole = head.encode() + b"\r\n" + answer
        for start in range(0, len(whole[:reply.sends]), 1 if reply.drips else len(whole)):
            connection.sendall(whole[:reply.sends][start:start + 1 if reply.drips else None])
            time.sleep(0.05 * reply.drips)
        return reply.sends is None and not reply.closes

    def check_attempt(self, payment, body, earlier):
        attempt, after = body.get("attempt"), body.get("after", [])
        self.expect(re.fullmatch("(?!0{16})[0-9a-f]{16}", attempt or ""), "an attempt is not 16 hexadecimal digits")
        self.expect(attempt not in [*earlier, *after], "an attempt is used twice, or follows itself")
        self.expect(set(after) == {*payment.after, *earlier}, "`after` is not all earlier attempts, and these alone")
        self.expect(self.saved.setdefault(attempt, threading.Event()).wait(2), "an attempt was sent before it was stored")


LOST = Reply(sends=0)


def unavailable(seconds, code="hsm_unavailable"):
    return Reply(code, 503, retry_after=str(seconds))


def statuses():
    """Returns the codes of openapi.json with their statuses."""
    table = json.loads(OPENAPI.read_text(encoding="utf-8"))["components"]["schemas"]["RefusalCode"]["description"]
    return {code: int(status) for status, code in re.findall(r"^\| (\d{3}) \| (\w+) \|", table, re.MULTILINE)}


def documented():
    """Returns the verdict for each code from Codes.md, in which headings have the verdicts, and the rows below them begin with
    the codes."""
    verdicts = {}
    for section in re.split(r"^##+ ", CODES.read_text(encoding="utf-8"), flags=re.MULTILINE):
        for codes in re.findall(r"^(?:\| )?\d{3} ((?:`\w+`(?:, )?)+)", section, re.MULTILINE):
            for code in re.findall(r"\w+", codes):
                verdicts.setdefault(code, "retry" if "do not charge yet" in section.partition("\n")[0] else "do_not_charge")
    return verdicts


def every_code():
    verdicts = documented()
    return [Payment([Reply(code, status, retry_after="3600" if verdicts.get(code) == "retry" else None)], verdicts.get(code), code,
                    60, SLACK) for code, status in statuses().items()]


# Each scenario's name, its maximum number of connections (0: any), and its steps, which are simultaneous payments or an event.
SCENARIOS = [
    ("payments one after the other share a connection", 1, [[Payment()], [Payment()], [Payment()]]),
    ("a repeated payment is decided by the store", 1, [[Payment([Reply(repeated=True)], "check_store")]]),
    ("lost answers", 0, [[Payment([LOST, LOST, Reply(repeated=True)], "check_store")], [Payment([LOST, Reply()])]]),
    ("answers cut short", 0, [[Payment([Reply(sends=200), Reply(sends=20), Reply(repeated=True)], "check_store")]]),
    ("a kept connection was closed", 0, [[Payment([Reply(closes=True)])], [Payment()], [Payment([LOST, Reply()])]]),
    ("a restart of the daemon", 0, [[Payment(), Payment(), Payment()], Daemon.restart, [Payment(), Payment(), Payment()]]),
    ("every code, and no request after it", 0, [every_code()]),
    ("codes of a newer daemon", 0, [
        [Payment([Reply("new_code", status)], "do_not_charge", "new_code") for status in (400, 409, 422)],
        [Payment([unavailable(3600, "new_code")], "retry", "new_code", 60, SLACK)]]),
    ("503, and the wait of Retry-After", 0, [[Payment([unavailable(1), unavailable(1, "overloaded"), Reply()])],
                                             [Payment([unavailable("soon"), Reply()])]]),
    ("408 and a closed connection", 0, [[Payment([Reply("request_timeout", 408, closes=True), Reply()])]]),
    ("a defect once, and each time", 0, [[Payment([Reply("internal_error", 500), Reply()])],
                                         [Payment([Reply("internal_error", 500)] * 5, "retry", "internal_error")]]),
    ("a late answer", 1, [[Payment([Reply(delay=2)])]]),
    ("no answer by the deadline", 0, [
        [Payment([reply] * 20, "retry", deadline=1)] for reply in (Reply(delay=20), Reply(drips=True))]),
    ("no answer at all, without haste", 0, [[Payment([LOST] * 40, "retry", deadline=2)]]),
    ("200 without a payment", 0, [[Payment([Reply(body=body)] * 20, "retry", deadline=1) for body in (
        b"=4111111111111111",
        b'{"paymentData": {"applicationPrimaryAccountNumber": "4111111111111111"}}', b'{"repeated": false}', b"[]", b"")]]),
    ("a refusal that is not JSON", 0, [[Payment([Reply(status=400, body=b"4111111111111111", closes=True)], "do_not_charge")]]),
    ("the same payment in a later call", 0, [
        [Payment([unavailable(2)], "retry", "hsm_unavailable", deadline=1, order="A")], lambda _: time.sleep(2),
        [Payment([Reply(repeated=True)], "check_store", order="A")]]),
    ("many payments at once", 0, [[Payment([LOST] * (n % 2) + [Reply(delay=(7 * n % 5) / 10)]) for n in range(16)]]),
    ("attempts", 0, [[Payment([LOST, unavailable(1), Reply(repeated=True)], after=[])],
                     [Payment(after=["00000000000000aa", "00000000000000ab"])],
                     [Payment([LOST, Reply("transaction_replayed", 409)], "do_not_charge", "transaction_replayed", after=[])]]),
]


def pay(process, payments, said):
    """Sends payments to the command. Yields a fault for each outcome that is not as it must be."""
    began, outcomes = time.monotonic(), {}
    for payment in payments:
        line = {"id": payment.order, "token": payment.token(), "reference": payment.order, "expected": EXPECTED,
                "deadline": payment.deadline} | ({} if payment.after is None else {"after": payment.after})
        process.stdin.write(json.dumps(line) + "\n")
    process.stdin.flush()
    for payment in payments:
        while payment.order not in outcomes:
            try:
                outcome = said.get(timeout=max(began + (payment.within or payment.deadline + SLACK) - time.monotonic(), 0))
            except queue.Empty:
                yield f"no outcome after {time.monotonic() - began:.0f} s"
                return
            outcomes[outcome["id"]] = outcome
        got = tuple(outcomes[payment.order].get(member) for member in ("verdict", "code", "transactionId"))
        released = payment.verdict in ("charge", "check_store")
        if got != (wanted := (payment.verdict, payment.code, payment.order.encode().hex() if released else None)):
            yield f"the outcome is {got}, not {wanted}"


def run(command, connections, steps):
    """Runs one scenario, and returns the client's faults."""
    said, printed = queue.Queue(), []

    def read():
        for line in process.stdout:
            printed.append(line)
            if "attempt" in (members := json.loads(line)):
                daemon.saved.setdefault(members["attempt"], threading.Event()).set()
            else:
                said.put(members)

    with tempfile.TemporaryDirectory(prefix="conformance.") as place, open(f"{place}/log", "w+", errors="replace") as log:
        daemon = Daemon(f"{place}/socket", [payment for step in steps if isinstance(step, list) for payment in step])
        process = subprocess.Popen([*command, daemon.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        threading.Thread(target=read, daemon=True).start()
        faults = []
        try:
            for step in steps:
                faults += pay(process, step, said) if isinstance(step, list) else step(daemon) or []
            process.stdin.close()
            if process.wait(SLACK):
                faults.append(f"the command ended with {process.returncode}")
        except (OSError, subprocess.TimeoutExpired) as error:
            faults.append(f"the command: {type(error).__name__}")
        finally:
            process.kill()
            process.wait()
            daemon.stop()
        log.seek(0)
        printed.append(log.read())
    if connections and daemon.accepted > connections:
        faults.append(f"{daemon.accepted} connections instead of {connections}")
    if any(len(requests) > 20 for requests in daemon.requests.values()):
        faults.append("more than 20 requests for one payment")
    if any(secret in text for secret in SECRETS for text in printed):
        return [*faults, "card data or a payment token was printed"]
    return [*faults, *sorted(daemon.faults), *([printed[-1][-2000:]] if faults else [])]


def table(command):
    """Returns the differences between the client's table of verdicts, openapi.json and Codes.md."""
    wanted = documented()
    yield from (f"{code} is not in both openapi.json and Codes.md" for code in statuses().keys() ^ wanted.keys())
    printed = subprocess.run([*command, "verdicts"], stdout=subprocess.PIPE, check=False).stdout
    said = json.loads(printed or "{}")
    yield from (f"{code}: the client's table has {said.get(code)}, Codes.md {wanted.get(code)}"
                for code in said.keys() | wanted.keys() if said.get(code) != wanted.get(code))


def main(arguments):
    only = arguments[1] if arguments[:1] == ["--only"] else ""
    command = arguments[2:] if only else arguments
    if not command:
        sys.exit(__doc__)
    began, failed = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        runs = [("the table of verdicts", pool.submit(table, command))]
        runs += [(name, pool.submit(run, command, *scenario)) for name, *scenario in SCENARIOS if only in name]
        for name, result in runs:
            faults = list(result.result())
            failed += bool(faults)
            print("\n    ".join([f"{'FAIL' if faults else 'ok':4} {name}", *faults]), flush=True)
    print(f"conformance: {' '.join(command)}: {failed} failed, {time.monotonic() - began:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
