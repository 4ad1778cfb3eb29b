"""The HSM tokens' statements about themselves and their keys in an export, for recount-report."""
from report_records import facts, name_of
from report_template import canonical

class HSMTokens:
    """The last statements of each node's HSM tokens: the records token_attributes and key_attributes."""
    MEMBERS = {"manufacturer": "manufacturer", "model": "model", "serial": "serialNumber", "hardware": "hardwareVersion",
               "firmware": "firmwareVersion", "library": "library", "tierEC": "tierECv1", "tierRSA": "tierRSAv1",
               "shortcomings": "shortcomings"}
    SHOWN = ("algorithm", "bits", "sensitive", "extractable", "alwaysSensitive", "neverExtractable", "local", "uses")
    # What a private key must have. Of an imported key, an HSM token rightly says no to the last two.
    WANTED = {"sensitive": ("CKA_SENSITIVE", True), "extractable": ("CKA_EXTRACTABLE", False), "private": ("CKA_PRIVATE", True),
              "stored": ("CKA_TOKEN", True), "alwaysSensitive": ("CKA_ALWAYS_SENSITIVE", True),
              "neverExtractable": ("CKA_NEVER_EXTRACTABLE", True)}

    def __init__(self): self.tokens, self.keys = {}, {}

    def take(self, record):
        if "token" not in record: return
        source = record["token"], record["node"]
        if record["event"] == "token_attributes": self.tokens[source] = record
        if record["event"] == "key_attributes": self.keys.setdefault(record["publicKeyHash"], {})[source] = record

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

    def attributes(self, book, keys):
        states, rows = {key["key"]: key["state"] for key in keys}, {}
        for name, sources in sorted(self.keys.items()):
            if states.get(name) == "destroyed": continue
            for (token, _), record in sorted(sources.items()):
                for key in record["keys"]:
                    came = book.came(name)
                    warnings = list(self.warnings(key, len(record["keys"]), came, book.known.get(name)))
                    row = facts(key=name, token=token, **{name: key.get(name) for name in self.SHOWN}, came=came, warnings=warnings)
                    rows.setdefault(canonical(row), (row, []))[1].append(record)
        def whole(row, records):
            return {**row, "time": min(record["time"] for record in records), "records": [name_of(record) for record in records]}
        shown = [whole(*row) for row in rows.values()]
        warned = [row for row in shown if row["warnings"]]
        return facts(warned=len(warned) or None, described=len(shown), rows=warned + [row for row in shown if not row["warnings"]],
                     unread=[key["key"] for key in keys if key["state"] != "destroyed" and key["key"] not in self.keys])
