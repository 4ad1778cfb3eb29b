"""Decrypts the same payment tokens of both versions in four ways: with a daemon on SoftHSM (tier C), on NSS softoken (B and A)
and on the tests' scripted module (A for EC_v1), and in software alone (token-forge open). Each result must equal the minted
content byte for byte. All ways must refuse broken payment tokens with decryption_failed.
"""
import collections
import json
import random
import time

import deployment
import load
import outcome
import service

BROKEN = {"ec": ["bad-tag", "point-off-curve", "other-merchant-identifier"],
          "rsa": ["bad-tag", "wrapped-key-with-sha1", "wrapped-key-with-label", "wrapped-key-of-32-bytes"]}
PATHS = [("SoftHSM", deployment.SoftHSMToken, {"ec": "C", "rsa": "C"}),
         ("NSS softoken", deployment.NSSToken, {"ec": "B", "rsa": "A"}),
         ("scripted module", deployment.OneStepToken, {"ec": "A", "rsa": "C"})]

Case = collections.namedtuple("Case", "name kind token plaintext")


def payloads(count, chance):
    """Yields JSON objects of many lengths and spellings, each on one line."""
    for number in range(count):
        text = "".join(chance.choice("abc é€\U0001F4B3\"\\/\t") for _ in range(chance.randrange(0, 400)))
        members = {"n": number, "text": text, "amount": chance.choice([1099, 1099.0, 1e21, -0.0]), "nested": {"a": [{}]}}
        yield json.dumps(members, ensure_ascii=chance.random() < 0.5,
                         separators=chance.choice([(",", ":"), (", ", ": "), (" ,\t", " : ")])).encode()


def cases(count, chance):
    """Yields payment tokens: one in eight is RSA_v1, and one more in ten is broken."""
    made = []
    for kind, share in (("ec", count - count // 8), ("rsa", count // 8)):
        plaintexts = list(payloads(share, chance))
        made += [Case(f"{kind} {number}", kind, token, plaintext)
                 for number, (token, plaintext) in enumerate(zip(outcome.lines(plaintexts, kind), plaintexts))]
        for deviation in BROKEN[kind]:
            each = max(share // 10 // len(BROKEN[kind]), 1)
            made += [Case(f"{kind} {deviation}", kind, token, None) for token in service.mint(
                each, "--deviation", deviation, certificate=f"authority/{kind}.pem")]
    chance.shuffle(made)
    return made


class Row:
    """The results of one way of decryption."""

    def __init__(self, name):
        self.name, self.began = name, time.monotonic()
        self.same, self.refused, self.tiers, self.wrong = collections.Counter(), 0, collections.Counter(), []

    def take(self, case, plaintext):
        """Compares a result with the case. plaintext: the result; None for a refusal."""
        if plaintext != case.plaintext:
            self.wrong.append(f"{self.name}: {case.name}: " + ("opened, and must not" if case.plaintext is None else
                              "not opened" if plaintext is None else "other bytes came out"))
        elif plaintext is None:
            self.refused += 1
        else:
            self.same[case.kind] += 1

    def show(self):
        tiers = ", ".join(f"{kind} {tier}" for kind, tier in sorted(self.tiers)) or "none"
        print(f"{self.name:17}{self.same['ec']:8}{self.same['rsa']:8}{self.refused:9}{len(self.wrong):11}"
              f"{time.monotonic() - self.began:9.1f} s   {tiers}", flush=True)


def software(all_cases):
    row = Row("software")
    for kind in ("ec", "rsa"):
        own = [case for case in all_cases if case.kind == kind]
        output = service.run("token-forge", "open", "--certificate", f"authority/{kind}.pem", "--private-key",
                             f"authority/{kind}.key.pem", input=b"\n".join(case.token.strip() for case in own) + b"\n")
        opened = output.split(b"\n")[:-1]
        if len(opened) != len(own):
            raise service.Failed(f"token-forge open gave {len(opened)} lines for {len(own)} tokens")
        for case, plaintext in zip(own, opened):
            row.take(case, plaintext or None)
    return row


def whole(name, token, tiers, all_cases, place):
    row = Row(name)

    def answered(case, status, body, began, ended):
        if status == 200:
            row.take(case, outcome.opened(body))
            tier = json.loads(body)["protection"]
            row.tiers[case.kind, tier] += 1
            if tier != tiers[case.kind]:
                row.wrong.append(f"{name}: {case.name}: opened at tier {tier}")
        elif status == 422 and json.loads(body).get("code") == "decryption_failed":
            row.take(case, None)
        else:
            row.wrong.append(f"{name}: {case.name}: answered {status} {body[:200]}")
    with deployment.Deployment(place, {"a": token}, call_timeout="10s") as there:
        load.drive(there.socket, 8, [(case, load.decrypt(case.token)) for case in all_cases], answered, limit=service.GUARD)
        row.wrong += there.daemon.stop()
    return row


def main(parser):
    options = service.parse(parser, seed="of the payloads", count=(4000, 160, "good payment tokens"))
    deployment.make_merchants()
    all_cases = cases(options.count, random.Random(options.seed))
    broken = sum(case.plaintext is None for case in all_cases)
    print(f"{len(all_cases) - broken} good payment tokens and {broken} broken ones, --seed {options.seed}")
    print(f"{'way':17}{'EC same':>8}{'RSA':>8}{'refused':>9}{'different':>11}{'took':>11}   tiers")
    rows = [software(all_cases)]
    rows[0].show()
    for number, (name, token, tiers) in enumerate(PATHS):
        if not token.is_installed():
            print(f"{name:17} skipped: it is not installed")
            continue
        rows.append(whole(name, token, tiers, all_cases, f"d{number}"))
        rows[-1].show()
    wrong = [fault for row in rows for fault in row.wrong]
    for row in rows:
        if sum(row.same.values()) + row.refused + len(row.wrong) < len(all_cases):
            wrong.append(f"{row.name}: not all tokens were answered")
    return wrong
