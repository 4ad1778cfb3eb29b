"""Records of an export, and the figures that count them, for recount-report."""
import base64, datetime

USES, ARRIVALS = ("decrypt", "tls_signature"), ("key_generate", "key_import", "key_adopt")
OTHER_STEPS = ("csr_create", "certificate_import", "key_state_change", "key_objects_destroy")
STATES = ("pre-activation", "active", "suspended", "deactivated", "compromised", "destroyed")
EPOCH = datetime.datetime(1970, 1, 1)

def facts(**members): return {name: value for name, value in members.items() if value is not None}

def key_of(digest):
    """Returns a key's name on the page, its publicKeyHash, which checkpoints have in hexadecimal as the keyId."""
    return base64.b64encode(bytes.fromhex(digest)).decode()

def moment(time): return datetime.datetime.strptime(time, "%Y-%m-%dT%H:%M:%S.%fZ")

def caller_of(record):
    caller = record.get("caller")
    return caller and caller.get("name", f"uid {caller['uid']}")

def most(counts, member="caller"):
    """Returns the callers, or other names, with the most requests, at most 10, and the number of the others, or None."""
    found = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [{member: name, "count": count} for name, count in found[:10]], max(0, len(found) - 10) or None

def name_of(record): return f"{record['node']} {record['sequence']}"

def act_of(record):
    return next((record[name] for name in ("decision", "operation", "to", "step") if isinstance(record.get(name), str)), None)

def who_of(record):
    caller = record.get("caller")
    if not caller: return "the daemon"
    login = caller.get("loginUid")
    return caller_of(record) + (f", logged in as uid {login}" if login is not None and login != caller["uid"] else "")

class Records:
    """The records that a figure counts: their number on each node, the first eight, and the first and the last time."""
    def __init__(self, records=()):
        self.parts, self.named, self.since, self.until = {}, [], None, None
        for record in records: self.add(record)

    @property
    def count(self): return sum(part["count"] for part in self.parts.values())

    @property
    def only_node(self): return next(iter(self.parts)) if len(self.parts) == 1 else None

    @property
    def first(self): return next(iter(self.parts.values()))["first"] if self.parts else 0

    def add(self, record, since=None):
        """Adds a record. `since` is the time from which a record that is a sum counts."""
        time = record.get("time", "")
        self.between(min(since or time, time), time)
        if len(self.named) < 8: self.named.append(name_of(record))
        self.extend(record["node"], 1, record["sequence"], record["sequence"])

    def extend(self, node, count, first, last):
        part = self.parts.setdefault(node, {"node": node, "count": 0, "first": first, "last": last})
        part.update(count=part["count"] + count, first=min(part["first"], first), last=max(part["last"], last))

    def between(self, since, until):
        self.since = since if self.since is None else min(self.since, since)
        self.until = until if self.until is None else max(self.until, until)

    def merge(self, others):
        for other in others:
            if other.count: self.between(other.since, other.until)
            self.named += other.named[:8 - len(self.named)]
            for part in other.parts.values(): self.extend(*part.values())
        return self

    def facts(self, which): return facts(first=self.since, last=self.until, requests=self.figure(which))

    def figure(self, which):
        if self.count < 2: return facts(count=self.count, record=self.named[0] if self.named else None)
        return {"count": self.count, "which": which, "parts": list(self.parts.values()), "records": self.named,
                "complete": len(self.named) == self.count}
