"""Histories of a soak's operations, and the rules that they must keep.

A history is a file with a line of JSON for each invocation and a line for its answer, or for the end of waiting with the result
`unknown`. All times are of one monotonic clock, in seconds. A line of an answer has the number of its invocation. Other lines are notes.

  invocation  id, time, process, operation, and the operation's facts
  answer      answers (an id), time, result, and the answer's facts

operation     facts                                             results
  release     transaction, reference (of one caller), key;      released, repeated (with node and sequence of the record);
              attempt, after; era; message                      refused (with code); unknown
  suspend     key                                               done, refused, unknown
  resume      key                                               done, refused, unknown
  restore     era, kept (transactions), heads (by node)         done: accepted
  pay         payment                                           authorized, captured, declined, error, pending; refused (with
                                                                code); unknown
  submit      payment                                           done
  restore-store                                                 done
  renewal     key, previous (keys), nodes (that must prove)     done
  certificate key; change (created, activated, revoked);        done
              at (seconds since 1970); itself
  write       request (to Apple's API), at                      done (the answer arrived), unknown
  decision    at                                                done

A restore is invoked when the old database has ended, and answered when the older one is accepted. `era` is counted up by each
restore; a payment token of an earlier era was signed before the fence. Transactions of Google Pay with the same `message` have the
same messageId: at most one of them is released, and the others are refused like requests with another reference. An `unknown`
operation may have taken effect at any time after its invocation, or not at all. A certificate that activates itself, because wallets
use none when it is created, has `itself`. A decision is a person's, to repeat a write.
"""
import collections
import datetime
import json
import math
import pathlib
import shutil
import subprocess
import threading
import time

KEPT = pathlib.Path(__file__).resolve().parent.parent.parent / ".build/histories"
RELEASED = ("released", "repeated")
PAID = ("authorized", "captured", "declined", "error")
# So many answers to attempts for one transaction can be ordered in a reasonable time.
MOST_ORDERED = 20


class Operation:
    """An invocation and its answer. `ended` is infinite, and `result` is unknown, without an answer."""

    def __init__(self, line):
        self.id, self.began, self.process, self.name = line["id"], line["time"], line["process"], line["operation"]
        self.facts, self.ended, self.result = line, math.inf, "unknown"

    def take(self, line):
        self.facts = {**self.facts, **{name: value for name, value in line.items() if name not in ("answers", "time")}}
        self.result = line["result"]
        if self.result != "unknown":
            self.ended = line["time"]

    @property
    def claim(self):
        """What at most one caller has: the transaction, or a message of which there are several transactions."""
        return self.facts.get("message") or self.facts["transaction"]

    @property
    def holder(self):
        """What has the claim: a payment token under a reference."""
        return self.facts["transaction"], self.facts["reference"]

    def __getattr__(self, name):
        return self.facts.get(name)

    def __str__(self):
        which = self.facts.get("reference") or self.facts.get("key") or ""
        attempt = f", attempt {self.attempt}" if self.attempt else ""
        code = f" {self.code}" if self.code else ""
        return f"{self.process}'s {self.name} {which}{attempt} (operation {self.id}, {self.result}{code})"


class History:
    """A history that is written while a soak runs, by any of its threads."""

    def __init__(self, path="history.jsonl"):
        self.path, self.lock, self.last = pathlib.Path(path), threading.Lock(), 0
        self.file = open(path, "w", encoding="utf-8")

    def _write(self, line):
        self.file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def invoked(self, moment, process, operation, **facts):
        """Returns the number of the invocation."""
        with self.lock:
            self.last += 1
            given = {name: value for name, value in facts.items() if value is not None}
            self._write({"id": self.last, "time": moment, "process": process, "operation": operation, **given})
            return self.last

    def answered(self, number, moment, result, **facts):
        with self.lock:
            self._write({"answers": number, "time": moment, "result": result, **facts})

    def note(self, moment, **facts):
        """Writes a line that no rule reads, for example a fault that comes."""
        with self.lock:
            self._write({"time": moment, **facts})

    def operation(self, began, ended, process, operation, result, answer=None, **facts):
        """Writes an operation whose answer is already known. answer: the answer's facts."""
        self.answered(self.invoked(began, process, operation, **facts), ended, result, **(answer or {}))

    def released(self, began, ended, process, status, body, **facts):
        """Writes a request to release, with the answer that its caller got. status: None or 0 if it got none."""
        self.operation(began, ended, process, "release", *release_answer(status, body), **facts)

    def change(self, daemon, process, operation, key, words=()):
        """Suspends or resumes a key with paytokenctl, with these words before the command. Returns the result."""
        number = self.invoked(time.monotonic(), process, operation, key=key)
        status = subprocess.run([*words, "paytokenctl", "key", operation, key, "--reason", "soak"], env=daemon.environment,
                                capture_output=True, check=False).returncode
        # The command may have reached the daemon in spite of another status than refused.
        result = {0: "done", 1: "refused"}.get(status, "unknown")
        self.answered(number, time.monotonic(), result)
        return result

    def judge(self, name, record=(), kept=True):
        """Returns what is wrong with the history. A history with a fault is kept, under this name.

        record: the stored lines of all nodes' records.
        """
        with self.lock:
            self.file.flush()
        lines = list(record)
        wrong = check(read(self.path), map(json.loads, lines))
        if wrong and kept:
            wrong.append(f"the history is kept: scripts/check-history {self.keep(name, lines)}")
        return wrong

    def keep(self, name, record=()):
        """Keeps the history, and a record if there is one, under this name. Returns its path."""
        with self.lock:
            self.file.flush()
        KEPT.mkdir(parents=True, exist_ok=True)
        place = KEPT / f"{name}.jsonl"
        shutil.copyfile(self.path, place)
        if record:
            (KEPT / f"{name}.record.jsonl").write_text("".join(
                (line if isinstance(line, str) else line.decode()) + "\n" for line in record), encoding="utf-8")
        return place


def release_answer(status, body):
    """Returns the result of a request to release, and its facts."""
    if status in (None, 0):
        return "unknown", {}
    answer = json.loads(body)
    if status == 200:
        where = answer.get("audit") or {}
        return ("repeated" if answer["repeated"] else "released"), {
            "node": where.get("node"), "sequence": where.get("sequence")}
    # A 503 may follow a commit whose acknowledgement was lost.
    return ("unknown" if status >= 500 else "refused"), {"code": answer.get("code", str(status))}


def read(path):
    """Returns the operations of a history, in the order of their invocation."""
    operations = {}
    with open(path, encoding="utf-8") as file:
        for line in map(json.loads, file):
            if "answers" in line:
                operations[line["answers"]].take(line)
            elif "id" in line:
                operations[line["id"]] = Operation(line)
    return sorted(operations.values(), key=lambda operation: operation.began)


def check(operations, record=None):
    """Returns what is wrong with a history.

    record: the lines of the record's export as dictionaries; None if there is none to compare with.
    """
    by_name = collections.defaultdict(list)
    for operation in operations:
        by_name[operation.name].append(operation)
    restores = by_name["restore"]
    for restore in restores:
        restore.facts["kept"] = frozenset(restore.kept)
    wrong = []
    claims = collections.defaultdict(list)
    for operation in by_name["release"]:
        claims[operation.claim].append(operation)
    for claim, requests in claims.items():
        wrong += check_claim(claim, requests, restores)
    wrong += check_keys(by_name["release"], by_name["suspend"], by_name["resume"])
    wrong += check_payments(by_name["pay"], by_name["submit"], by_name["restore-store"])
    wrong += check_writes(by_name["write"], by_name["decision"])
    if record is not None:
        record = list(record)
        wrong += check_record(by_name["release"], restores, record)
        wrong += check_renewals(by_name["renewal"], by_name["certificate"], record)
    return wrong


def is_forgotten(request, restores):
    """Returns True if the request was released by a database whose older copy, without that claim, took its place."""
    return any(request.began < restore.began and request.transaction not in restore.kept for restore in restores)


def check_claim(transaction, requests, restores):
    """At most one caller and reference has a transaction, once, and then repeats, as their attempts permit. Of several transactions
    with the same messageId, at most one is had."""
    wrong = []
    given = [request for request in requests if request.result in RELEASED]
    refused = [request for request in requests if (request.result, request.code) == ("refused", "transaction_replayed")]
    if len({request.holder for request in given}) > 1:
        wrong.append(f"{transaction} was released under several references, or as several messages: {'; '.join(map(str, given))}")
    first = [request for request in given if request.result == "released"]
    if len(first) > 1:
        wrong.append(f"{transaction} was released {len(first)} times: {'; '.join(map(str, first))}")
    for request in given:
        for restore in restores:
            if restore.began <= request.began < restore.ended:
                wrong.append(f"{transaction} was released before the restored ledger was accepted: {request}")
            if request.result == "released" and request.began >= restore.ended and (request.era or 0) < restore.era:
                wrong.append(f"{transaction} was signed before the fence, and was released after it: {request}")
        earlier = [other for other in given if is_forgotten(other, [each for each in restores if each.began <= request.began])]
        if earlier and request not in earlier:
            wrong.append(f"{transaction} was released again after the restore: {earlier[0]}, and {request}")
    # A repeat needs an earlier request with its reference, or one at the same time.
    for request in given:
        if request.result == "repeated" and not any(
                other is not request and other.holder == request.holder and other.began < request.ended for other in requests):
            wrong.append(f"{transaction} was repeated to a caller that had not asked before: {request}")
    latest = max((restore.era for restore in restores), default=0)
    for request in refused:
        has = [other for other in given if other.holder == request.holder and other.ended < request.began
               and not is_forgotten(other, restores)]
        if has and not request.attempt:
            wrong.append(f"{transaction} was answered, and then refused to the same caller: {has[0]}, then {request}")
        rivals = [other for other in requests if other is not request and other.began < request.ended
                  and (other.holder != request.holder or request.attempt)]
        if not rivals and (request.era or 0) == latest:
            wrong.append(f"{transaction} was refused, and no other caller had asked for it: {request}")
    # A claim whose answers were all lost is had by its caller's next request, unless that does not name the attempt.
    last = {}
    for request in requests:
        last[request.holder] = request
    is_named = any(request.attempt for request in requests)
    if (refused and not given and not is_named and (requests[0].era or 0) == latest
            and all(request in refused for request in last.values())):
        wrong.append(f"{transaction} was refused to all callers that asked for it")
    if is_named:
        # The rule of attempts is checked until a restore, which refuses what it may have forgotten.
        end = min((restore.began for restore in restores if restore.era > (requests[0].era or 0)), default=math.inf)
        wrong += check_attempts(transaction, [
            request for request in requests if request.began < end and (request in given or request.result == "unknown"
                                                                        or request in refused and request.ended < end)])
    return wrong


def follow(state, request):
    """Returns the state of a transaction after a request, and its result. A state is what has the transaction, and the attempt of its
    last release; None before the first one."""
    if state is None:
        return (request.holder, request.attempt), "released"
    holder, last = state
    if request.holder == holder and (not request.attempt or last in (request.after or ())):
        return (holder, request.attempt), "repeated"
    return state, "refused"


def check_attempts(transaction, requests):
    """An order of the requests must explain all their answers, and agree with their times. An unknown request may be anywhere in the
    order from its invocation on, or not at all."""
    answered = [request for request in requests if request.result != "unknown"]
    unknown = [request for request in requests if request.result == "unknown"]
    if len(answered) > MOST_ORDERED:
        return [f"{transaction} has {len(answered)} answers to attempts, more than the {MOST_ORDERED} that can be ordered"]
    # A node of the search has the answered requests that are not in the order yet, as bits, and the transaction's state.
    search = [((1 << len(answered)) - 1, None)]
    seen = set(search)
    while search:
        left, state = search.pop()
        remaining = [(number, request) for number, request in enumerate(answered) if left >> number & 1]
        if not remaining:
            return []
        bound = min(request.ended for _, request in remaining)
        found = [(left & ~(1 << number), following) for number, request in remaining if request.began <= bound
                 for following, result in [follow(state, request)] if result == request.result]
        found += [(left, follow(state, request)[0]) for request in unknown if request.began <= bound]
        search += [node for node in found if node not in seen]
        seen.update(found)
    shown = "; ".join(f"{request} after {len(request.after or ())} others" for request in answered[-4:])
    return [f"{transaction}: no order of its {len(requests)} requests explains the answers, of which the last are {shown}"]


# The seconds after which another daemon has learned of a key's resumption, also over a slow network. The server notifies the daemon,
# which refuses until then without a question to the server. A suspension is in force at once, since each commit sees it.
LEARNED = 10


def check_keys(releases, suspensions, resumptions):
    """No release was asked for after a suspension was answered, and answered before its end was asked for."""
    wrong = []
    for suspension in suspensions:
        if suspension.result != "done":
            continue
        ends = [other.began for other in resumptions if other.key == suspension.key and other.ended > suspension.ended]
        end = min(ends, default=math.inf)
        wrong += [f"{request} was released after {suspension}" for request in releases
                  if request.key == suspension.key and request.result in RELEASED
                  and request.began > suspension.ended and request.ended < end]
    for request in releases:
        if (request.result, request.code) != ("refused", "key_not_active"):
            continue
        may = [other for other in suspensions if other.key == request.key and other.began < request.ended
               and not any(end.result == "done" and end.key == request.key and other.ended < end.began
                           and end.ended + (0 if end.process == request.process else LEARNED) < request.began for end in resumptions)]
        if not may:
            wrong.append(f"{request} was refused, although its key was not suspended")
    return wrong


def check_payments(payments, submissions, restores):
    """At most one submission of a payment, and none of one that was refused; a result that stays."""
    wrong = []
    submitted, asked = collections.defaultdict(list), collections.defaultdict(list)
    for submission in submissions:
        submitted[submission.payment].append(submission)
    for payment in payments:
        asked[payment.payment].append(payment)
    for name, found in submitted.items():
        if len(found) > 1:
            wrong.append(f"{name} was submitted {len(found)} times")
        if name not in asked:
            wrong.append(f"{name} was submitted, and no client had paid with it")
    for name, requests in asked.items():
        results = [request for request in requests if request.result in PAID]
        if len({request.result for request in results}) > 1:
            wrong.append(f"{name} got several results: {'; '.join(map(str, results))}")
        # `error` is also the result of a payment that was resolved by hand because the processor does not know it.
        if any(request.result in PAID and request.result != "error" for request in results) and name not in submitted:
            wrong.append(f"{name} got {results[0].result}, and was never submitted")
        for request in requests:
            if request.result != "refused":
                continue
            if request.code != "transaction_replayed":
                wrong.append(f"{name} was refused with {request.code}")
            earlier = [other for other in requests if other.result in (*PAID, "pending") and other.ended < request.began]
            if earlier and not any(earlier[-1].began < restore.ended and restore.began < request.ended for restore in restores):
                wrong.append(f"{name} got {earlier[-1].result}, and was then refused")
            if not earlier and name in submitted and all(other.result in ("refused", "unknown") for other in requests):
                wrong.append(f"{name} was refused with {request.code}, and was submitted")
    return wrong


def check_record(releases, restores, record):
    """Every answered release has its record, on the node and with the sequence that the answer names. The record shows each
    transaction as released once, and of those with the same messageId only one."""
    recorded, released, wrong = {}, {}, []
    claims = {request.transaction: request.claim for request in releases}
    for line in record:
        if line.get("event") == "decrypt" and line["outcome"] in ("ok", "repeat"):
            recorded[line["node"], line["sequence"]] = (line["transactionId"], line["outcome"])
            if line["outcome"] == "ok":
                claim = claims.get(line["transactionId"], line["transactionId"])
                if claim in released:
                    wrong.append(f"{claim} is recorded as released twice: {released[claim]} and {line['node']} {line['sequence']}")
                released[claim] = f"{line['node']} {line['sequence']}"
    for request in releases:
        if request.result not in RELEASED:
            continue
        if request.sequence is None:
            wrong.append(f"{request.transaction} was released without naming a record: {request}")
            continue
        if any(request.began < restore.began and request.sequence > restore.heads.get(request.node, 0) for restore in restores):
            continue
        outcome = "ok" if request.result == "released" else "repeat"
        found = recorded.get((request.node, request.sequence))
        if found != (request.transaction, outcome):
            wrong.append(f"{request.transaction} was answered as record {request.node} {request.sequence}, which is {found}: {request}")
    return wrong


def moment(line):
    """Returns the time of a record in seconds since 1970."""
    return datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")).timestamp()


def check_writes(writes, decisions):
    """After a write to Apple whose answer is unknown, the same request follows only when a person has decided so."""
    wrong, unknown = [], {}
    for write in sorted(writes, key=lambda write: write.at):
        earlier = unknown.get(write.request)
        if earlier and not any(earlier.at < decision.at < write.at for decision in decisions):
            wrong.append(f"{write.request} was sent again after its answer was lost, and no person had decided so")
        if write.result == "unknown":
            unknown[write.request] = write
    return wrong


def check_renewals(renewals, changes, record):
    """A renewal has one certificate. Wallets use it only after each node has proved its key with it. The old key and its certificate
    stay until each node has opened a payment token with the new key."""
    first, wrong, retired = {}, [], collections.defaultdict(list)
    for line in record if renewals else ():
        what, key = line.get("event"), line.get("publicKeyHash")
        if what == "key_state_change" and line["outcome"] == "ok" and line.get("from") == "active":
            retired[key].append(moment(line))
        elif line.get("outcome") == "ok" and what in ("key_proof", "decrypt"):
            names = [what, "certified"] if line.get("certificateSha256") else [what]
            for name in names:
                place = (name, key, line["node"])
                first[place] = min(first.get(place, math.inf), moment(line))
    for renewal in renewals:
        count = sum(change.key == renewal.key and change.change == "created" for change in changes)
        if count != 1:
            wrong.append(f"the renewal with the key {renewal.key} has {count} certificates")
        for change in changes:
            if change.key == renewal.key and change.change == "activated":
                proof = "key_proof" if change.itself else "certified"
                late = [node for node in renewal.nodes if not first.get((proof, renewal.key, node), math.inf) < change.at]
                wrong += [f"the certificate of {renewal.key} was activated before it was proved on {node}" for node in late]
        opened = max(first.get(("decrypt", renewal.key, node), math.inf) for node in renewal.nodes)
        for key in renewal.previous:
            early = [at for at in retired[key] if at < opened]
            if early:
                wrong.append(f"the old key {key} was deactivated before {renewal.key} had opened payment tokens on every node")
            if any(change.at < opened for change in changes if change.key == key and change.change == "revoked"):
                wrong.append(f"the certificate of the old key {key} was revoked before {renewal.key} had opened payment tokens on "
                             "every node")
    return wrong
