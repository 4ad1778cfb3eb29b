"""The HSM tokens' statements about themselves and their keys in an export, for recount-report."""
from report_records import facts, name_of, Records
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
