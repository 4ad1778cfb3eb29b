"""Payment tokens with known content, and the outcomes of the requests with them."""
import collections
import contextlib
import dataclasses
import json
import pathlib
import time

import load
import service

# Codes of clean refusals: nothing was decrypted, and the caller may try again.
CLEAN = {"hsm_unavailable", "ledger_unavailable", "overloaded", "deadline_exceeded"}
# A request that takes longer, in seconds, was delayed by the fault.
HELD_UP = 0.5


@dataclasses.dataclass
class Known:
    """A payment token whose content is known, and a request with it."""
    number: int
    reference: str
    plaintext: bytes
    request: bytes
    is_released: bool = False


def lines(plaintexts, kind):
    """Returns the payment tokens with these contents, as token-forge prints them."""
    pathlib.Path("payloads").write_bytes(b"\n".join(plaintexts) + b"\n")
    return service.run("token-forge", "mint", "authority", "--certificate", f"authority/{kind}.pem", "--payloads",
                       "payloads").splitlines()


class Pool(contextlib.AbstractContextManager):
    """Payment tokens with their contents, each with a request and its own reference. Some of each kind are used in turn, and a
    payment token that was used often is replaced by a fresh one. So each is released and then repeated, never more often than a
    claim permits, and the pool never runs out. uses: how often each is used. A context manager."""

    # The number of uses is far below the limit of repeats for a claim, because answers with 503 may count as repeats too.
    USES = 50

    def __init__(self, uses=USES, **counts):
        self.uses = uses
        self.minters = {kind: service.Minter(certificate=f"authority/{kind}.pem", with_payloads=True) for kind in counts}
        self.minted = self.taken = 0
        # Mixes the kinds in proportion. The first uses differ, so that the payment tokens are not all replaced at once.
        places = sorted((place / count, kind) for kind, count in counts.items() for place in range(count))
        self.slots = [[self._fresh(kind), uses * number // len(places)] for number, (_, kind) in enumerate(places)]

    def _fresh(self, kind):
        (plaintext, token), = self.minters[kind].take(1)
        number = self.minted
        self.minted += 1
        return Known(number, f"{kind}-{number}", plaintext, load.decrypt(token, b"%s-%d" % (kind.encode(), number)))

    def cpu(self):
        """Returns the processor time in seconds that minting took."""
        return sum(service.processor_time(minter.forge.pid) for minter in self.minters.values())

    def take(self):
        slot = self.slots[self.taken % len(self.slots)]
        self.taken += 1
        if slot[1] == self.uses:
            slot[:] = self._fresh(slot[0].reference.partition("-")[0]), 0
        slot[1] += 1
        return slot[0]

    def __exit__(self, *error):
        for minter in self.minters.values():
            minter.__exit__(*error)


def opened(body):
    """Returns the bytes of paymentData in an answer, unchanged."""
    start = body.index(b'"paymentData":') + len(b'"paymentData":')
    # The text begins with the JSON value of paymentData. The rest belongs to the answer.
    _, count = json.JSONDecoder().raw_decode(body[start:].decode())
    return body[start:].decode()[:count].encode()


class Outcome:
    """Counts answers, and compares decrypted content with minted content."""

    def __init__(self, keeps_history=True):
        self.keeps_history = keeps_history
        self.sent = self.right = self.hung = self.released = 0
        self.refused, self.wrong = collections.Counter(), []
        # For each request: when it was sent, when it was answered, and True if the answer was right.
        self.history = []

    def answered(self, known, status, body, began, ended):
        self.sent += 1
        right = False
        if status == 200:
            right = opened(body) == known.plaintext
            if not right:
                self.wrong.append(f"{known.reference}: what was decrypted is not what was minted")
            elif b'"repeated":false' in body:
                if known.is_released:
                    self.wrong.append(f"{known.reference} was released twice")
                known.is_released = True
                self.released += 1
        elif status == 0:
            self.hung += 1
        elif status is None:
            self.wrong.append(f"{known.reference}: the connection was closed without an answer")
        else:
            code = json.loads(body).get("code")
            if status == 503 and code in CLEAN:
                self.refused[code] += 1
            else:
                self.wrong.append(f"{known.reference} was answered {status} {code}")
        self.right += right
        if self.keeps_history:
            self.history.append((began, ended, right))

    def recovered(self, event, until, held_up=HELD_UP):
        """Returns the seconds from the event until every answer is right and fast again, or None if that did not happen."""
        troubled = [ended for began, ended, right in self.history
                    if event <= ended <= until and (not right or ended - began > held_up)]
        last = max(troubled, default=event)
        after = [ended for began, ended, right in self.history if right and event <= began < until and ended >= last]
        return min(after) - event if after else None

    @property
    def longest(self):
        return max((ended - began for began, ended, _ in self.history), default=0.0)


def paced(pool, rate=None, count=None):
    """Yields `count` requests from the pool, at most `rate` a second, or as fast as they are answered."""
    following, index = time.monotonic(), 0
    while count is None or index < count:
        now = time.monotonic()
        if rate is not None and now < following:
            yield None
            continue
        if rate is not None:
            # A late request must not cause a burst of later ones.
            following = max(following + 1 / rate, now - 0.05)
        known = pool.take()
        index += 1
        yield known, known.request
