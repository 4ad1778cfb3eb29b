"""Compares a ledger after a soak with the callers' answers, while the daemon still uses it, and runs the verifiers on its
record."""
import collections
import contextlib
import json
import pathlib
import sqlite3
import subprocess

import load
import service

VERIFIER = pathlib.Path(__file__).parent.parent / "verify-audit"


class Answers:
    """The answers that callers got, for comparison with the record."""

    def __init__(self):
        # Reference, node and sequence of each release, by transactionId.
        self.released = {}
        self.repeated = []
        self.wrong = []

    def take(self, reference, body):
        """Adds the body of a 200. Returns the transactionId."""
        answer = json.loads(body)
        transaction, where = answer["transactionId"], answer.get("audit")
        if where is None:
            self.wrong.append(f"{transaction} was released without naming a record")
            where = {"node": "", "sequence": 0}
        if answer["repeated"]:
            self.repeated.append((transaction, where["node"], where["sequence"]))
        elif transaction in self.released:
            self.wrong.append(f"{transaction} was released twice, to {self.released[transaction]} and to {reference}")
        else:
            self.released[transaction] = (reference, where["node"], where["sequence"])
        return transaction


class LedgerFile:
    """A ledger's file, read while its daemon uses it."""

    def __init__(self, path="ledger.sqlite"):
        self.path = path

    def _select(self, statement):
        with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as database:
            for (value,) in database.execute(statement):
                yield value

    def lines(self):
        """Returns the record's stored lines, in order."""
        return self._select("SELECT line FROM audit_record ORDER BY node, sequence")

    def transaction_amid(self):
        """Returns the transactionId of a record in the middle."""
        return next(self._select("SELECT lower(hex(transaction_id)) FROM audit_record WHERE transaction_id IS NOT NULL "
                                 "AND sequence >= (SELECT max(sequence) / 2 FROM audit_record) ORDER BY sequence LIMIT 1"))

    def first_record(self):
        """Returns the sequence of the oldest record in the ledger."""
        return self.number("SELECT min(sequence) FROM audit_record")

    def number(self, statement):
        """Returns the only value of a query."""
        return next(self._select(statement))

    def size(self):
        """Returns the size in bytes."""
        return pathlib.Path(self.path).stat().st_size

    def used(self):
        """Returns the size in bytes that the file has once the write-ahead log is copied, free pages included."""
        return self.number("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")

    def log_size(self):
        """Returns the size in bytes of the write-ahead log."""
        with contextlib.suppress(FileNotFoundError):
            return pathlib.Path(f"{self.path}-wal").stat().st_size
        return 0

    def parts(self):
        """Returns the size in bytes of each table and index, by name."""
        return parts(self._select("SELECT name || ' ' || pgsize FROM dbstat WHERE aggregate = TRUE"))

    def claims(self):
        """Returns each claim's node and second name, which Google Pay's alone have, by its name (load.claim)."""
        return claims(self._select("SELECT lower(hex(transaction_id)) || ' ' || node || ' ' || "
                                   "coalesce(lower(hex(message_claim)), '') FROM claim"))


def parts(rows):
    """Returns the sizes in rows of names and sizes, by name."""
    return {name: int(size) for name, size in (row.split(" ") for row in rows)}


def claims(rows):
    """Returns the claims in rows of their names and nodes, by name."""
    return {name: (node, second) for name, node, second in (row.split(" ") for row in rows)}


def recorded(ledger):
    """Compares claims and record. Returns what is wrong, the numbers of claims and of the record's lines by kind, the place of each
    release in the record by transactionId, and the recorded repeats. The releases of Google Pay are also counted as `google`.
    Summaries of refusals are complete only once the daemon has stopped.

    ledger: a LedgerFile, or one of database.py.
    """
    wrong, found, repeats, counts, expected = [], {}, set(), collections.Counter(), {}
    for line in map(json.loads, ledger.lines()):
        where = (line["node"], line["sequence"])
        if line["event"] == "records_dropped":
            counts["dropped"] += line["count"]
        elif line["event"] == "refusals":
            counts["refused"] += line["count"]
        elif line["event"] in ("decrypt", "request") and line["outcome"] not in ("ok", "repeat"):
            counts["refused"] += 1
        elif line["event"] == "decrypt":
            transaction = line["transactionId"]
            if line["outcome"] == "repeat":
                repeats.add((transaction, *where))
            elif transaction in found:
                counts["twice"] += 1
                wrong.append(f"{transaction} was released twice by the record: {found[transaction]} and {where}")
            else:
                found[transaction] = where
                google = line.get("wallet") == "google-pay"
                counts["google"] += google
                expected[load.claim(transaction, google)] = (line["node"], google)
    claimed = {name: (node, second != "") for name, (node, second) in ledger.claims().items()}
    if different := {name for name, _ in claimed.items() ^ expected.items()}:
        wrong.append(f"{len(different)} transactions are claimed and not recorded as released, or not both, or not as those of the "
                     "same node and wallet")
    counts.update({"claims": len(claimed), "released": len(found), "repeats": len(repeats)})
    return wrong, counts, found, repeats


def compare(ledger, answers):
    """Compares claims and record with the answers, in both directions. Returns what is wrong and the numbers of `recorded`, with
    those of answers without a record (`unrecorded`) and of transactions without one (`lost`)."""
    wrong, counts, found, repeats = recorded(ledger)
    for transaction, (_, node, sequence) in answers.released.items():
        counts["lost"] += transaction not in found
        if found.get(transaction) != (node, sequence):
            counts["unrecorded"] += 1
            wrong.append(f"{transaction} was answered as record {(node, sequence)}, recorded {found.get(transaction)}")
    for repeat in answers.repeated:
        counts["lost"] += repeat[0] not in found
        if repeat not in repeats:
            counts["unrecorded"] += 1
            wrong.append(f"the repeat {repeat} was answered and is not recorded")
    return wrong, counts


def commands(daemon, export="record.jsonl", archives=()):
    """Returns, by name, the commands that export the daemon's record and that verify it, live and from the export. The export must
    reach the head that the daemon has before it. The records may name other nodes, so the daemon's own is named. archives: the
    files of old records."""
    pathlib.Path("audit-key.pem").write_bytes(daemon.ctl("audit", "public-key"))
    pathlib.Path("head.json").write_bytes(head := daemon.ctl("audit", "head"))
    pathlib.Path(export).unlink(missing_ok=True)
    old = [word for file in archives for word in ("--archive", file)]
    options = ["--node", json.loads(head)["checkpoint"]["node"], "--head", "head.json", *old]
    return {"audit export": ["paytokenctl", "audit", "export", "--out", export],
            "audit verify, live": ["paytokenctl", "audit", "verify", *old],
            "audit verify, export": ["paytokenctl", "audit", "verify", "--export", export, "--public-key", "audit-key.pem",
                                     *options],
            "scripts/verify-audit": [VERIFIER, export, "audit-key.pem", *options]}


def measured(daemon, named, wrong):
    """Runs commands by name, each of which must succeed. Yields name, seconds, largest memory in MiB, and output."""
    for name, command in named.items():
        status, seconds, memory, output = service.child_memory(command, env=daemon.environment, stderr=subprocess.STDOUT)
        said = output.decode(errors="replace").strip()
        if status != 0:
            wrong.append(f"{name}: exit {status}: {said[-300:]}")
        yield name, seconds, memory, said


def verify(daemon, only_live=False):
    """Verifies the record live, and, unless `only_live` is true, an export of it with both verifiers. Returns what is wrong."""
    wrong = []
    live = {"audit verify, live": ["paytokenctl", "audit", "verify"]}
    for name, seconds, memory, said in measured(daemon, live if only_live else commands(daemon), wrong):
        lines = said.splitlines()
        print(f"  {name:22}{next((line for line in lines if line.startswith('intact')), lines[-1] if lines else '')}"
              f"   {seconds:.1f} s, {memory:.0f} MiB")
    return wrong
