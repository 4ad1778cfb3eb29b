"""Client of paytokend: decrypts payment tokens over its Unix socket, retries, and says whether to charge the shopper.

See scripts/clients/README.md, and "Calling paytokend" in the documentation. Only the standard library is used.
"""
import http.client
import json
import os
import random
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Any, Final, TypedDict

__version__ = "0.1.0"
__all__ = ["VERDICTS", "Client", "Expected", "Outcome", "Verdict", "verdict_of"]

IDLE: Final = 50.0           # seconds; the daemon closes a connection that was idle for 60
TRY: Final = 35.0            # seconds; the daemon's own limits for one request end sooner
DEFECTS: Final = 3           # tries that may end with 500
MOST_ATTEMPTS: Final = 100   # in `after`


class Verdict(StrEnum):
    CHARGE = "charge"
    # The payment was released before with this reference: charge only if your own store shows that no submission was begun.
    CHECK_STORE = "check_store"
    DO_NOT_CHARGE = "do_not_charge"
    # The payment must not be charged yet. The same call later shows whether it was released.
    RETRY = "retry"


VERDICTS: Final[Mapping[str, Verdict]] = {
    **dict.fromkeys((
        "malformed_request", "malformed_token", "unsupported_version", "forbidden", "not_found", "method_not_allowed",
        "request_too_large", "unsupported_media_type", "signature_invalid", "certificate_untrusted", "marker_oid_missing",
        "signing_time_outside_window", "unknown_public_key_hash", "key_not_active", "decryption_failed", "merchant_mismatch",
        "currency_mismatch", "amount_mismatch", "application_data_mismatch", "message_expired", "auth_method_not_allowed",
        "transaction_replayed", "invalid_state",
        "certificate_unsuitable", "key_not_found", "approval_invalid"), Verdict.DO_NOT_CHARGE),
    **dict.fromkeys((
        "request_timeout", "internal_error", "hsm_unavailable", "ledger_unavailable", "overloaded", "deadline_exceeded"),
        Verdict.RETRY)}


def verdict_of(status: int, code: str | None) -> Verdict:
    """Returns the verdict on a refusal by its code, or by its status if the code is unknown because the daemon is newer."""
    known = VERDICTS.get(code) if code else None
    return known or (Verdict.DO_NOT_CHARGE if 400 <= status < 500 and status != 408 else Verdict.RETRY)


class Expected(TypedDict, total=False):
    """Values that the order states. A payment token that differs in one is refused."""
    currencyCode: str
    transactionAmount: float
    merchantIdentifier: str
    applicationData: str | None
    applicationDataHash: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of one call. `answer` contains the card data, so the text of this object omits it."""
    verdict: Verdict
    status: int | None = None          # of the last answer; None if the last try got none
    code: str | None = None
    message: str | None = None
    details: str | None = None
    retry_after: float = 0             # seconds that the daemon asked for
    problem: str | None = None         # the reason why the last try got no answer
    repeated: bool = False
    attempt: str | None = None         # the one that the answer belongs to
    tries: int = 1
    answer: dict[str, Any] = field(default_factory=dict, repr=False)       # empty unless the payment was released


class _Socket(socket.socket):
    """A socket with one time limit for all reads of an answer together. A socket's own timeout limits each read separately."""
    end = 0.0

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        if (left := self.end - time.monotonic()) <= 0:
            raise TimeoutError
        self.settimeout(left)
        return super().recv_into(buffer, nbytes, flags)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path, self.idle_since = path, 0.0

    def connect(self) -> None:
        self.sock: _Socket = _Socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def post(self, body: bytes, seconds: float) -> tuple[int, str, bytes]:
        self.timeout = seconds
        if self.sock is None:
            self.connect()
        self.sock.end = time.monotonic() + seconds
        self.sock.settimeout(seconds)
        self.request("POST", "/v1/decrypt", body, {"Content-Type": "application/json"})
        response = self.getresponse()
        return response.status, response.getheader("Retry-After", ""), response.read()


class Client:
    """A client that keeps connections open and repeats requests. Threads can share a client, but a forked process needs a
    separate one."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path or os.environ.get("PAYTOKEND_SOCKET") or "/run/paytokend/paytokend.sock"
        self._idle: deque[_Connection] = deque()

    def close(self) -> None:
        """Closes the idle connections. The client can still be used."""
        for connection in iter(self._take, None):
            connection.close()

    def decrypt(self, token: Mapping[str, Any], reference: str, expected: Expected | None = None, *, deadline: float = 60,
                merchants: Sequence[str] | None = None, after: Sequence[str] = (),
                save_attempt: Callable[[str], None] | None = None) -> Outcome:
        """Decrypts a payment token, and retries until there is a final answer or `deadline` seconds have passed.

        With `save_attempt` each try is an attempt: the function stores it durably before the try, and `after` has the earlier
        attempts for this payment token that certainly led to no payment. PermissionError: the account is not in the socket's
        group. ValueError: an argument that the daemon would refuse.
        """
        if not (0 < len(reference) <= 128 and reference.isascii() and reference.isprintable()):
            raise ValueError("reference must have 1 to 128 printable ASCII characters")
        if len(after) > MOST_ATTEMPTS or after and not save_attempt:
            raise ValueError("after takes at most 100 attempts, and needs save_attempt")
        request: dict[str, Any] = {"token": token, "reference": reference}
        request |= {name: value for name, value in (("expected", expected), ("merchants", merchants)) if value is not None}
        end, pause, defects = time.monotonic() + deadline, 0.1, 0
        earlier = list(after)
        for tries in count(1):
            attempt = None
            if save_attempt:
                attempt = secrets.token_hex(8)
                save_attempt(attempt)
                request |= {"attempt": attempt, "after": earlier}
            outcome, stale = self._try(json.dumps(request).encode(), end, attempt, tries)
            defects += outcome.status == 500
            if attempt:
                earlier.append(attempt)
            if outcome.verdict is not Verdict.RETRY or defects == DEFECTS or len(earlier) > MOST_ATTEMPTS:
                return outcome
            wait = 0.0 if stale else max(pause, outcome.retry_after) * random.uniform(1, 1.2)
            if time.monotonic() + wait >= end:
                return outcome
            time.sleep(wait)
            pause = pause if stale else min(2 * pause, 5)
        raise AssertionError

    def _try(self, body: bytes, end: float, attempt: str | None, tries: int) -> tuple[Outcome, bool]:
        """Makes one try. Returns the outcome, and True if it failed on a persistent connection, which the daemon may just have
        closed."""
        connection = self._connection()
        kept = connection.idle_since > 0
        try:
            status, retry_after, content = connection.post(body, min(TRY, max(end - time.monotonic(), 0.001)))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self.close()       # after a restart of the daemon the others are closed too
            if isinstance(error, PermissionError):
                raise
            # The error's text may quote what was read.
            return Outcome(Verdict.RETRY, problem=type(error).__name__, attempt=attempt, tries=tries), kept
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        return _outcome(status, retry_after, content, attempt, tries), False

    def _take(self) -> _Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connection(self) -> _Connection:
        while connection := self._take():
            if time.monotonic() - connection.idle_since < IDLE:
                return connection
            connection.close()
        return _Connection(self.path)


def _outcome(status: int, retry_after: str, content: bytes, attempt: str | None, tries: int) -> Outcome:
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        parsed = None
    answer = parsed if isinstance(parsed, dict) else {}
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0
    if status != 200:
        code, message, details = (value if isinstance(value := answer.get(name), str) else None
                                  for name in ("code", "message", "details"))
        return Outcome(verdict_of(status, code), status, code, message, details, seconds, attempt=attempt, tries=tries)
    repeated = answer.get("repeated")
    if not isinstance(repeated, bool) or not isinstance(answer.get("paymentData"), dict):
        return Outcome(Verdict.RETRY, status, problem="unreadable answer", attempt=attempt, tries=tries)
    # `after` has shown that no earlier attempt led to a payment.
    verdict = Verdict.CHECK_STORE if repeated and not attempt else Verdict.CHARGE
    return Outcome(verdict, status, repeated=repeated, attempt=attempt, tries=tries, answer=answer)
