"""Finds in an export what an assessor should ask about, as the article ReportFigures defines it, for recount-report."""
import collections, datetime
from report_records import act_of, caller_of, EPOCH, facts, moment, most, name_of, Records, STATES, USES

def ordered(findings):
    return sorted(findings, key=lambda found: [found["time"], *(found.get(name, "") for name in (
        "kind", "node", "key", "caller", "token")), found["records"].first if "records" in found else 0])

def blocks_of(steps):
    """Yields the times in which a key's state forbade its use. A deactivated key opens payment tokens until its cut-off."""
    changes = [step for step in steps if step[1] in STATES]
    for place, (time, name, step, _, record) in enumerate(changes):
        since = max(time, record.get("cutOff") or time)
        until = changes[place + 1][0] if place + 1 < len(changes) else None
        if name not in ("active", "pre-activation") and (until is None or since < until):
            yield {"step": step, "state": name, "since": since, "until": until, "refused": Records(), "callers": collections.Counter()}

class Findings:
    """Finds what an assessor should ask about, as the article Assessing defines it. Takes the records and checkpoints of the
    export in their order."""
    WEEKS, FACTOR, LEAST, REPLAYS, REFUSALS, OUTAGE = 4 * 7 * 24, 3, 20, 10, 100, 3
    DAY, SECOND, PAYMENTS = datetime.timedelta(days=1), datetime.timedelta(seconds=1), 10_000

    def __init__(self, keys, since, until, set_backs, warned, replayed, successors):
        self.successors, self.succeeded = successors, {key: Records() for key in successors}
        self.warned, self.opened, self.heads, self.last_heads, self.lacks_head, self.exports = warned, {}, [], {}, {}, []
        self.opened_before: dict = {key: [] for key in warned}
        self.replayed, self.openings, self.outages, self.signs = replayed, {}, {}, {}
        self.window, self.was_set_back = {}, {}
        self.set_backs, self.ahead = {node: collections.deque(times) for node, times in set_backs.items()}, {}
        self.keys, self.since, self.until, self.found = keys, since, until, []
        self.last, self.running, self.copies, self.seals, self.long = {}, {}, {}, {}, {}
        self.values, self.incoming, self.asked, self.decided, self.refused = {}, {}, {}, [], []
        self.hours, self.firsts, self.callers, self.replays, self.memory = {}, {}, {}, {}, {}
        self.late, self.blocks = {}, {key: list(blocks_of(steps)) for key, steps in keys.items()}
        self.reasons, self.refused_days = {}, collections.Counter()

    def is_in(self, time): return self.since <= time < self.until

    def add(self, kind, time, records=(), **members):
        records = records if isinstance(records, Records) else Records(records)
        self.found.append(facts(kind=kind, time=time, **members, records=records if records.count else None))
        return self.found[-1]

    def seal(self, seal):
        node, time, last = seal["node"], seal["time"], self.seals.get(seal["node"])
        if last and last["time"] < self.until and time >= self.since and moment(time) - moment(last["time"]) > self.DAY:
            self.long.setdefault(node, []).append((moment(time) - moment(last["time"]), last, seal))
        self.seals[node] = seal
        self.signs[node] = time
        if node in self.outages: self.outages[node].setdefault("nextSeal", time)
        # A node seals nothing until a restored ledger is accepted.
        self.copies.pop(node, None)

    def take(self, record, superseded, cut_off):
        node, time, event, outcome = (record[name] for name in ("node", "time", "event", "outcome"))
        is_in, caller, key, last = self.is_in(time), caller_of(record), record.get("publicKeyHash"), self.last.get(node)
        is_use = event in USES and outcome in ("ok", "repeat")
        def add(kind, **members): return self.add(kind, time, [record], node=node, **members)
        set_backs = self.set_backs.get(node)
        if last and time < last[1] and moment(last[1]) - moment(time) > self.SECOND:
            first, before, ahead, refused = self.ahead.pop(node, (None, None, None, None))
            if is_in:
                is_refused = event in USES and outcome == "signing_time_outside_window"
                seal = self.seals.get(node, {"sequence": 0})
                is_seal_back = seal["sequence"] == last[0] and moment(last[1]) - moment(seal["time"]) > self.SECOND
                self.was_set_back[node] = is_refused, self.window.get(node, Records()).count, add(
                    "clock_set_back", since=last[1], until=time, before=before, ahead=ahead, first=first, last=first and last[0],
                    count=first and last[0] - first + 1, sealed=seal["time"] if is_seal_back else None, refusedAhead=refused)
            set_backs.popleft()
        if set_backs and time > set_backs[0][0]:
            seal = self.seals.get(node, {"sequence": 0})
            is_right = last and seal["sequence"] == last[0] and last[1] <= seal["time"] <= set_backs[0][0]
            self.ahead.setdefault(node, (record["sequence"], seal["time"] if is_right else last and last[1], time, None))
        else: self.ahead.pop(node, None)
        if event == "start":
            sealed = self.seals.get(node, {}).get("time")
            if is_in and last and self.running.get(node):
                add("ended_without_stop", since=last[1], until=time, sealed=sealed if sealed and last[1] < sealed <= time else None)
            self.running[node] = True
            self.copies.setdefault(node, (*(last or (0, None)), time, self.last_heads.get(node), sealed))
        if event == "stop": self.running[node] = False
        if event in USES and outcome == "signing_time_outside_window":
            self.window.setdefault(node, Records()).add(record)
            if node in self.was_set_back:
                back = self.was_set_back[node][2].setdefault("refusedBack", (time, time))
                self.was_set_back[node][2]["refusedBack"] = min(back[0], time), max(back[1], time)
            *ahead, refused = self.ahead.get(node, (None,))
            if ahead: self.ahead[node] = *ahead, (min(refused[0], time), max(refused[1], time)) if refused else (time, time)
        if is_in and outcome == "hsm_unavailable":
            outage = self.outages.setdefault(node, facts(records=Records(), before=self.signs.get(node)))
            outage["records"].add(record)
            outage.pop("nextSeal", None)
        payment = record.get("transactionId")
        if event == "decrypt" and outcome == "ok" and payment in self.replayed:
            opening = time, node, record["sequence"], record
            self.openings[payment] = min(self.openings.get(payment, opening), opening, key=lambda one: one[:3])
        if is_use:
            self.end_outage(node, time)
            self.signs[node] = time
            self.copies.pop(node, None)
            if node in self.ahead: self.ahead[node] = *self.ahead[node][:3], None
            refused, (is_refused, before, found) = self.window.pop(node, Records()), self.was_set_back.pop(node, (False, 0, None))
            if found: found.update(refused=refused.count, refusedBefore=before, nextUse=time, **facts(refusedUntil=found.get("refusedBack", (0, None))[1]),
                                   records=refused if is_refused else found["records"].merge([refused]))
        if event == "audit_head" and outcome == "ok": self.head(record, caller)
        if event == "ledger_accept_restore" and outcome == "ok":
            end, since, start, head, seal = self.copies.pop(node, (record["ledgerSequence"], None, None, self.last_heads.get(node), None))
            if is_in and "tokenSequence" in record:
                self.found = [found for found in self.found if (found["kind"], found.get("node"), found["time"])
                              != ("ended_without_stop", node, start)]
                if record["tokenSequence"] > end:
                    heads = facts(before=head)
                    self.lacks_head[node] = heads
                    add("records_lost", caller=caller, since=since, until=start, count=record["tokenSequence"] - end,
                        first=end + 1, last=record["tokenSequence"], heads=heads, servedFrom=record.get("servedFrom"), lastSeal=seal)
        self.last[node] = (record["sequence"], time)
        if event == "configuration_values":
            if record["part"] == 1: self.incoming[node] = {}
            self.incoming.setdefault(node, {}).update(record["values"])
            if record["part"] == record["parts"]:
                before, self.values[node] = self.values.get(node, {}), {}
                for name, value in self.incoming.pop(node).items():
                    self.values[node][name] = before[name] if name in before and before[name][0] == value else (value, record)
        if event == "approval_request" and outcome == "ok": self.asked[record["approval"]] = record
        if not is_in: return
        if event == "ledger_accept_clock" and outcome == "ok": add("clock_accepted", caller=caller)
        if event == "audit_export" and outcome == "ok": self.exports.append(self.request(record, caller))
        if event == "audit_key_change" and outcome == "ok" and "formerKey" in record:
            add("audit_key_lost", caller=caller, token=record.get("token"))
        if event == "head_memory_lost": self.memory.setdefault(node, []).append(record)
        if event == "records_dropped":
            since, sealed = record.get("since"), self.seals.get(node, {}).get("time", "")
            add("records_dropped", since=since, until=time, count=record["count"],
                previous=last and {"record": f"{node} {last[0]}", "time": last[1]}, sealed=sealed if since and since < sealed <= time else None)
        if event == "approval_decision" and outcome != "ok" and record.get("decision") == "approve": self.decided.append(record)
        if event == "certificate_import" and outcome != "ok": self.refused.append(record)
        if event == "refusals" or event in USES + ("request",) and not is_use: self.refuse(record, caller)
        if event not in USES: return
        if is_use:
            if caller:
                hour = (moment(time) - EPOCH) // datetime.timedelta(hours=1)
                used, keys = self.hours.setdefault(caller, {}).setdefault(hour, (Records(), collections.Counter()))
                used.add(record)
                if key: keys[key] += 1
                self.firsts[caller, key] = min(self.firsts.get((caller, key), time), time)
            if event == "decrypt" and key in self.warned and time < (warned := self.warned[key]["time"]):
                if moment(warned) - moment(time) <= self.DAY: self.opened_before[key].append(time)
            elif event == "decrypt" and key in self.warned:
                opened, latest = self.opened.setdefault(key, (collections.Counter(), time))
                opened[caller or "–"] += 1
                self.opened[key] = opened, max(latest, time)
            if event == "decrypt" and time > self.successors.get(key, "9"): self.succeeded[key].add(record)
            if event == "decrypt" and superseded and time > superseded:
                late = self.late.setdefault(key, {"superseded": superseded, "cutOff": cut_off, "opened": {}})
                late["opened"].setdefault(caller, Records()).add(record)
        for block in self.blocks.get(key, ()):
            if is_use and time < block["since"]: block["lastUse"] = max(block.get("lastUse", time), time)
            if not is_use and block["since"] <= time and (block["until"] is None or time < block["until"]):
                block["refused"].add(record)
                block["callers"][caller or "–"] += 1

    def end_outage(self, node, time):
        outage = self.outages.pop(node, {"records": Records()})
        records = outage.pop("records")
        if records.count >= self.OUTAGE:
            self.add("hsm_unavailable", records.since, records, node=node, since=records.since, until=records.until, count=records.count,
                     nextUse=time, **outage)

    def misdated(self, node, time):
        """Returns the first of the records that a clock that was ahead has written, if the node's last record, or its seal of this time, is
        among them."""
        ahead, (back, is_wide) = self.ahead.get(node), (self.set_backs.get(node) or [("9", False)])[0]
        return ahead[0] if ahead and is_wide and time > back and self.is_in(back) else None

    @staticmethod
    def request(record, caller):
        return (record["time"], record["node"], record["sequence"], record.get("ofNode", record["node"]),
                facts(time=record["time"], record=name_of(record), by=caller))

    def head(self, record, caller):
        """Takes note of a request for a head. The daemon that is asked seals this record, so that its head shows it."""
        self.heads.append(self.request(record, caller))
        head, of_node, node = self.heads[-1][-1], record.get("ofNode"), record["node"]
        if of_node not in (None, "all", node): return
        self.last_heads[node] = head
        if node in self.lacks_head: self.lacks_head.pop(node)["after"] = head

    def answers_elsewhere(self, loss):
        """Adds the requests for heads that other nodes answered while a node's records were lost, for its heads and for others, and
        for exports of its records: twenty of each, and how many more."""
        def during(requests):
            found = sorted(each for each in requests if each[1] != loss["node"]
                           and loss.get("since", "") <= each[0] <= loss.get("until", "9"))
            return [[request for *_, of, request in found if (of in ("all", loss["node"])) == is_own] for is_own in (True, False)]
        (own, others), (exports, _) = during(self.heads), during(self.exports)
        loss["requests"] = sorted(own + others, key=lambda request: (request["time"], request["record"].split()[0]))
        for name, more, found in (("elsewhere", "more", own), ("others", "moreOthers", others), ("exports", "moreExports", exports)):
            loss["heads"].update({name: found[:20], **facts(**{more: max(0, len(found) - 20) or None})})

    def refuse(self, record, caller):
        time, count = record["time"], record["count"] if record["event"] == "refusals" else 1
        self.refused_days[time[:10]] += count
        for code, number in (record["counts"] if record["event"] == "refusals" else {record["outcome"]: 1}).items():
            reason = self.reasons.setdefault(code, {"records": Records(), "summary": 0, "callers": collections.Counter()})
            if record["event"] == "refusals": reason["summary"] += number
            else: reason["records"].add(record)
            reason["callers"][caller or "–"] += number
        if not caller: return
        refused = self.callers.setdefault(caller, {"known": "name" in record["caller"], "count": 0, "records": Records(),
                                                   "hours": collections.Counter(), "of_hours": {}})
        refused["count"] += count
        refused["hours"][time[:13]] += count
        refused["of_hours"].setdefault(time[:13], Records()).add(record, record.get("since") if record["event"] == "refusals" else None)
        refused["records"].add(record)
        if record["outcome"] == "transaction_replayed" and record["event"] != "refusals":
            replays = self.replays.setdefault((caller, time[:10]), (Records(), set(), collections.Counter(), []))
            replays[0].add(record)
            if len(replays[3]) < self.REPLAYS: replays[3].append(record)
            if "publicKeyHash" in record: replays[2][record["publicKeyHash"]] += 1
            if "transactionId" in record: replays[1].add(record["transactionId"])

    def habits(self, caller, hours):
        """Adds the hours in which a caller did what it did not do in the four weeks before."""
        window, before, begun = collections.deque(), {}, min(hours)
        for hour, (records, keys) in sorted(hours.items()):
            count, nodes = records.count, sorted(records.parts)
            times = facts(since=records.since, until=records.until, node=records.only_node, nodes=nodes if len(nodes) > 1 else None,
                          keys=most(keys, "key")[0] or None)
            is_known, last = hour - begun >= self.WEEKS, before.get(hour % 24)
            while window and window[0][0] < hour - self.WEEKS: window.popleft()
            time = (EPOCH + datetime.timedelta(hours=hour)).isoformat(timespec="milliseconds") + "Z"
            is_unusual = is_known and count >= self.LEAST and (last is None or last < hour - self.WEEKS)
            if is_known and window and count >= self.LEAST and count > self.FACTOR * window[0][1]:
                self.add("busy_hour", time, records, caller=caller, count=count, usual=window[0][1], isUnusual=is_unusual or None, **times)
            elif is_unusual: self.add("unusual_hour", time, records, caller=caller, count=count, **times)
            while window and window[-1][1] <= count: window.pop()
            window.append((hour, count))
            before[hour % 24] = hour

    def end(self, states, served, end):
        """Returns all findings, sorted. `states` has the keys' last states, `served` the times from which they served, and `end` is the
        end of the period, or when the page was made, if earlier."""
        for node, seal in self.seals.items():
            is_stopped = self.running.get(node) is False
            if moment(end) - moment(seal["time"]) > self.DAY and (not is_stopped or seal["time"] >= self.since):
                self.add("seals_apart", seal["time"], node=node, since=seal["time"], until=end, what="stop" if is_stopped else None)
        for node, times in self.long.items():
            _, since, until = max(times, key=lambda interval: interval[0])
            sealed = (since["sequence"] + 1, until["sequence"]) if until["sequence"] > since["sequence"] else (None, None)
            self.add("seals_apart", since["time"], node=node, since=since["time"], until=until["time"], count=len(times),
                     first=sealed[0], last=sealed[1])
        for node, records in self.memory.items():
            first, last = records[0], records[-1]
            self.add("head_memory_lost", first["time"], records, node=node, since=first["time"], until=last["time"],
                     count=len(records), token=next((record["token"] for record in records if "token" in record), None))
        for record in self.decided:
            caller, request = caller_of(record), self.asked.get(record.get("approval"))
            if caller and request and caller_of(request) == caller:
                self.add("own_request", record["time"], [record], node=record["node"], caller=caller,
                         key=request.get("publicKeyHash"), what=act_of(request))
        for (caller, _), (records, payments, keys, _) in self.replays.items():
            if records.count < self.REPLAYS: continue
            opened, openers = sorted((self.openings[payment] for payment in payments if payment in self.openings),
                                     key=lambda one: one[:3]), {}
            for *_, record in opened:
                of_caller, of_keys = openers.setdefault(caller_of(record) or "–", (Records(), collections.Counter()))
                of_caller.add(record)
                if "publicKeyHash" in record: of_keys[record["publicKeyHash"]] += 1
            is_counted = len(payments) < self.PAYMENTS
            self.add("replays", records.since, records, caller=caller, since=records.since, until=records.until, count=records.count,
                     keys=most(keys, "key")[0] or None,
                     **(facts(payments=len(payments) or None, unopened=len(payments) - len(opened) or None,
                              openers=sorted(openers.items()) or None) if is_counted else {}))
        for caller, refused in self.callers.items():
            days = {}
            for hour, count in sorted(refused["hours"].items()):
                if count >= self.REFUSALS: days.setdefault(hour[:10], []).append((count, refused["of_hours"][hour]))
            for hours in days.values():
                records = Records().merge(hour for _, hour in hours)
                self.add("many_refusals", records.since, records, node=records.only_node, caller=caller, since=records.since, until=records.until, count=sum(count for count, _ in hours))
        known, own = {caller for caller, refused in self.callers.items() if refused["known"]}, collections.defaultdict(dict)
        for code, reason in sorted(self.reasons.items()):
            of = [caller for caller in reason["callers"] if caller in known]
            if len(of) == 1 < len(known): own[of[0]][code] = reason["callers"][of[0]]
        for caller, codes in own.items():
            if (count := sum(codes.values())) >= self.REFUSALS:
                self.add("own_refusals", self.callers[caller]["records"].since, caller=caller, count=count,
                         codes=[{"code": code, "count": number} for code, number in codes.items()])
        for node in list(self.outages): self.end_outage(node, None)
        for caller, hours in self.hours.items(): self.habits(caller, hours)
        begun = {}
        for (caller, _), time in self.firsts.items(): begun[caller] = min(begun.get(caller, time), time)
        def is_long(start, end): return moment(end) - moment(start) >= datetime.timedelta(hours=self.WEEKS)
        for (caller, key), time in self.firsts.items():
            if key and is_long(begun[caller], time) and (key not in served or is_long(served[key], time)):
                self.add("first_use", time, key=key, caller=caller)
        unknown = [refused for _, refused in self.sorted_callers() if not refused["known"]]
        names = {name: refused["count"] for name, refused in self.callers.items() if not refused["known"]}
        if unknown:
            records = Records().merge(each["records"] for each in unknown)
            self.add("unknown_callers", records.since, records, since=records.since, until=records.until, count=sum(each["count"] for each in unknown), callers=most(names)[0])
        for key, warning in self.warned.items():
            opened, latest = self.opened.get(key, (collections.Counter(), None))
            if warning["time"] < self.until:
                node = warning["records"].only_node
                self.add("key_attributes", warning["time"], warning["records"], node=node, key=key, token=warning["token"],
                         nodes=None if node else sorted(warning["records"].parts), until=latest, count=opened.total(), callers=most(opened)[0] or None,
                         warnings=warning["warnings"], usesBefore=self.opened_before[key])
        for key, steps in self.keys.items(): self.end_key(key, steps, states[key])
        for record in self.refused:
            key = record.get("publicKeyHash")
            if not any(name == "certificate_import" and time > record["time"] for time, name, *_ in self.keys.get(key, ())):
                self.add("certificate_refused", record["time"], [record], node=record["node"], key=key, caller=caller_of(record),
                         what=record.get("certificateSha256"))
        for node, values in self.values.items():
            for name, (value, record) in values.items():
                if name.startswith("tokens.") and name.endswith(".module") and "softhsm" in value.lower():
                    self.add("software_token", record["time"], [record], node=node, token=name[7:-7])
        for found in self.found:
            if found["kind"] == "records_lost": self.answers_elsewhere(found)
        return ordered(self.found)

    def end_key(self, key, steps, state):
        def place(record): return {"node": record[0], "sequence": record[1]}
        compromised = next((step for step in steps if step[1] == "compromised"), None)
        if compromised and self.is_in(compromised[0]):
            blocks, since = self.blocks[key], compromised[0]
            first = next((place for place, block in enumerate(blocks) if block["since"] >= since), len(blocks))
            while first and blocks[first - 1]["until"] == since: first, since = first - 1, blocks[first - 1]["since"]
            refused = sum((block["callers"] for block in blocks[first:]), collections.Counter())
            self.add("key_compromised", compromised[0], [place(compromised[2])], node=compromised[2][0], key=key,
                     caller=compromised[3], since=blocks[first].get("lastUse") if first < len(blocks) else None, until=since,
                     count=sum(refused.values()), callers=most(refused)[0] or None)
        late = self.late.get(key)
        if late:
            records = Records().merge(opened for _, opened in sorted(late["opened"].items(), key=lambda use: use[0] or ""))
            callers: collections.Counter = collections.Counter()
            for caller, opened in late["opened"].items(): callers[caller or "–"] += opened.count
            self.add("used_after_superseded", records.since, records, key=key, since=records.since, until=records.until,
                     count=records.count, cutOff=late["cutOff"], superseded=late["superseded"], callers=most(callers)[0])
        if state in ("compromised", "deactivated"):
            last = next(step for step in reversed(steps) if step[1].removeprefix("stated ") in STATES)
            self.add("key_not_destroyed", last[0], [place(last[2])], key=key)

    def single_replays(self):
        """Returns the replays that are in no finding."""
        def replay(record):
            opened_at, _, _, opening = self.openings.get(record.get("transactionId"), (None, None, None, None))
            return facts(time=record["time"], caller=caller_of(record), key=record.get("publicKeyHash"), record=name_of(record),
                         openedBy=opening and (caller_of(opening) or "–"), openedAt=opened_at, opening=opening and name_of(opening))
        single = [record for records, _, _, first in self.replays.values() if records.count < self.REPLAYS for record in first]
        return [replay(record) for record in sorted(single, key=lambda one: (one["time"], one["node"], one["sequence"]))]

    def sorted_callers(self): return sorted(self.callers.items(), key=lambda caller: (-caller[1]["count"], caller[0]))

    def refusals(self):
        def worst(hours): return min(hours.items(), key=lambda hour: (-hour[1], hour[0]))
        return [{"caller": name, "count": refused["count"], "first": refused["records"].since, "last": refused["records"].until,
                 "worstHour": worst(refused["hours"])[0] + ":00:00.000Z", "inWorstHour": worst(refused["hours"])[1]}
                for name, refused in self.sorted_callers()]

def length(since, until, is_most=False):
    """Returns the time between both in its two largest units; rounded up if it is the most."""
    milliseconds = abs(moment(until) - moment(since)) // datetime.timedelta(milliseconds=1)
    seconds = (milliseconds + (999 if is_most else 0)) // 1000
    units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)]
    if is_most:
        least = next((units[min(place + 1, 3)][1] for place, (_, size) in enumerate(units) if seconds >= size), 1)
        seconds = -(-seconds // least) * least
    place = next((place for place, (_, size) in enumerate(units) if seconds >= size), None)
    if place is None: return "0 s"
    (name, size), (after, less) = units[place], units[place + 1] if place < 3 else (None, seconds + 1)
    return f"{seconds // size} {name}" + (f" {seconds % size // less} {after}" if seconds % size >= less else "")

def named(keys, counted):
    """Returns keys and their numbers with their merchants."""
    merchants = {key["key"]: key.get("merchant") for key in counted["keys"]}
    return [facts(key=each["key"], merchant=merchants.get(each["key"]), count=each["count"]) for each in keys]

def end_of(finding):
    """Returns the last moment of a finding. A clock was set back by more, if a seal was made between both."""
    return finding["sealed"] if finding["kind"] == "clock_set_back" and "sealed" in finding else finding.get("until")

def is_forward(finding):
    """Returns false if a clock was set back by more than the time in which it may have been set forward. Then it was wrong before."""
    return "before" in finding and "ahead" in finding and (
        moment(finding["ahead"]) - moment(finding["before"]) >= moment(finding["since"]) - moment(end_of(finding)))

def downtime(finding):
    """Returns the longest time in which a node may not have served, and the time in which it surely did not; None for other findings."""
    kind, served, signed = finding["kind"], finding.get("servedFrom", finding["time"]), finding.get("signed", {})
    since, until, is_most, sure = finding.get("since"), finding.get("until"), True, (None, None)
    if kind == "records_lost": since, until, sure = signed.get("last", since), served, (until, served)
    elif kind == "ended_without_stop": since = finding.get("sealed", since)
    elif kind == "records_dropped": since = finding.get("since", finding.get("previous", {}).get("time"))
    elif kind == "hsm_unavailable":
        sure, after = (since, until), min((finding[name] for name in ("nextUse", "nextSeal") if name in finding), default=None)
        is_most = bool("before" in finding and after)
        if is_most: since, until = finding["before"], after
    elif kind == "clock_set_back" and finding.get("refused"):
        ahead, back = finding.get("refusedAhead"), finding.get("refusedBack")
        sure = ahead or back
        # Without an HSM token's log, nothing shows how long after the last request that a clock refused while ahead the first one after was.
        if ahead and back:
            least = moment(back[0]) - (moment(ahead[1]) - moment(ahead[0]))
            sure = signed.get("since") or least.isoformat(timespec="milliseconds") + "Z", back[1]
        since, until = finding["before"] if is_forward(finding) else None, finding["nextUse"]
    else: return None
    return facts(kind=kind, node=finding["node"], time=finding["time"], started=finding.get("until") if kind == "records_lost" else None,
                 since=since, until=until, length=length(since, until, is_most=True) if is_most and since else None,
                 least=length(*sure) if all(sure) else "0 s", count=finding.get("count"), refused=finding.get("refused"),
                 forward=is_forward(finding) or None, sealed=finding.get("sealed") if kind == "records_dropped" else None,
                 signed=bool(signed) or None, record=finding["records"].named[0])

def described(finding, counted):
    """Returns a finding as the report has it."""
    kind, members = finding["kind"], {name: value for name, value in finding.items() if name != "records"}
    for name in ("servedFrom", "refusedAhead", "refusedBack", "usesBefore"): members.pop(name, None)
    end = end_of(finding)
    if "since" in finding and end and (between := length(finding["since"], end)) != "0 s": members["length"] = between
    if is_forward(finding): members["forward"] = length(finding["before"], finding["ahead"], is_most=True)
    if finding.get("count") == 1: members["one"] = True
    if kind in ("records_lost", "records_dropped") and finding["count"] > 0: members["loss"] = True
    if "keys" in finding:
        members["keys"] = named(finding["keys"], counted)
    if kind == "key_not_destroyed": members["state"] = next(key["state"] for key in counted["keys"] if key["key"] == finding["key"])
    if kind == "many_refusals": members["least"] = Findings.REFUSALS
    if "openers" in finding:
        members["openers"] = [{
            "caller": caller, "opened": opened.facts(f"first decrypt, ok, of replayed payments, by {caller}"),
            "keys": named(most(keys, "key")[0], counted)}
            for caller, (opened, keys) in finding["openers"]]
    for of, other, member, name in (("unrecorded_uses", "key_attributes", "time", "warned"), ("key_attributes", "unrecorded_uses", "since", "unrecorded")):
        if kind == of:
            members.update(facts(**{name: next((found[member] for found in counted["findings"] if (found["kind"], found.get("key")) == (
                other, finding["key"])), None)}))
    if kind == "key_attributes":
        (before, time), first = (finding["usesBefore"], finding["time"]), members.get("unrecorded", "9")
        members["dayBefore"] = len(before)
        if first < time and moment(time) - moment(first) <= Findings.DAY:
            members["sinceUnrecorded"] = finding["count"] + sum(opened >= first for opened in before)
    return {**members, **({"records": finding["records"].figure(f"finding {kind}")} if "records" in finding else {})}
