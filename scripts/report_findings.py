"""Finds in an export what an assessor should ask about, as the article ReportFigures defines it, for recount-report."""
import collections, datetime
from report_records import caller_of, EPOCH, facts, moment, most, Records, STATES, USES

def ordered(findings):
    return sorted(findings, key=lambda found: [found["time"], *(found.get(name, "") for name in (
        "kind", "node", "key", "caller", "token")), found["records"].first if "records" in found else 0])

def unrecorded(logs, findings):
    """Yields a finding for each key and day with uses in an HSM token's log that no record and no lost record explains."""
    for log in logs:
        losses = [found for found in findings if found["kind"] == "records_lost" and log.get("node", found["node"]) == found["node"]]
        for day in log["days"]:
            if any(loss.get("since", "")[:10] <= day["day"] <= loss.get("until", "9")[:10] for loss in losses): continue
            yield facts(kind="unrecorded_uses", time=day["day"] + "T00:00:00.000Z", node=log.get("node"), token=log.get("token"),
                        key=day["key"], count=day["counted"] - day["most"])

class Findings:
    """Finds what an assessor should ask about, as the article Assessing defines it. Takes the records and checkpoints of the
    export in their order."""
    WEEKS, FACTOR, LEAST, REPLAYS, REFUSALS = 4 * 7 * 24, 3, 20, 10, 100
    DAY, SECOND, PAYMENTS = datetime.timedelta(days=1), datetime.timedelta(seconds=1), 10_000

    def __init__(self, keys, since, until, set_backs):
        self.set_backs, self.ahead = {node: collections.deque(times) for node, times in set_backs.items()}, {}
        self.keys, self.since, self.until, self.found = keys, since, until, []
        self.last, self.running, self.copies, self.seals, self.long = {}, {}, {}, {}, {}
        self.values, self.incoming, self.asked, self.decided, self.refused = {}, {}, {}, [], []
        self.hours, self.firsts, self.callers, self.replays, self.memory = {}, {}, {}, {}, {}
        self.late, self.blocked = {}, {key: self.block(steps) for key, steps in keys.items()}
        self.last_use, self.refused_later = {}, {}

    def is_in(self, time): return self.since <= time < self.until

    @staticmethod
    def block(steps):
        """Returns the time from which a key that was later compromised was blocked, or None if it was not compromised."""
        begun = None
        for time, name, *_ in steps:
            if name in STATES:
                begun = None if name == "active" else begun or time
            if name == "compromised": return begun
        return None

    def add(self, kind, time, records=(), **members):
        records = records if isinstance(records, Records) else Records(records)
        self.found.append(facts(kind=kind, time=time, **members, records=records if records.count else None))

    def seal(self, seal):
        node, time = seal["node"], seal["time"]
        if self.is_in(time) and node in self.seals and moment(time) - moment(self.seals[node]) > self.DAY:
            times = self.long.setdefault(node, [])
            times.append((moment(time) - moment(self.seals[node]), self.seals[node], time))
        self.seals[node] = time
        # A node seals nothing until a restored ledger is accepted.
        self.copies.pop(node, None)

    def take(self, record, superseded, cut_off):
        node, time, event, outcome = (record[name] for name in ("node", "time", "event", "outcome"))
        is_in, caller, key, last = self.is_in(time), caller_of(record), record.get("publicKeyHash"), self.last.get(node)
        is_use = event in USES and outcome in ("ok", "repeat")
        def add(kind, **members): self.add(kind, time, [record], node=node, **members)
        set_backs = self.set_backs.get(node)
        if last and time < last[1] and moment(last[1]) - moment(time) > self.SECOND:
            first, before, ahead = self.ahead.pop(node, (None, None, None))
            if is_in: add("clock_set_back", since=last[1], until=time, before=before, ahead=ahead, first=first,
                          last=first and last[0], count=first and last[0] - first + 1)
            set_backs.popleft()
        if set_backs and time > set_backs[0]: self.ahead.setdefault(node, (record["sequence"], last and last[1], time))
        else: self.ahead.pop(node, None)
        if event == "start":
            if is_in and last and self.running.get(node): add("ended_without_stop", since=last[1], until=time)
            self.running[node] = True
            self.copies.setdefault(node, (*(last or (0, None)), time))
        if event == "stop": self.running[node] = False
        if is_use: self.copies.pop(node, None)
        if event == "ledger_accept_restore" and outcome == "ok":
            end, since, start = self.copies.pop(node, (record["ledgerSequence"], None, None))
            if is_in and "tokenSequence" in record:
                self.found = [found for found in self.found if (found["kind"], found.get("node"), found["time"])
                              != ("ended_without_stop", node, start)]
                if record["tokenSequence"] > end:
                    add("records_lost", caller=caller, since=since, until=start, count=record["tokenSequence"] - end,
                        first=end + 1, last=record["tokenSequence"])
        self.last[node] = (record["sequence"], time)
        if event == "configuration_values":
            if record["part"] == 1: self.incoming[node] = {}
            self.incoming.setdefault(node, {}).update(record["values"])
            if record["part"] == record["parts"]:
                before, self.values[node] = self.values.get(node, {}), {}
                for name, value in self.incoming.pop(node).items():
                    self.values[node][name] = before[name] if name in before and before[name][0] == value else (value, record)
        if event == "approval_request" and outcome == "ok": self.asked[record["approval"]] = caller
        if not is_in: return
        if event == "ledger_accept_clock" and outcome == "ok": add("clock_accepted", caller=caller)
        if event == "audit_key_change" and outcome == "ok" and "formerKey" in record:
            add("audit_key_lost", caller=caller, token=record.get("token"))
        if event == "head_memory_lost": self.memory.setdefault(node, []).append(record)
        if event == "records_dropped": add("records_dropped", since=record.get("since"), until=time, count=record["count"])
        if event == "approval_decision" and outcome != "ok" and record.get("decision") == "approve": self.decided.append(record)
        if event == "certificate_import" and outcome != "ok": self.refused.append(record)
        if caller and (event == "refusals" or event in USES + ("request",) and not is_use): self.refuse(record, caller)
        if event not in USES: return
        if is_use:
            if caller:
                hours = self.hours.setdefault(caller, collections.Counter())
                hours[(moment(time) - EPOCH) // datetime.timedelta(hours=1)] += 1
                self.firsts[caller, key] = min(self.firsts.get((caller, key), time), time)
            if event == "decrypt" and superseded and time > superseded:
                late = self.late.setdefault((key, caller), {"superseded": superseded, "cutOff": cut_off, "opened": Records(), "last": time})
                late["opened"].add(record)
                late["last"] = max(late["last"], time)
        begun = self.blocked.get(key)
        if begun and not is_use and time >= begun:
            self.refused_later.setdefault(key, collections.Counter())[caller or "–"] += 1
        if begun and is_use and time < begun: self.last_use[key] = max(self.last_use.get(key, time), time)

    def refuse(self, record, caller):
        time, count = record["time"], record["count"] if record["event"] == "refusals" else 1
        refused = self.callers.setdefault(caller, {"known": "name" in record["caller"], "count": 0, "first": time, "last": time,
                                                   "records": Records(), "hours": collections.Counter()})
        refused.update(count=refused["count"] + count, first=min(refused["first"], time), last=max(refused["last"], time))
        refused["hours"][time[:13]] += count
        if not refused["known"]: refused["records"].add(record)
        if record["outcome"] == "transaction_replayed" and record["event"] != "refusals":
            self.replays.setdefault((caller, time[:10]), []).append((time, record))

    def habits(self, caller, hours):
        """Adds the hours in which a caller did what it did not do in the four weeks before."""
        window, before, begun = collections.deque(), {}, min(hours)
        for hour, count in sorted(hours.items()):
            is_known, last = hour - begun >= self.WEEKS, before.get(hour % 24)
            while window and window[0][0] < hour - self.WEEKS: window.popleft()
            time = (EPOCH + datetime.timedelta(hours=hour)).isoformat(timespec="milliseconds") + "Z"
            if is_known and window and count >= self.LEAST and count > self.FACTOR * window[0][1]:
                self.add("busy_hour", time, caller=caller, count=count, usual=window[0][1])
            if is_known and count >= self.LEAST and (last is None or last < hour - self.WEEKS):
                self.add("unusual_hour", time, caller=caller, count=count)
            while window and window[-1][1] <= count: window.pop()
            window.append((hour, count))
            before[hour % 24] = hour

    def end(self, states, served):
        """Returns all findings, sorted. `states` has the keys' last states, and `served` the times from which they served."""
        for node, times in self.long.items():
            _, since, until = max(times, key=lambda interval: interval[0])
            self.add("seals_apart", since, node=node, since=since, until=until, count=len(times))
        for node, records in self.memory.items():
            first, last = records[0], records[-1]
            self.add("head_memory_lost", first["time"], records, node=node, since=first["time"], until=last["time"],
                     count=len(records), token=next((record["token"] for record in records if "token" in record), None))
        for record in self.decided:
            caller = caller_of(record)
            if caller and self.asked.get(record.get("approval")) == caller:
                self.add("own_request", record["time"], [record], node=record["node"], caller=caller)
        for (caller, _), records in self.replays.items():
            times = [time for time, _ in records]
            if len(records) < self.REPLAYS: continue
            payments = len({record["transactionId"] for _, record in records if "transactionId" in record})
            self.add("replays", min(times), [record for _, record in records], caller=caller, since=min(times), until=max(times),
                     count=len(records), payments=payments if 0 < payments < self.PAYMENTS else None)
        for caller, refused in self.callers.items():
            days = {}
            for hour, count in sorted(refused["hours"].items()):
                if count >= self.REFUSALS: days.setdefault(hour[:10], []).append((moment(hour + ":00:00.000Z"), count))
            for hours in days.values():
                since, until = (time.isoformat(timespec="milliseconds") + "Z" for time in (
                    hours[0][0], hours[-1][0] + datetime.timedelta(hours=1)))
                self.add("many_refusals", since, caller=caller, since=since, until=until, count=sum(count for _, count in hours))
        for caller, hours in self.hours.items(): self.habits(caller, hours)
        begun = {}
        for (caller, _), time in self.firsts.items(): begun[caller] = min(begun.get(caller, time), time)
        def is_long(start, end): return moment(end) - moment(start) >= datetime.timedelta(hours=self.WEEKS)
        for (caller, key), time in self.firsts.items():
            if key and is_long(begun[caller], time) and (key not in served or is_long(served[key], time)):
                self.add("first_use", time, key=key, caller=caller)
        unknown = [refused for _, refused in self.sorted_callers() if not refused["known"]]
        if unknown:
            since, until = min(each["first"] for each in unknown), max(each["last"] for each in unknown)
            self.add("unknown_callers", since, Records().merge(each["records"] for each in unknown), since=since, until=until,
                     count=sum(each["count"] for each in unknown))
        for key, steps in self.keys.items(): self.end_key(key, steps, states[key])
        for record in self.refused:
            key = record.get("publicKeyHash")
            if not any(name == "certificate_import" and time > record["time"] for time, name, *_ in self.keys.get(key, ())):
                self.add("certificate_refused", record["time"], [record], node=record["node"], key=key, caller=caller_of(record))
        for node, values in self.values.items():
            for name, (value, record) in values.items():
                if name.startswith("tokens.") and name.endswith(".module") and "softhsm" in value.lower():
                    self.add("software_token", record["time"], [record], node=node, token=name[7:-7])
        return ordered(self.found)

    def end_key(self, key, steps, state):
        def place(record): return {"node": record[0], "sequence": record[1]}
        compromised = next((step for step in steps if step[1] == "compromised"), None)
        if compromised and self.is_in(compromised[0]):
            refused = self.refused_later.get(key, {})
            self.add("key_compromised", compromised[0], [place(compromised[2])], node=compromised[2][0], key=key,
                     caller=compromised[3], since=self.last_use.get(key), until=self.blocked[key], count=sum(refused.values()), callers=most(refused)[0] or None)
        late = sorted(((caller or "", use) for (of, caller), use in self.late.items() if of == key), key=lambda use: use[0])
        if late:
            records, until = Records().merge(use["opened"] for _, use in late), max(use["last"] for _, use in late)
            self.add("used_after_superseded", late[0][1]["superseded"], records, key=key, since=late[0][1]["superseded"],
                     until=until, count=records.count, cutOff=late[0][1]["cutOff"])
        if state in ("compromised", "deactivated"):
            last = next(step for step in reversed(steps) if step[1].removeprefix("stated ") in STATES)
            self.add("key_not_destroyed", last[0], [place(last[2])], key=key)

    def sorted_callers(self): return sorted(self.callers.items(), key=lambda caller: (-caller[1]["count"], caller[0]))

    def refusals(self):
        def worst(hours): return min(hours.items(), key=lambda hour: (-hour[1], hour[0]))
        return [{"caller": name, "count": refused["count"], "first": refused["first"], "last": refused["last"],
                 "worstHour": worst(refused["hours"])[0] + ":00:00.000Z", "inWorstHour": worst(refused["hours"])[1]}
                for name, refused in self.sorted_callers()]

def length(since, until):
    seconds = int(abs(moment(until) - moment(since)).total_seconds())
    units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)]
    place = next((place for place, (_, size) in enumerate(units) if seconds >= size), None)
    if place is None: return "0 s"
    (name, size), (after, less) = units[place], units[place + 1] if place < 3 else (None, seconds + 1)
    return f"{seconds // size} {name}" + (f" {seconds % size // less} {after}" if seconds % size >= less else "")

def described(finding, counted):
    """Returns a finding as the report has it."""
    kind, members = finding["kind"], {name: value for name, value in finding.items() if name != "records"}
    if "since" in finding and "until" in finding: members["length"] = length(finding["since"], finding["until"])
    if finding.get("count") == 1: members["one"] = True
    if kind in ("records_lost", "records_dropped") and finding["count"] > 0: members["loss"] = True
    if kind == "key_not_destroyed": members["state"] = next(key["state"] for key in counted["keys"] if key["key"] == finding["key"])
    if kind == "records_lost":
        node = next(node for node in counted["nodes"] if node["node"] == finding["node"])
        members["readers"] = sorted(reader["by"] for reader in node["headReaders"])
    return {**members, **({"records": finding["records"].figure(f"finding {kind}")} if "records" in finding else {})}
