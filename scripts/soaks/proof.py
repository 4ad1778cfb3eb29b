"""What the ledger's file must show after a soak, read beside the daemon, and what the verifiers must say of its record."""
import json
import pathlib
import sqlite3
import subprocess

VERIFIER = pathlib.Path(__file__).parent.parent / "verify-audit"


class Answers:
    """What callers were answered: the other side of what the record must say."""

    def __init__(self):
        # transactionId to (reference, node, sequence).
        self.released = {}
        self.repeated = []
        self.wrong = []

    def take(self, reference, body):
        """Of a 200. Returns the transactionId."""
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


def lines(path):
    """The record's lines as they are stored, parsed, in order."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        for (line,) in database.execute("SELECT line FROM audit_record ORDER BY node, sequence"):
            yield json.loads(line)
    finally:
        database.close()


def claims(path):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return [transaction.hex() for (transaction,) in database.execute("SELECT transaction_id FROM claim")]
    finally:
        database.close()


def compare(path, answers):
    """Compares claims and record with what was answered, both ways. Returns what is wrong, and some counts."""
    wrong, recorded, repeats, dropped, refused = [], {}, set(), 0, 0
    for line in lines(path):
        where = (line["node"], line["sequence"])
        if line["event"] == "records_dropped":
            dropped += line["count"]
        elif line["event"] in ("decrypt", "request") and line["outcome"] not in ("ok", "repeat"):
            refused += 1
        elif line["event"] == "decrypt":
            transaction = line["transactionId"]
            if line["outcome"] == "repeat":
                repeats.add((transaction, *where))
            elif transaction in recorded:
                wrong.append(f"{transaction} was released twice by the record: {recorded[transaction]} and {where}")
            else:
                recorded[transaction] = where
    claimed = claims(path)
    for transaction, (_, node, sequence) in answers.released.items():
        if recorded.get(transaction) != (node, sequence):
            wrong.append(f"{transaction} was answered as record {(node, sequence)}, recorded {recorded.get(transaction)}")
    for repeat in answers.repeated:
        if repeat not in repeats:
            wrong.append(f"the repeat {repeat} was answered and is not recorded")
    if set(claimed) != set(recorded):
        wrong.append(f"{len(set(claimed) ^ set(recorded))} transactions are claimed and not recorded as released, or not both")
    counts = {"claims": len(claimed), "released": len(recorded), "repeats": len(repeats), "refused": refused,
              "dropped": dropped}
    return wrong, counts


def verify(daemon, show=print):
    """Has the record verified live, and an export of it by both verifiers. Returns what is wrong."""
    wrong = []
    pathlib.Path("audit-key.pem").write_bytes(daemon.ctl("audit", "public-key"))
    pathlib.Path("record.jsonl").unlink(missing_ok=True)
    daemon.ctl("audit", "export", "--out", "record.jsonl")
    for name, command in (
        ("paytokenctl, live", ["paytokenctl", "audit", "verify"]),
        ("paytokenctl, export", ["paytokenctl", "audit", "verify", "--export", "record.jsonl", "--public-key",
                                 "audit-key.pem"]),
        ("scripts/verify-audit", [str(VERIFIER), "record.jsonl", "audit-key.pem"]),
    ):
        done = subprocess.run(command, capture_output=True, env=daemon.environment)
        said = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
        show(f"  {name:22}{said[-1] if said else ''}")
        if done.returncode != 0:
            wrong.append(f"{name}: exit {done.returncode}")
    return wrong


def verdict(wrong):
    """The exit status, and why."""
    for fault in wrong[:20]:
        print(f"WRONG  {fault}")
    if len(wrong) > 20:
        print(f"WRONG  and {len(wrong) - 20} more")
    return 1 if wrong else 0

