"""Counts in an export what the page of paytokenctl audit report says, for recount-report."""
import collections, datetime, itertools, json, re
from report_findings import Findings, length
from report_records import act_of, ARRIVALS, caller_of, facts, key_of, moment, most, name_of, OTHER_STEPS, Records, USES, who_of
from report_tokens import HSMTokens, TokenUses
from report_template import canonical

LATE, LATE_SEAL = ("deactivated", "stated deactivated"), datetime.timedelta(minutes=2)
ACTS = ARRIVALS + OTHER_STEPS + ("key_proof", "renewal_step", "approval_request", "approval_decision", "audit_key_change", "audit_key_prepare", "ledger_backup",
                                 "ledger_accept_restore", "ledger_accept_clock", "configuration_reload", "test_keys_remove")
READINGS = ("audit_list", "audit_export", "audit_verify", "audit_public_key", "audit_head", "audit_token_uses")
FOR_TWO = ("key_import", "key_adopt", "audit_key_change", "ledger_accept_restore", "ledger_accept_clock")
CHARTS, KEPT, MOST_STEPS, MOST_ACTS, MOST_CHANGES, MOST_EXPORTS, MOST_REPLAYS = 24, 500, 200, 20_000, 5_000, 2_000, 2_000
# What the report says of that which is beyond its limits. A page with more than these cannot be compared.
BEYOND = ("archives", "stops, or changes of version, program or configuration file", "changes of settings",
          "signing requests and certificates", "administrative acts", "exports", "replays outside of bursts")

def chart_steps(begin, end):
    """Returns the days on which a chart's steps begin, and the day after the last, in the shortest unit with at most 62."""
    first, steps = begin.date(), []
    starts = [first, first - datetime.timedelta(first.weekday()), first.replace(day=1), first.replace(month=1, day=1)]
    for unit, start in enumerate(starts):
        steps = [start]
        while datetime.datetime.combine(steps[-1], datetime.time()) < end and len(steps) <= 63:
            last = steps[-1]
            steps.append(last + datetime.timedelta((1, 7)[unit]) if unit < 2 else (last.replace(day=28)
                         + datetime.timedelta(4)).replace(day=1) if unit == 2 else last.replace(year=last.year + 1))
        if len(steps) <= 63: break
    return steps[:63]

def quoted(record, name): return f": {record[name]}" if isinstance(record.get(name), str) else ""

def sentence(approvals, omitted, record, time):
    """Returns the words about a record's approval. One that was decided later did not permit the act."""
    name = record.get("approval")
    if not isinstance(name, str): return None
    if name not in approvals: return f"request {name}, not in this {'report' if omitted else 'export'}"
    request, decisions = approvals[name]["request"], approvals[name]["decisions"]
    text = f"asked for by {(request and caller_of(request)) or '–'}"
    if not decisions: return text + ", not decided yet"
    last, by = decisions[-1], caller_of(decisions[-1])
    text += ", " + {"approve": "approved", "reject": "rejected", "withdraw": "withdrawn", "expire": "lapsed"}.get(last["decision"], "")
    text += f" by {by}" if by else ""
    if last["time"] <= time: return text
    decided = last["time"][:19].replace("T", " ")
    return f"none for this act. Request for {(request and act_of(request)) or 'the next step'}: {text} at {decided}"

def runs(days):
    """Yields the days in a row."""
    ordered = sorted(days)
    def follows(day, after): return datetime.date.fromisoformat(day) + datetime.timedelta(1) == datetime.date.fromisoformat(after)
    starts = [place for place, day in enumerate(ordered) if not place or not follows(ordered[place - 1], day)]
    for start, end in zip(starts, [*starts[1:], len(ordered)]):
        yield {"from": ordered[start], **({"to": ordered[end - 1]} if end - start > 1 else {})}

class KeyBook:
    """The keys' steps, in order of time: (time, name, [node, sequence], caller, record)."""
    ORIGINS = {"generated": "key_generate", "imported": "key_import", "adopted": "key_adopt"}

    def __init__(self):
        self.steps, self.merchants, self.omitted = {}, {}, collections.Counter()
        self.known, self.certificates, self.google = {}, {}, set()

    def take(self, record):
        key, event = record.get("publicKeyHash"), record["event"]
        for stated, state in record["keys"].items() if event == "key_states" else ():
            self.add(key_of(stated), "stated " + state, record)
        if key is None or record["outcome"] != "ok" or event not in ARRIVALS + OTHER_STEPS: return
        change = record.get("to") if event == "key_state_change" else event
        if not change: return
        self.add(key, change, record)
        if "merchant" in record: self.merchants.setdefault(key, record["merchant"])
        if event in (*ARRIVALS, "certificate_import") and record.get("wallet") == "google-pay": self.google.add(key)
        for newest, member in ((self.known, "algorithm"), (self.certificates, "certificateEnd")):
            is_newer = key not in newest or newest[key]["time"] <= record["time"]
            if event in (*ARRIVALS, "certificate_import") and "algorithm" in record and member in record and is_newer:
                newest[key] = record

    def came(self, key):
        arrival = next((name for _, name, *_ in self.steps.get(key, ()) if name in ARRIVALS), None)
        return arrival or self.ORIGINS.get(self.known.get(key, {}).get("origin"))

    def add(self, key, name, record):
        steps, time = self.steps.setdefault(key, []), record["time"]
        is_minor = name == "csr_create" or name == "certificate_import" and any(step[1] == name for step in steps)
        if is_minor and len(steps) >= MOST_STEPS:
            self.omitted[key] += 1
            return
        place = next((place + 1 for place in reversed(range(len(steps))) if steps[place][0] <= time), 0)
        is_stated = name.startswith("stated ")
        steps.insert(place, (time, name, [record["node"], record["sequence"]], None if is_stated else caller_of(record), record))
        if not is_stated: return
        stated = [step for step in steps if step[1].startswith("stated ")]
        kept = [stated[0], stated[-1], *[step for step in stated if step[1] == "stated deactivated"][:1]]
        steps[:] = [step for step in steps if step not in stated or any(step is one for one in kept)]

    def first(self, key, *names): return next((step for step in self.steps[key] if step[1] in names), None)

    def stated(self, key): return next((step for step in self.steps[key] if step[1].startswith("stated ")), None)

    def served(self, key):
        """Returns the step since which a key serves, or None."""
        added = next((step for step in self.steps[key] if step[1] == "active" and step[4].get("from") == "pre-activation"), None)
        if added or key in self.google: return added
        is_made = (self.first(key, *ARRIVALS) or self.stated(key) or [None, None])[1] in ("key_generate", "stated pre-activation")
        return self.first(key, "certificate_import") if is_made else self.first(key, "key_import", "key_adopt")

    def successors(self):
        """Returns the times at which another key of the same merchant and algorithm came to serve, by key."""
        served = [(key, self.merchants[key], self.known.get(key, {}).get("algorithm"), step[0])
                  for key in self.steps if key in self.merchants and (step := self.served(key))]
        later = {key: [time for _, *other, time in served if other == of and time > since] for key, *of, since in served}
        return {key: min(times) for key, times in later.items() if times}

    def facts(self, key, until, used, approved, attributes, blocks):
        steps = self.steps[key]
        def first(*names): return self.first(key, *names)
        def place(step): return step and f"{step[2][0]} {step[2][1]}"
        arrival, stated, served = first(*ARRIVALS), self.stated(key), self.served(key)
        states = [name.removeprefix("stated ") for _, name, *_ in steps if not name.startswith(("key_", "csr_", "certificate_"))]
        state = states[-1] if states else "pre-activation"
        if state == "pre-activation": state = "active" if served else "pre-activation"
        end, service = min((step[0] for step in steps if step[1] in ("deactivated", "compromised", "destroyed")), default=None), None
        if served:
            days = (moment(end or until) - moment(served[0])).days if (end or until) > served[0] else None
            service = {"from": served[0], **facts(until=end, days=days)}
        elif stated and stated[1] != "stated pre-activation":
            service = facts(until=end, serving=state in ("active", "suspended"))
        def life(step):
            time, name, _, by, record = step
            is_event = name in ARRIVALS + OTHER_STEPS
            said = {} if name.startswith("stated ") else facts(approval=approved(record, time), reason=record.get("reason"),
                                                               cutOff=record.get("cutOff"))
            block = next((block for block in blocks if block["step"] == step[2]), None)
            return facts(key=key, step=name if is_event else "stated" if name.startswith("stated ") else "state",
                         state=None if is_event else name.removeprefix("stated "), time=time, by=by, **said, record=place(step),
                         block=block and facts(since=block["since"], lastUse=block.get("lastUse"), refused=block["refused"].facts(
                             f"refused, key {key}, while {block['state']}")))
        shown = [step for step in steps if not step[1].startswith("stated ") or not arrival and step is stated]
        if key in self.google and used.get("use") == "processing": used["use"] = "google-pay"
        known, certificate, destroyed = self.known.get(key, {}), self.certificates.get(key, {}), first("destroyed")
        return facts(key=key, merchant=self.merchants.get(key), **used, attributes=attributes, state=state, came=self.came(key),
                     algorithm=known.get("algorithm"), bits=known.get("bits"), issuer=certificate.get("issuer"),
                     certificateEnd=certificate.get("certificateEnd"), certificateSha256=certificate.get("certificateSha256"), destroyedOn=destroyed and destroyed[2][0],
                     removedOn=sorted({step[2][0] for step in steps if step[1] == "key_objects_destroy"}) or None, cameAt=arrival and arrival[0],
                     service=service, life=[life(step) for step in shown], omitted=self.omitted[key] or None), served and served[0]

class Hosts:
    """Each node's part of the record: its records, seals, programs, configuration, and what happened to the record itself."""
    def __init__(self, since, until):
        self.since, self.until, self.nodes, self.programs, self.archives = since, until, {}, {}, []
        self.versions, self.files, self.values, self.incoming, self.changes = {}, {}, {}, {}, []
        self.stopped, self.downtimes, self.settings_since = {}, {}, {}
        self.moments = {"restore": [], "clock": [], "archive": self.archives}
        self.audit_keys, self.pins = {}, []
        self.omitted = collections.Counter()

    def seal(self, seal):
        node, key = self.nodes.setdefault(seal["node"], {"begun": False}), self.audit_key(seal["node"], seal["keyId"])
        key.update(seals=key["seals"] + 1, firstSeal=key.get("firstSeal", seal["time"]), lastSeal=seal["time"],
                   kind={"algorithm": "RSA", "bits": 2048} if "algorithm" in seal else {"algorithm": "EC", "bits": 256})
        node["seal"] = (seal["sequence"], seal["time"])
        first, since = node.pop("waits", node["seal"])
        waited = moment(seal["time"]) - moment(since)
        if waited <= LATE_SEAL: return
        node["late"] = node.get("late", 0) + 1
        if "longest" not in node or waited > node["longest"][0]: node["longest"] = waited, first, since, node["seal"]

    def audit_key(self, node, key): return self.audit_keys.setdefault((node, key), {"seals": 0})

    def note(self, kept, record, text, omitted=BEYOND[1]):
        if kept and kept[-1][0] == text: return
        if len(kept) < KEPT: kept.append((text, record))
        else: self.omitted[omitted] += 1

    def take(self, record):
        node, time, event, is_done = record["node"], record["time"], record["event"], record["outcome"] == "ok"
        is_in, found = self.since <= time < self.until, self.nodes.setdefault(node, {"begun": False})
        if not found["begun"]:
            found.update(begun=True, first=record["sequence"], firstTime=time, records=0, inPeriod=0, starts=Records(),
                         stops=Records(), programReadings=Records(), readers={})
        found.update(last=record["sequence"], lastTime=time, records=found["records"] + 1, inPeriod=found["inPeriod"] + is_in)
        # A clock that is set back makes later records wait since an earlier time.
        waits = record["sequence"], time
        found["waits"] = min(found.get("waits", waits), waits, key=lambda each: each[1])
        if event == "audit_key_pinned" and len(self.pins) < MOST_CHANGES: self.pins.append(record)
        if event == "audit_key_change" and is_done:
            if "from" in record: self.audit_key(node, record["from"])["replacement"] = record
            if "to" in record: self.audit_key(node, record["to"])["change"] = record
        if is_in and event in ("start", "stop"): found[event + "s"].add(record)
        if is_in and event == "program_digests": found["programReadings"].add(record)
        if event == "start" or event == "stop" and is_in: self.end_downtime(node, time if event == "start" else None)
        if event == "stop" and is_in: self.stopped[node] = record
        if event == "start": self.note(self.versions.setdefault(node, []), record, record.get("version", "-"))
        if event in ("start", "program_digests", "module_change"): self.omitted[BEYOND[1]] += note_programs(self.programs, record)
        if event == "audit_head" and is_done: found["readers"].setdefault(caller_of(record) or "the daemon", collections.Counter())[time[:10]] += 1
        if event in ("configuration_load", "configuration_reload") and is_done and "fileSha256" in record:
            self.note(self.files.setdefault(node, []), record, record["fileSha256"])
        if event == "configuration_values": self.configure(record, is_in)
        if not is_in or not is_done: return
        def add(what, text): self.moments[what].append((text + quoted(record, "reason"), record))
        if event == "ledger_accept_restore":
            remembered = f"; the HSM token remembered record {record['tokenSequence']}" if "tokenSequence" in record else ""
            served = f"; payment tokens were refused until {record['servedFrom'][:19].replace('T', ' ')}" if "servedFrom" in record else ""
            add("restore", f"it ended with record {record['ledgerSequence']} when it was accepted{remembered}{served}")
        if event == "ledger_accept_clock": add("clock", "the present clock was accepted as right")
        if event == "record_archive":
            first, last, digest = record["first"], record["last"], record["fileSha256"]
            text = f"records {first} to {last}, file {node}.{first}-{last}.jsonl, SHA-256 {digest}"
            self.note(self.archives, record, text, BEYOND[0])

    def credentials(self, node):
        """Yields the secrets, with the record since which their keyed digest is the present one."""
        since = self.settings_since.get(node, {})
        for name in sorted(name for name in self.values.get(node, {}) if name.endswith((".pin_digest", ".password_digest"))):
            record, key = since[name], since.get("credentials.key")
            days = max(datetime.timedelta(), moment(self.until) - moment(record["time"])).days
            yield facts(node=node, name=name, since=record["time"], isBeginning=record is key, days=days, record=name_of(record))

    def end_downtime(self, node, until):
        stopped = self.stopped.pop(node, None)
        if stopped and len(self.downtimes.setdefault(node, [])) < KEPT: self.downtimes[node].append((stopped, until))
        elif stopped: self.omitted[BEYOND[1]] += 1

    def configure(self, record, is_in):
        node = record["node"]
        if record["part"] == 1: self.incoming[node] = {}
        self.incoming.setdefault(node, {}).update(record["values"])
        if record["part"] != record["parts"]: return
        before, after = self.values.get(node, {}), self.incoming.pop(node)
        if before and is_in:
            changes = self.changes + [(record, name, before.get(name), after.get(name)) for name in sorted({*before, *after})
                                      if before.get(name) != after.get(name)]
            self.changes, self.omitted[BEYOND[2]] = changes[:MOST_CHANGES], (
                self.omitted[BEYOND[2]] + max(0, len(changes) - MOST_CHANGES))
        self.values[node] = after
        since = self.settings_since.get(node, {})
        self.settings_since[node] = {name: since[name] if name in since and before[name] == value else record
                                     for name, value in after.items()}

    def facts(self, approved):
        names = sorted(name for name, node in self.nodes.items() if node["begun"])
        def node_facts(name):
            node, settings = self.nodes[name], self.values.get(name, {})
            sealed, at = node.get("seal", (0, None))
            late = None
            if "late" in node:
                _, first, since, (last, until) = node["longest"]
                late = {"count": node["late"], "first": first, "last": last, "since": since, "until": until, "length": length(since, until)}
            readers = sorted(node["readers"].items(), key=lambda reader: (-reader[1].total(), reader[0]))
            return facts(node=name, first=node["first"], last=node["last"], records=node["records"], inPeriod=node["inPeriod"],
                         beginsLater=node["first"] > 1, sealed=sealed, sealedAt=at, unsealed=node["last"] - sealed, late=late,
                         firstTime=node["firstTime"], lastTime=node["lastTime"], hasSettings=bool(settings),
                         retained=settings.get("ledger.retain_records"), headReaders=[{"by": by, "count": days.total(), "days": list(runs(days))} for by, days in readers],
                         starts=node["starts"].figure(f"event start of {name}"), stops=node["stops"].figure(f"event stop of {name}"),
                         programReadings=node["programReadings"].figure(f"event program_digests of {name}"))
        def moment_facts(what, text, record):
            return facts(what=what, time=record["time"], text=text, node=record["node"], by=caller_of(record),
                         approval=approved(record, record["time"]), record=name_of(record))
        def key_facts(node, key, known):
            change, replacement = known.get("change", {}), known.get("replacement", {})
            return facts(node=node, key=key_of(key), keyId=key, **known.get("kind", {}), token=change.get("token"), time=change.get("time"), by=caller_of(change),
                         approval=change and approved(change, change["time"]) or None, reason=change.get("reason"),
                         record=name_of(change) if change else None, until=replacement.get("time"),
                         lost="formerKey" in replacement or None, seals=known["seals"], firstSeal=known.get("firstSeal"),
                         lastSeal=known.get("lastSeal"))
        groups = {}
        for record, *change in sorted(self.changes, key=lambda change: (change[0]["time"], change[0]["node"], change[0]["sequence"])):
            groups.setdefault((record["time"][:10], *change), []).append(record)
        changes = sorted(groups.items(), key=lambda group: (group[1][0]["time"], group[1][0]["node"], group[1][0]["sequence"], group[0][1]))
        def noted(notes, member):
            return [{"node": name, member: text, "time": record["time"], "record": name_of(record)}
                    for name in names for text, record in notes.get(name, ())]
        downtimes = [pair for name in names for pair in
                     self.downtimes.get(name, []) + ([(self.stopped[name], None)] if name in self.stopped else [])]
        return {
            "nodes": [node_facts(name) for name in names],
            "auditKeys": [key_facts(node, key, known) for (node, key), known in self.audit_keys.items()],
            "pins": [facts(node=pin["node"], ofNode=pin["ofNode"], keyIds=[key["keyId"] for key in pin["keys"]],
                           vouchedBy=pin.get("vouchedBy"), time=pin["time"], record=name_of(pin)) for pin in self.pins],
            "downtimes": [facts(kind="stop", node=stop["node"], since=stop["time"], until=until, record=name_of(stop),
                                length=until and length(stop["time"], until)) for stop, until in downtimes],
            "moments": [moment_facts(what, *moment) for what, moments in self.moments.items() for moment in moments],
            "credentials": [each for name in names for each in self.credentials(name)],
            "versions": noted(self.versions, "version"), "configurations": noted(self.files, "sha256"),
            "programs": [programs for name in names for programs in self.programs.get(name, ())],
            "changes": [facts(time=records[0]["time"], nodes=[record["node"] for record in records], name=name, before=before,
                              after=after, records=[name_of(record) for record in records])
                        for (_, name, before, after), records in changes],
            "rules": access_rules(self.values),
            "settings": [{"node": name, "values": [{"name": each, "value": value} for each, value in sorted(self.values[name].items())]}
                         for name in names if self.values.get(name)]}

PROGRAMS = {"paytokend": "paytokendSha256", "worker": "workerSha256", "sbom": "sbomSha256"}

def note_programs(programs, record):
    """Adds the programs' SHA-256 to their node's list, if a file differs from the one before. Returns true if the list is full."""
    changes = programs.setdefault(record["node"], [])
    last = changes[-1] if changes else {"modules": []}
    modules = {module["token"]: module["sha256"] for module in last["modules"]}
    if record["event"] != "module_change":
        files = {name: record[member] for name, member in PROGRAMS.items() if member in record}
        modules = record.get("modules", {})
    else:
        files = {name: last[name] for name in PROGRAMS if name in last}
        modules[record["token"]] = record.get("to")
    files["modules"] = [{"token": token, "sha256": digest} for token, digest in sorted(modules.items()) if digest]
    if changes and files == {name: last[name] for name in (*PROGRAMS, "modules") if name in last}: return False
    if len(changes) >= KEPT: return True
    changes.append({"node": record["node"], "time": record["time"], "record": name_of(record), **files})
    return False

ALONE = {
    "decrypt": "open payment tokens of these merchants", "session": "sign merchant sessions",
    "portal-read": "have reads of Apple's certificate lists signed", "audit": "read the whole record",
    "admin": "make keys, import certificates, suspend and retire keys, rotate, back up the ledger, decide others' requests",
    "monitor": "see status, metrics and the list of keys"}

ALONE_FOR_TWO = ("import, adopt, resume, compromise and destroy keys, change the audit key, accept a restored ledger or a clock")

def access_rules(values):
    """Returns the rules that were last in force, once for all nodes that have the same."""
    groups = {}
    for node in sorted(node for node in values if values[node]):
        members = {}
        for name, value in values[node].items():
            _, place, member = (name.split(".", 2) + ["", ""])[:3]
            if name.startswith("access.") and member and re.fullmatch("[0-9]+", place): members.setdefault(int(place), {})[member] = value
        people = values[node].get("approvals.people", "")
        people = int(people) if re.fullmatch("[0-9]+", people) else 1
        rules = [rule_facts(place, rule, people) for place, rule in sorted(members.items())]
        groups.setdefault(canonical([people, rules]), (people, rules, []))[2].append(node)
    return [facts(nodes=nodes, people=people if people > 1 else None, rules=rules) for people, rules, nodes in groups.values()]

def rule_facts(place, rule, people):
    peers = [words + rule[name] + (f" ({number} {rule[number]})" if number in rule else "")
             for words, name, number in (("user ", "user", "uid"), ("members of ", "group", "gid")) if name in rule]
    def values(name):
        further = itertools.takewhile(rule.__contains__, (f"{name}.{number}" for number in itertools.count(2)))
        return ", ".join(rule[each] for each in [name, *further] if each in rule)
    of_google = values("google_pay.merchants")
    merchants = [values("merchants"), of_google and f"Google Pay: {of_google} ({values('google_pay.auth_methods')})"]
    roles = [role.strip() for role in rule.get("roles", "").split(",") if role]
    alone = [words for role, word in ALONE.items() if role in roles
             for words in ([word, ALONE_FOR_TWO] if role == "admin" and people < 2 else [word])]
    return facts(place=place, name=rule.get("name"), peers=", ".join(peers) or "everybody", merchants="; ".join(filter(None, merchants)),
                 roles=", ".join(roles), alone="; ".join(alone) or "nothing")

class People:
    """The administrative acts, the requests for a second person, and the readings of the record."""
    def __init__(self, since, until):
        self.since, self.until, self.acts, self.people, self.approvals, self.readings = since, until, [], {}, {}, {}
        self.omitted, self.exports = 0, []

    def take(self, record):
        event, is_done, caller = record["event"], record["outcome"] == "ok", caller_of(record)
        is_in = self.since <= record["time"] < self.until
        if event in READINGS and is_in: self.readings.setdefault((caller or "-", event), Records()).add(record)
        if event == "audit_export" and is_in and is_done: self.exports.append(record)
        if event not in ACTS: return
        name = record.get("approval")
        if name and (is_done or event == "approval_decision" and record.get("decision") == "expire" and caller is None):
            if event in ("approval_request", "approval_decision"):
                approval = self.approvals.setdefault(name, {"request": None, "decisions": []})
                if event == "approval_request": approval["request"] = record
                else: approval["decisions"].append(record)
        if not is_in: return
        if len(self.acts) < MOST_ACTS: self.acts.append(record)
        else: self.omitted += 1
        if not is_done: return
        person = self.people.setdefault(caller or "the daemon", {name: Records() for name in ("acts", "asked", "decided", "alone")})
        person["acts"].add(record)
        is_for_two = event in FOR_TWO or event == "key_state_change" and (
            act_of(record) in ("destroyed", "compromised") or act_of(record) == "active" and record.get("from") != "pre-activation") \
            or event == "renewal_step" and act_of(record) in ("create", "activate", "revoke")
        if event == "approval_request": person["asked"].add(record)
        elif event == "approval_decision": person["decided"].add(record) if act_of(record) != "withdraw" else None
        elif caller and not name and is_for_two: person["alone"].add(record)

    def facts(self, approved):
        asked = sorted(((approval["request"]["time"], name, approval) for name, approval in self.approvals.items()
                        if approval["request"] and self.since <= approval["request"]["time"] < self.until), key=lambda one: one[:2])
        def end(approval): return approval["decisions"][-1]["decision"] if approval["decisions"] else "open"
        def request(time, approval):
            record, last = approval["request"], (approval["decisions"] or [None])[-1]
            return facts(time=time, by=who_of(record), what=act_of(record), key=record.get("publicKeyHash"), reason=record.get("reason"),
                         end=end(approval), decidedAt=last and last["time"], decidedBy=last and who_of(last),
                         records=[name_of(each) for each in [record] + approval["decisions"]])
        def act(record):
            what = act_of(record)
            if what and re.fullmatch("[0-9a-f]{64}", what): what = key_of(what)[:8] + "…"
            return facts(time=record["time"], by=who_of(record), event=record["event"], what=what, outcome=record["outcome"],
                         sha256=record.get("certificateSha256", record.get("fileSha256")), bytes=record.get("bytes"),
                         key=record.get("publicKeyHash"), merchant=record.get("merchant"), reason=record.get("reason"),
                         approval=approved(record, record["time"]), record=name_of(record))
        which = {"acts": "administrative acts of {}, ok", "asked": "approval_request by {}", "decided": "approval_decision by {}",
                 "alone": "acts of {} for two people, without an approval"}
        ends = collections.Counter(end(approval) for *_, approval in asked)
        decisions = collections.Counter((act_of(record) or "-", record["outcome"] != "ok") for record in self.acts
                                        if record["event"] == "approval_decision")
        return {"people": [{"who": who, **{name: person[name].figure(text.format(who)) for name, text in which.items()}}
                           for who, person in sorted(self.people.items())],
                "decisions": [facts(decision=name, refused=is_refused or None, count=count)
                              for (name, is_refused), count in sorted(decisions.items(), key=lambda one: (one[0][1], one[0][0]))],
                "endsOfApprovals": [{"end": name, "count": count} for name, count in sorted(ends.items())],
                "approvals": [request(time, approval) for time, _, approval in asked],
                "acts": [act(record) for record in sorted(self.acts, key=lambda each: (each["time"], each["node"], each["sequence"]))],
                "exports": [facts(time=record["time"], by=caller_of(record), node=record.get("ofNode", record["node"]),
                                  format=record.get("format"), first=record.get("first"), last=record.get("last"), record=name_of(record))
                            for record in sorted(self.exports[:MOST_EXPORTS], key=lambda each: (each["time"], each["node"], each["sequence"]))],
                "readings": [{"by": by, "event": event, "times": records.figure(f"{event} by {by}")}
                             for (by, event), records in sorted(self.readings.items())]}

def codes(refused): return [{"code": code, "count": count} for code, count in sorted(refused.items())]

class Uses:
    """The uses of the keys, and the refusals."""
    def __init__(self):
        self.pairs, self.days = {}, {"caller": {}, "key": {}}

    def take(self, record):
        key, caller, day, outcome = record.get("publicKeyHash"), caller_of(record), record["time"][:10], record["outcome"]
        if record["event"] not in USES: return
        use = self.pairs.setdefault((key, caller), {"refused": {}, "released": Records(), "repeated": Records(), "signed": Records()})
        if "merchant" in record: use.setdefault("merchant", record["merchant"])
        if outcome not in ("ok", "repeat"):
            use["refused"].setdefault(outcome, Records()).add(record)
            return
        use["repeated" if outcome == "repeat" else "released" if record["event"] == "decrypt" else "signed"].add(record)
        use.update(first=min(use.get("first", record["time"]), record["time"]), last=max(use.get("last", ""), record["time"]))
        if caller is not None: self.days["caller"].setdefault(caller, collections.Counter())[day] += 1
        if key is not None: self.days["key"].setdefault(key, collections.Counter())[day] += 1

    def use_of(self, key):
        uses = [use for (of, _), use in self.pairs.items() if of == key]
        counts = {name: sum(use[kind].count for use in uses)
                  for name, kind in (("opened", "released"), ("again", "repeated"), ("signed", "signed"))}
        use = "identity" if counts["signed"] else "processing" if counts["opened"] or counts["again"] else None
        refused: collections.Counter = collections.Counter()
        for each in uses: refused.update({code: records.count for code, records in each["refused"].items()})
        return facts(use=use, **counts, refused=codes(refused),
                     firstUse=min((use["first"] for use in uses if "first" in use), default=None),
                     lastUse=max((use["last"] for use in uses if "last" in use), default=None))

    def facts(self, since, until, merchants, findings):
        def order(pair): return (pair[0][0] or "", pair[0][1] or "")
        pairs = []
        for (key, caller), use in sorted(self.pairs.items(), key=order):
            of = f"key {key or 'none'} by {caller or 'nobody'}"
            used = {name: use[name].figure(f"{event}, {of}") for name, event in (
                ("released", "decrypt, ok"), ("repeated", "decrypt, repeat"), ("signed", "tls_signature, ok"))} if "first" in use else {}
            pairs.append(facts(key=key, caller=caller, merchant=use.get("merchant"), first=use.get("first"), last=use.get("last"), **used,
                               refused=codes({code: records.count for code, records in use["refused"].items()})))
        def reason(code, reason):
            named, more = most(reason["callers"])
            return facts(code=code, requests=reason["records"].figure(f"decrypt, tls_signature or request, {code}"),
                         callers=named, moreCallers=more, summary=reason["summary"])
        days = [str(day) for day in chart_steps(moment(since), moment(until))]
        steps = list(zip(days, days[1:]))
        def counted(counter): return [sum(n for day, n in counter.items() if first <= day < end) for first, end in steps]
        width = -(-len(steps) // 6) or 1
        labels = [{"span": min(first + width, len(steps)) - first,
                   "day": days[first + width // 2] if first + width // 2 < min(first + width, len(steps)) else ""}
                  for first in range(0, len(steps), width)]
        def chart(values, **members):
            return {**facts(**members), "most": max(1, *values, 1), "steps": max(1, len(steps)), "labels": labels,
                    "bars": [{"at": at, "from": days[at], "count": n} for at, n in enumerate(values) if n]}
        def group(of, **names):
            series = sorted(self.days[of].items(), key=lambda series: (-sum(series[1].values()), series[0]))
            return {"charts": [chart(counted(counter), of=of, **{of: name}, merchant=merchants.get(name) if of == "key" else None)
                               for name, counter in series[:CHARTS]], "more": len(series) > CHARTS}
        used = collections.Counter()
        for counter in self.days["caller"].values(): used.update(counter)
        uses, refusals = counted(used), counted(findings.refused_days)
        def hours(used): return [sum(records.count for hour, (records, _) in used.items() if hour % 24 == of) for of in range(24)]
        return {"uses": pairs, "reasons": [reason(*each) for each in sorted(findings.reasons.items())],
                "hours": [{"caller": caller, "hours": hours(used)} for caller, used in sorted(findings.hours.items())],
                "charts": [{"charts": [chart(uses, of="all"), chart(refusals, of="refusals")]}, group("caller"), group("key")]}

def recount(opened, since, until, made, logs=()):
    """Returns what the report must say of the export. It is read twice, since a record that supersedes a key may follow its uses."""
    book, begun, pinned, missing_before, last, set_backs = KeyBook(), set(), set(), "", {}, collections.defaultdict(list)
    replayed = set()
    tokens = HSMTokens()
    with opened() as export:
        for line in export:
            record = json.loads(line)
            head, is_seal = record.get("checkpoint", record), "checkpoint" in record
            # If a node's part does not begin with record 1, other changes were recorded before its first line.
            if head["node"] not in begun and (is_seal or head["sequence"] > 1):
                missing_before = max(missing_before, head["time"])
            begun.add(head["node"])
            if is_seal: continue
            node, before = record["node"], last.get(record["node"])
            if before and record["time"] < before and moment(before) - moment(record["time"]) > Findings.SECOND:
                is_wide = moment(before) - moment(record["time"]) > datetime.timedelta(milliseconds=TokenUses.MARGIN)
                set_backs[node].append((record["time"], is_wide))
            last[node] = record["time"]
            if record["event"] == "audit_key_pinned": pinned.add(record["ofNode"])
            if (record["event"], record["outcome"]) == ("decrypt", "transaction_replayed"): replayed.add(record.get("transactionId"))
            book.take(record)
            tokens.take(record)
    superseded, cut_offs = {}, {}
    for key, steps in book.steps.items():
        time, said, record = next(((time, step, record) for time, step, *_, record in steps if step in LATE),
                                  (None, None, dict[str, str]()))
        cut_offs[key] = record.get("cutOff") if said == "deactivated" else None
        # A node that is missing in the export may have recorded the change at any time before the statement.
        is_bounded = said == "stated deactivated" and missing_before and pinned <= begun
        superseded[key] = min(time, missing_before) if time and is_bounded else time
    hosts, people, uses = Hosts(since, until), People(since, until), Uses()
    successors = book.successors()
    findings = Findings(book.steps, since, until, set_backs, tokens.warned(book), replayed - {None}, successors)
    with opened() as export:
        for record in map(json.loads, export):
            if "checkpoint" in record:
                findings.seal(record["checkpoint"])
                hosts.seal(record["checkpoint"])
                node, time = record["checkpoint"]["node"], record["checkpoint"]["time"]
                for log in logs: log.seal(record["checkpoint"], since <= time < until, findings.misdated(node, time))
                continue
            key = record.get("publicKeyHash")
            findings.take(record, superseded.get(key), cut_offs.get(key))
            hosts.take(record)
            people.take(record)
            for log in logs: log.take(record, since <= record["time"] < until, findings.misdated(record["node"], record["time"]))
            if since <= record["time"] < until: uses.take(record)
    def approved(record, time): return sentence(people.approvals, False, record, time)
    keys, served = [], {}
    def seen(steps): return "" if steps[0][1].startswith("stated ") else steps[0][0]
    for key, _ in sorted(book.steps.items(), key=lambda item: (seen(item[1]), item[0])):
        found, served[key] = book.facts(key, until, uses.use_of(key), approved, tokens.of_key(key, book), findings.blocks[key])
        if key in successors:
            opened = findings.succeeded[key].facts(f"decrypt, ok or repeat, key {key}, after its successor served")
            found["successor"] = {"since": successors[key], "opened": opened}
        keys.append(found)
    states = {found["key"]: found["state"] for found in keys}
    keys += [{"key": key, "attributes": tokens.of_key(key, book)} for key in sorted(tokens.keys) if key not in book.steps]
    found = findings.end(states, {key: time for key, time in served.items() if time}, min(until, made))
    counted = {**hosts.facts(approved), **people.facts(approved), **uses.facts(since, until, book.merchants, findings)}
    for node in counted["nodes"]:
        head = findings.last_heads.get(node["node"])
        if head: node["lastHead"] = {**head, "later": node["last"] - int(head["record"].split()[1])}
    omitted = {**hosts.omitted, BEYOND[3]: sum(book.omitted.values()), BEYOND[4]: people.omitted,
               BEYOND[5]: max(0, len(people.exports) - MOST_EXPORTS),
               BEYOND[6]: max(0, len(findings.single_replays()) - MOST_REPLAYS)}
    beyond = [{"what": what, "count": omitted[what]} for what in BEYOND if omitted.get(what)]
    return {**counted, "omitted": beyond or None, "findings": found, "refusals": findings.refusals(), "replays": findings.single_replays()[:MOST_REPLAYS], "keys": keys,
            "tokens": tokens.facts(hosts.values), "attributes": tokens.attributes(book), "serials": tokens.serials,
            "states": [{"state": state, "count": n} for state, n in sorted(collections.Counter(states.values()).items())],
            "thresholds": {"replays": Findings.REPLAYS, "factor": Findings.FACTOR, "weeks": Findings.WEEKS // 168, "least": Findings.LEAST, "refusals": Findings.REFUSALS,
                           "outage": Findings.OUTAGE, "earliest": TokenUses.EARLIEST // 1000, "latest": TokenUses.LATEST // 1000}}
