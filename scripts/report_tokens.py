"""The HSM tokens' statements about themselves and their keys in an export, and their logs of uses, for recount-report."""
import array, base64, bisect, collections, datetime, hashlib, itertools, json, pathlib, re
from report_records import ARRIVALS, EPOCH, facts, key_of, most, name_of, Records, USES
from report_findings import length
from report_template import canonical

class HSMTokens:
    """The last statements of each node's HSM tokens: the records token_attributes and key_attributes."""
    MEMBERS = {"manufacturer": "manufacturer", "model": "model", "serial": "serialNumber", "hardware": "hardwareVersion",
               "firmware": "firmwareVersion", "library": "library", "tierEC": "tierECv1", "tierRSA": "tierRSAv1",
               "shortcomings": "shortcomings"}
    SHOWN = ("algorithm", "bits", "sensitive", "extractable", "alwaysSensitive", "neverExtractable", "local", "modifiable", "uses")
    # What a private key must have. Of an imported key, an HSM token rightly says no to the last two.
    WANTED = {"sensitive": ("CKA_SENSITIVE", True), "extractable": ("CKA_EXTRACTABLE", False), "private": ("CKA_PRIVATE", True),
              "stored": ("CKA_TOKEN", True), "alwaysSensitive": ("CKA_ALWAYS_SENSITIVE", True),
              "neverExtractable": ("CKA_NEVER_EXTRACTABLE", True)}

    def __init__(self): self.tokens, self.serials, self.keys, self.distinct = {}, {}, {}, {}

    def take(self, record):
        if "token" not in record: return
        source = record["token"], record["node"]
        if record["event"] == "token_attributes":
            self.tokens[source] = record
            if "serialNumber" in record: self.serials.setdefault(source, set()).add(record["serialNumber"])
        if record["event"] == "key_attributes":
            key = record["publicKeyHash"]
            self.keys.setdefault(key, {})[source] = record
            said = self.distinct.setdefault(key, {}).setdefault((record["token"], canonical(record["keys"])), [])
            said.append(record)

    def facts(self, settings):
        configured = {(name[7:-7], node) for node, values in settings.items() for name in values
                      if name.startswith("tokens.") and name.endswith(".module")}
        def token(name, node):
            record = self.tokens.get((name, node), {})
            return facts(node=node, token=name, **{name: record.get(member) for name, member in self.MEMBERS.items()},
                         validation=settings.get(node, {}).get(f"tokens.{name}.validation") or None, time=record.get("time"),
                         record=name_of(record) if record else None)
        return [token(*source) for source in sorted(configured | self.tokens.keys())]

    def warnings(self, key, copies, came, known):
        for name, (attribute, value) in self.WANTED.items():
            is_asked = not name.startswith(("always", "never")) or key.get("local") is True or came == "key_generate"
            if key.get(name) is value or not is_asked: continue
            yield {"kind": name} if name in key else {"kind": "not_reported", "attribute": attribute}
        if came == "key_generate" and key.get("local") is not True: yield {"kind": "not_made_here"}
        if came == "key_import" and key.get("local") is True: yield {"kind": "made_here"}
        strengths = [f"{known['algorithm']} {known.get('bits', 0)}"] if known else ["EC 256", "RSA 2048"]
        if "bits" in key and f"{key.get('algorithm', '')} {key['bits']}" not in strengths:
            yield {"kind": "strength", "attribute": " or ".join(strengths)}
        if copies > 1: yield {"kind": "copies", "count": copies}

    def warnings_of(self, key, record, book):
        """Returns the warnings about each private key that a record describes."""
        return [list(self.warnings(each, len(record["keys"]), book.came(key), book.known.get(key))) for each in record["keys"]]

    def attributes(self, book):
        warned = [key for key, sources in self.keys.items()
                  if any(any(self.warnings_of(key, record, book)) for record in sources.values())]
        return facts(warned=len(warned) or None, described=len(self.keys) or None)

    def of_key(self, key, book):
        """Returns the last statements about a key's private keys. Equal ones of several nodes are one row."""
        rows = {}
        for (token, _), record in sorted(self.keys.get(key, {}).items()):
            for each, warnings in zip(record["keys"], self.warnings_of(key, record, book)):
                row = facts(token=token, **{name: each.get(name) for name in self.SHOWN}, warnings=warnings)
                rows.setdefault(canonical(row), (row, []))[1].append(record)
        return [{**row, "time": min(record["time"] for record in records), "records": [name_of(record) for record in records]}
                for row, records in rows.values()]

    def warned(self, book):
        """Returns the keys that a statement describes with a warning: the first such statement, and the warnings of all."""
        found = {}
        for key, statements in self.distinct.items():
            said = []
            for records in statements.values():
                warnings = [warning for each in self.warnings_of(key, records[0], book) for warning in each]
                first = min(records, key=lambda record: (record["time"], record["node"], record["sequence"]))
                if warnings: said.append(((first["time"], first["node"], first["sequence"]), first, warnings, records))
            said.sort(key=lambda statement: statement[0])
            if not said: continue
            first, unique = said[0][1], {canonical(warning): warning for _, _, warnings, _ in said for warning in warnings}
            found[key] = {"time": first["time"], "token": first["token"], "warnings": list(unique.values()),
                          "records": Records().merge(Records(records) for *_, records in said)}
        return found

PERHAPS_USED = ("decryption_failed", "hsm_unavailable", "internal_error", "deadline_exceeded")
START = re.compile(rb'\{"node":"([^"]*)","sequence":([0-9]*),"time":"([^"]*)"')
KEY = re.compile(rb'"publicKeyHash":"([^"]*)"')
days_of: dict = {}

def milliseconds(time):
    """Returns a record's time in milliseconds since 1970."""
    if time[:10] not in days_of: days_of[time[:10]] = (datetime.date.fromisoformat(time[:10]) - EPOCH.date()).days * 86_400_000
    return days_of[time[:10]] + (int(time[11:13]) * 60 + int(time[14:16])) * 60_000 + int(time[17:19]) * 1000 + int(time[20:23])

def text_of(time):
    return (EPOCH + datetime.timedelta(milliseconds=time)).isoformat(timespec="milliseconds") + "Z"

def uses_of(record):
    """Returns the least and the most uses of a key that a record shows."""
    event, token, outcome = record["event"], record.get("token"), record["outcome"]
    named_first = event in ("csr_create", "key_proof")
    if (event in ARRIVALS or named_first) and outcome != "ok" and (not token or "hsm" in record): return 0, 0
    is_use = event in USES + ("jwt_signature",)
    least = int(bool(is_use and token or named_first and outcome == "ok"))
    may_be = named_first or is_use and outcome in PERHAPS_USED and record.get("hsm") != "not_reached"
    return least, 2 if event in ARRIVALS else int(bool(least or may_be))

class TokenUses:
    """An HSM token's log or counter of its keys' uses, and the records that explain them, as ReportFigures defines it."""
    EARLIEST, LATEST, MARGIN, CHAIN, UNCOVERED, SEAL_AGE = 30_000, 20_000, 10_000, 1_000, 3_600_000, 60_000
    # The operations that a private key can do, by its algorithm.
    OPERATIONS = {"EC": ("derive", "sign"), "RSA": ("decrypt", "unwrap", "sign"), None: ("derive", "decrypt", "unwrap", "sign")}

    def __init__(self, path):
        self.uses, self.counts, self.operations, ended, lines = {}, collections.Counter(), {}, None, 0
        self.header: dict = {}
        data = pathlib.Path(path).read_bytes()
        self.file, self.digest = pathlib.Path(path).name, hashlib.sha256(data).hexdigest()
        try:
            for line in map(json.loads, data.split(b"\n")[:-1]):
                if not self.header: self.header = line
                elif ended is not None: raise ValueError
                elif "end" in line: ended = line["end"]
                else:
                    lines += 1
                    key = line["publicKeyHash"]
                    self.counts[key] += line["uses"] if "uses" in line else 1
                    if "time" not in line: continue
                    self.uses.setdefault(key, array.array("q")).append(time := self.moment(line["time"]))
                    known, name = self.operations.setdefault(key, {}), line["operation"]
                    count, first, last = known.get(name := name if name in known or len(known) < 16 else "other", (0, time, time))
                    known[name] = count + 1, min(first, time), max(last, time)
            if self.header["format"] != "paytokend-token-uses" or ended != lines or not data.endswith(b"\n"): raise ValueError
            self.is_log = self.header["kind"] == "log"
            self.since, self.until = self.moment(self.header["since"]), self.moment(self.header["until"])
        except (AttributeError, KeyError, TypeError, ValueError): raise OSError(f"{path} is no whole log of an HSM token's uses") from None
        self.least, self.most, self.outside_records = collections.Counter(), collections.Counter(), 0
        self.certain, self.possible, self.sealers, self.nearest, self.uncounted = {}, {}, {}, {}, {}
        # The uses, and the times of the seals, that a wrong clock dated, by node and the first of its records.
        self.misdated: dict = {}

    @staticmethod
    def moment(time):
        return (datetime.datetime.fromisoformat(time) - EPOCH.replace(tzinfo=datetime.timezone.utc)) // datetime.timedelta(milliseconds=1)

    def seal(self, seal, is_in, misdated):
        key = key_of(seal["keyId"])
        self.sealers[key] = seal["node"]
        self.add(key, 1, 1, seal["node"], None, seal["time"], is_in, misdated)

    def take(self, record, is_in, misdated):
        # Of the keys that were tried with a Google Pay message, the record's own opened it, in the HSM token that it names.
        for key in record.get("triedKeys", ()) if "hsm" not in record else ():
            if key != record.get("publicKeyHash"): self.add(key, 0, 1, record["node"], None, record["time"], is_in, misdated)
        least, most = uses_of(record)
        if most and "publicKeyHash" in record:
            self.add(record["publicKeyHash"], least, most, record["node"], record.get("token"), record["time"], is_in, misdated)

    def add(self, key, least, most, node, token, time, is_in, misdated):
        if self.header.get("node", node) != node or token and self.header.get("token", token) not in [token, *token.split(",")]: return
        if misdated:  # the first of the records with the times of a wrong clock, which match no use
            uses, seals = self.misdated.get((node, misdated), (0, []))
            is_seal = key in self.sealers
            self.misdated[node, misdated] = uses + most * (not is_seal), seals + [milliseconds(time)] * is_seal
            return
        at = milliseconds(time)
        # A use that the record explains may be outside of the log.
        if not self.since - self.LATEST <= at < self.until + self.EARLIEST:
            self.outside_records += is_in and least > 0
            return
        if not self.since + self.EARLIEST <= at < self.until - self.LATEST: least = 0
        self.least[key] += least
        self.most[key] += most
        if not self.is_log: return
        for _ in range(least): self.certain.setdefault(key, array.array("q")).append(at)
        for _ in range(most - least): self.possible.setdefault(key, array.array("q")).append(at)

    def unmatched(self, uses, records):
        """Returns the uses that no record explains, and the records that remain. Each use takes the first record that is left and near
        enough; if it finds none, the use of those before it that is furthest from all records gives up its own."""
        left, use_of, record_for, use, record = set(), [-1] * len(records), [0] * len(uses), 0, 0
        def distance(use):
            after = bisect.bisect_left(records, uses[use])
            return min((abs(one - uses[use]) for one in records[max(0, after - 1):after + 1]), default=1 << 63)
        while use < len(uses):
            record_for[use] = record
            if use in left:
                use += 1
                continue
            while record < len(records) and records[record] + self.LATEST < uses[use]:
                use_of[record], record = -1, record + 1
            if record < len(records) and records[record] - self.EARLIEST <= uses[use]:
                use_of[record], record, use = use, record + 1, use + 1
                continue
            furthest, first, longest = use, use, distance(use)
            for one in range(record - 1, max(-1, record - 1 - self.CHAIN), -1):
                if records[one] + self.LATEST < uses[first]: break
                if use_of[one] < 0: continue
                first = use_of[one]
                if distance(first) > longest: furthest, longest = first, distance(first)
            left.add(furthest)
            use, record = furthest, record_for[furthest]
        return ([uses[use] for use in sorted(left)],
                [time for place, time in enumerate(records) if place >= record or use_of[place] < 0])

    def compare(self, findings):
        """Matches the uses with the records, and divides those that remain by key and day."""
        self.keys, self.days = {}, {}
        for key in {*self.counts, *self.most}:
            counted, uses, certain = self.counts[key], sorted(self.uses.get(key, ())), sorted(self.certain.get(key, ()))
            remain, _ = self.unmatched(uses, sorted([*certain, *self.possible.get(key, ())])) if self.is_log else ([], None)
            if self.is_log: self.uncounted[key] = self.unmatched(uses, certain)[1]
            missing = len(self.uncounted[key]) if self.is_log else max(0, self.least[key] - counted)
            self.keys[key] = remain, len(remain) if self.is_log else max(0, counted - self.most[key]), missing
            for day, times in itertools.groupby(remain, lambda time: text_of(time)[:10]): self.days[day, key] = list(times)
        self.losses = [loss for loss in findings if self.header.get("node", loss.get("node")) == loss.get("node") and (
            loss["kind"] == "records_lost" or loss["kind"] == "clock_set_back" and (loss["node"], loss.get("first")) in self.misdated)]
        # The uses in each loss's time beyond those that it explains.
        self.beyond = {are_seals: [sum(self.is_within(loss, time) for time in self.remaining(are_seals)) - self.explainable(loss, are_seals)
                                   for loss in self.losses] for are_seals in (True, False)}

    def is_within(self, loss, time):
        since = loss.get("before" if loss["kind"] == "clock_set_back" else "since")
        return ((since is None or milliseconds(since) - self.EARLIEST <= time)
                and ("until" not in loss or time <= milliseconds(loss["until"]) + self.LATEST))

    def outside(self, times): return [time for time in times if not any(self.is_within(loss, time) for loss in self.losses)]

    def hours(self, times, key):
        """Yields by hour the uses that neither a record explains nor a loss that explains all uses of its time."""
        whole = [loss for loss, beyond in zip(self.losses, self.beyond[key in self.sealers]) if not beyond]
        listed = [time for time in times if not any(self.is_within(loss, time) for loss in whole)]
        for _, hour in itertools.groupby(listed, lambda time: time // 3_600_000): yield list(hour)

    def search(self, opened):
        """Finds the records nearest to the uses without one."""
        found, gaps = collections.defaultdict(set), collections.defaultdict(dict)
        for (_, key), times in self.days.items():
            for hour in self.hours(times, key): found[self.searched(key)].update((hour[0], hour[-1]))
        ends = {key: sorted(times) for key, times in found.items()}
        self.nearest = {(key, end): {} for key, times in ends.items() for end in times}
        with opened() as export:
            for line in export if ends else ():
                if not (start := START.match(line)): continue
                node, at, key = start[1].decode(), milliseconds(start[3].decode()), KEY.search(line)
                if self.header.get("node", node) != node: continue
                place = at, node, int(start[2])
                for name in {None, key and key[1].decode()} & ends.keys():
                    gap = bisect.bisect_left(ends[name], at)
                    first, last = gaps[name].get(gap, (place, place))
                    gaps[name][gap] = min(first, place), max(last, place)
        for key, times in ends.items():
            latest = earliest = None
            for gap, end in enumerate(times):
                latest = gaps[key][gap][1] if gap in gaps[key] else latest
                self.nearest[key, end]["before"] = latest
            for gap, end in reversed(list(enumerate(times))):
                earliest = gaps[key][gap + 1][0] if gap + 1 in gaps[key] else earliest
                self.nearest[key, end]["after"] = earliest

    def searched(self, key):
        """Returns the key whose records are searched: of seals, no record has the key."""
        return None if key in self.sealers else key

    def seals(self, loss, since, until):
        return sorted(time for key, times in self.uses.items() if self.sealers.get(key) == loss["node"] for time in times
                      if since + self.MARGIN < time < until - self.MARGIN) if self.header.get("node", loss["node"]) == loss["node"] else []

    def explainable(self, loss, are_seals):
        """Returns the number of uses that a loss explains at most. A lost record is of at most one use. Of the lost audit checkpoints,
        each sealed at least one lost record."""
        return min(self.capacity(loss, are_seals), sum(self.is_within(loss, time) for time in self.remaining(are_seals)))

    def capacity(self, loss, are_seals):
        # A lost seal without a use before it has sealed a record that shows none.
        if loss["kind"] != "clock_set_back": return max(0, loss["count"] - (0 if are_seals else lost_seals(loss, [self])[1]))
        uses, seals = self.misdated[loss["node"], loss["first"]]
        return len(seals) if are_seals else uses

    def clock(self, finding):
        """Returns what the log shows of a clock that was ahead: the times that it has for the seals which that clock dated. None
        unless as many seals of the node are in no record in that time."""
        _, dated = self.misdated.get((finding["node"], finding.get("first")), (0, []))
        times = sorted(time for key, (remain, *_) in self.keys.items() if self.sealers.get(key) == finding["node"]
                       for time in remain if self.is_within(finding, time))
        ahead = [clock - time for clock, time in zip(dated, times)]
        if not dated or len(dated) != len(times) or min(ahead) <= 0: return None
        (least, low), (most, high) = min(zip(ahead, times)), max(zip(ahead, times))
        refused = finding.get("refusedAhead")
        return facts(count=len(dated), first=text_of(times[0]), last=text_of(times[-1]), least=length(text_of(low), text_of(low + least)),
                     most=length(text_of(high), text_of(high + most), is_most=True),
                     since=refused and text_of(milliseconds(refused[0]) - least), until=refused and text_of(milliseconds(refused[1]) - least))

    def remaining(self, are_seals):
        return [time for key, (times, *_) in self.keys.items() if (key in self.sealers) == are_seals for time in times]

    def facts(self, merchants, serials):
        def place(key, end, which):
            found = self.nearest[self.searched(key), end][which]
            return found and {"record": f"{found[1]} {found[2]}", "time": text_of(found[0])}
        def explained(are_seals):
            count = sum(number for key, (_, number, _) in self.keys.items() if (key in self.sealers) == are_seals)
            times = self.remaining(are_seals)
            return count, min(len(times) - len(self.outside(times)), sum(self.explainable(loss, are_seals) for loss in self.losses))
        (seals, explained_seals), (others, explained_others) = explained(True), explained(False)
        def day_of(day, key, times):
            counted = sum(text_of(time)[:10] == day for time in self.uses[key])
            return facts(day=day, key=key, merchant=merchants.get(key), counted=counted, unexplained=len(times),
                         losses=[loss["node"] for loss in self.losses if any(self.is_within(loss, time) for time in times)],
                         hours=[facts(uses=len(hour), first=text_of(hour[0]), last=text_of(hour[-1]), before=place(key, hour[0], "before"),
                                      after=place(key, hour[-1], "after")) for hour in self.hours(times, key)])
        ordered = sorted(self.keys.items(), key=lambda key: (-key[1][1], -key[1][2], base64.b64decode(key[0]).hex()))
        lost = [(loss, self.explainable(loss, True), self.explainable(loss, False)) for loss in self.losses]
        return facts(
            kind=self.header["kind"], since=text_of(self.since), until=text_of(self.until),
            **{name: self.header.get(name) for name in ("node", "token", "serial")}, recordedSerials=serials,
            otherSerial=is_other(self.header, serials), file=self.file, sha256=self.digest,
            keys=[facts(key=key, merchant=merchants.get(key), auditKeyOf=self.sealers.get(key), counted=self.counts[key],
                        least=self.least[key], most=self.most[key], unexplained=number or None, missing=missing,
                        perhaps=self.counts[key] - number - self.least[key] + missing or None,
                        operations=operations_of(self.operations.get(key, {})) if self.is_log else None)
                  for key, (_, number, missing) in ordered],
            unexplained=seals + others, explainable=explained_seals + explained_others,
            certain=seals + others - explained_seals - explained_others,
            seals=seals or None, explainableSeals=explained_seals or None,
            losses=[facts(node=loss["node"], first=loss["first"], last=loss["last"], explainable=of_seals + of_others,
                          seals=of_seals or None, clock=loss["kind"] == "clock_set_back" or None,
                          withoutUse=loss["kind"] == "records_lost" and lost_seals(loss, [self])[1] or None,
                          room=self.capacity(loss, False) - of_others or None) for loss, of_seals, of_others in lost],
            days=[day_of(day, key, times) for (day, key), times in sorted(self.days.items())])

    def findings(self, other, since, last, algorithms):
        """Yields a finding for each key and day with uses that neither a record nor a loss explains; for each loss that explains fewer
        uses than are in its time; for each key with records that the log lacks, or with another type's operations; and if the log does
        not cover the period."""
        def found(kind, begun, ended, **members):
            return facts(kind=kind, time=text_of(begun), since=text_of(begun), until=text_of(ended), token=self.header.get("token"),
                         **{"node": self.header.get("node"), **members}, otherSerial=other)
        for (_, key), times in self.days.items():
            times = self.outside(times)
            if times: yield found("unrecorded_uses", times[0], times[-1], key=key, count=len(times))
        for place, loss in enumerate(self.losses):
            beyond = {are_seals: of_losses[place] for are_seals, of_losses in self.beyond.items()}
            within = {key: [time for time in times if self.is_within(loss, time)] for key, (times, *_) in self.keys.items()
                      if beyond[key in self.sealers]}
            every = sorted(itertools.chain(*within.values()))
            if every: yield found("uses_beyond_loss", every[0], every[-1], node=loss["node"], count=sum(beyond.values()),
                                  first=loss["first"], last=loss["last"],
                                  keys=most({key: len(times) for key, times in within.items() if times}, "key")[0])
        for key, (*_, missing) in self.keys.items():
            times = self.uncounted.get(key) or [self.since, self.until]
            if missing: yield found("uncounted_uses", times[0], times[-1], key=key, count=missing)
        for key, operations in self.operations.items():
            known = ("sign",) if key in self.sealers else self.OPERATIONS.get(algorithms.get(key), self.OPERATIONS[None])
            others = {name: uses for name, uses in operations.items() if name not in known}
            if others: yield found("other_operation", min(first for _, first, _ in others.values()), max(last for *_, last in others.values()),
                                   key=key, count=sum(count for count, *_ in others.values()), operations=operations_of(others))
        if self.since > milliseconds(since) or self.until + self.UNCOVERED < last or self.outside_records:
            yield found("short_log", self.since, self.until, count=self.outside_records)

def lost_seals(loss, logs):
    """Returns the seals of a node during a loss, or between two seals, by logs, and if each came about a minute after the first use in no
    record since the seal before; then the number before which no use can have been recorded since then, and the uses after the last."""
    since, until = loss.get("lastSeal", loss.get("since")), loss.get("until")
    if since is None or until is None: return [], 0, 0
    seals = sorted(time for log in logs for time in log.seals(loss, milliseconds(since), milliseconds(until)))
    uses = sorted(time for log in logs if seals and log.header.get("node", loss["node"]) == loss["node"]
                  for time in log.remaining(False) if log.is_within(loss, time))
    found, before, sealed, without_use = [], 0, 0, 0
    for time in seals:
        end = bisect.bisect_left(uses, time)
        found.append((time, before < end and abs(time - uses[before] - TokenUses.SEAL_AGE) <= TokenUses.MARGIN))
        without_use += sealed == end
        before, sealed = end, bisect.bisect_left(uses, time - TokenUses.EARLIEST)
    return found, without_use, len(uses) - before

def operations_of(operations): return [{"operation": name, "count": operations[name][0]} for name in sorted(operations)]

def is_other(log, serials): return bool(log.get("serial") and serials and log["serial"] not in serials) or None
