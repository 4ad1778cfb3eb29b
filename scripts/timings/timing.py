"""Measures whether times tell an attacker what must stay secret. An attacker asks with inputs of two classes, A and B, and compares
the times of the answers. The times are those of the real programs at their sockets, and of functions that compare secrets.

Every round asks once with each class, in an order that --seed determines. A pair differs if both Welch's t and a permutation test
find it at a level of 1 % for all pairs of the run together (Bonferroni). d is Cohen's. The difference is that of the medians in
microseconds, with a 95 % interval by the bootstrap. `detectable` is the difference of means that Welch's t finds in four of five cases.

Two controls are in every measurement. `again` has the inputs of another class and must not differ from it. `delayed` has them too,
with answers that come later by a part of the times' spread, and must differ. Otherwise the run fails. No verdict depends on the
machine's speed. A pair is `secret` if an attacker must not tell its classes apart. The run fails if one differs, except with --short.
Timing.md says why the others are public.
"""
import argparse
import base64
import hashlib
import json
import os
import pathlib
import random
import shutil
import sqlite3
import sys
import time

import deployment
import differences
import load
import service
import shop

LEVEL = 0.01
EC = [("EC-tag-first", "EC-tag-last", "secret"), ("EC-secret-zero", "EC-secret-other", "secret"),
      ("EC-valid", "EC-tag-last", "public"), ("EC-point", "EC-tag-last", "public"), ("EC-unknown", "EC-tag-last", "public")]
RSA = [("RSA-octet", "RSA-tag-last", "secret"), ("RSA-hash", "RSA-tag-last", "secret"), ("RSA-size", "RSA-tag-last", "secret"),
       ("RSA-octet", "RSA-hash", "secret"), ("RSA-tag-first", "RSA-tag-last", "secret"), ("RSA-valid", "RSA-tag-last", "public")]


class UnwrappingToken(deployment.NSSToken):
    """An NSS softoken that cannot unwrap keys, so that the worker decrypts the wrapped key by RSA-OAEP."""

    def __init__(self, name, place):
        super().__init__(name, place)
        script = pathlib.Path(place, f"{name}.script").absolute()
        script.write_text(f"module {self.module}\nfault C_UnwrapKey always return=0x54\n")
        self.module = str(deployment.programs() / "libScriptedPKCS11.so")
        self.environment = {"SCRIPTED_PKCS11": str(script)}


class Measured:
    """The times and answers of each class in one measurement. control: the class whose controls it has."""

    def __init__(self, name, pairs, control, title=""):
        self.name, self.title, self.times, self.answers = name, title, {}, {}
        self.pairs = [*pairs, (f"{control}-again", control, "again"), (f"{control}-delayed", control, "planted")]


def probe(options, pairs, controls, *arguments, name, environment=None, times=1):
    """Measures with timing-probe, a program of Tests/Measuring. controls: the control of each of its parts, with the pairs."""
    command = ["timing-probe", *arguments, "--rounds", options.rounds * times, "--seed", options.seed]
    lines = service.run(*command, env={**os.environ, **(environment or {})}).decode().splitlines()
    measured = Measured(name, pairs, controls[0])
    for control in controls[1:]:
        measured.pairs += Measured(name, [], control).pairs
    for kind, one, *rest in map(str.split, lines):
        if kind == "times":
            measured.times[one] = list(map(int, rest))
        elif kind == "answers":
            measured.answers.setdefault(one, {})[rest[0]] = int(rest[1])
        else:
            measured.title = f"EC_v1 tier {one}, RSA_v1 tier {rest[0]}"
    return [measured]


def worker(options, kind, name, algorithms):
    token = kind(name, ".")
    pairs = (EC if "EC" in algorithms else []) + (RSA if "RSA" in algorithms else [])
    return probe(options, pairs, [f"{algorithm}-tag-last" for algorithm in algorithms], "worker", "--program",
                 shutil.which("paytokend-hsm"), "--module", token.module, "--uri", f"pkcs11:token={name}", "--pin-file", token.pin,
                 *(["--init-args", token.arguments] if token.arguments else []),
                 *[word for algorithm in algorithms for word in ("--algorithm", algorithm)], name=name,
                 environment=token.environment)


def over_http(options, name, socket, classes, pairs, control):
    """Measures requests on one connection, as timing-probe does it with frames."""
    measured, chance, warm_up = Measured(name, pairs, control), random.Random(options.seed), min(48, options.rounds // 2)
    lists = {**classes, f"{control}-again": classes[control], f"{control}-delayed": classes[control]}
    connection, order, delay = load.Connection(socket), list(lists), 0
    measured.times, measured.answers = {one: [] for one in lists}, {one: {} for one in lists}
    places = dict.fromkeys(lists, 0)
    # The controls begin at other requests than their class.
    places[f"{control}-again"], places[f"{control}-delayed"] = len(classes[control]) // 3, 2 * len(classes[control]) // 3
    for _ in range(warm_up + options.rounds):
        chance.shuffle(order)
        recent = sorted(measured.times[control][-48:])
        if len(recent) >= 8:
            spread = (recent[len(recent) * 9 // 10] - recent[len(recent) // 10]) / 2.563
            delay = int(spread * (16 + 400 / options.rounds) * (2 / options.rounds) ** 0.5)
        for one in order:
            request = lists[one][places[one] % len(lists[one])]
            places[one] += 1
            began = time.perf_counter_ns()
            connection.send(None, request)
            while (answer := connection.receive()) is None:
                pass
            if one.endswith("-delayed"):
                until = time.perf_counter_ns() + delay
                while time.perf_counter_ns() < until:
                    pass
            measured.times[one].append(time.perf_counter_ns() - began)
            code = json.loads(answer[1]).get("code", "ok") if answer[1] else ""
            measured.answers[one][f"{answer[0]} {code}"] = measured.answers[one].get(f"{answer[0]} {code}", 0) + 1
            if answer[2]:
                connection = load.Connection(socket)
    for times in measured.times.values():
        del times[:warm_up]
    return measured


def bearer_keys(options, there):
    chance = random.Random(options.seed)
    shopping = shop.Shop(there.daemon, chance)
    right, count = shopping.key.decode(), min(options.rounds, 24)
    first, letters = len("ptgw_"), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

    def other(letter):
        return chance.choice(letters.replace(letter, ""))

    def random_key():
        return right[:first] + base64.urlsafe_b64encode(chance.randbytes(32)).decode().rstrip("=")

    def resembling(digits):
        """Returns a key whose SHA-256 begins with as many digits of the right one."""
        while True:
            key = random_key()
            if hashlib.sha256(key.encode()).hexdigest()[:digits] == shopping.client.key_sha256[:digits]:
                return key
    keys = {"first": [right[:first] + other(right[first]) + right[first + 1:] for _ in range(count)],
            "last": [right[:-1] + other(right[-1]) for _ in range(count)],
            "other-hash": [random_key() for _ in range(count)], "near-hash": [resembling(4) for _ in range(count)],
            "short": [random_key()[:-20] for _ in range(count)], "known": [right]}
    classes = {one: [load.get(f"/payments/apple-pay/{chance.randbytes(32).hex()}", key.encode()) for key in those]
               for one, those in keys.items()}
    pairs = [("first", "last", "secret"), ("near-hash", "other-hash", "secret"), ("short", "last", "public"),
             ("known", "last", "public")]
    with shopping.simulator.started(), shopping.gateway.started():
        return over_http(options, "gateway", shopping.socket, classes, pairs, "last")


def approvals(options, there):
    """Measures decisions about approvals. The existing approval is already decided, so that every decision is refused."""
    chance = random.Random(options.seed)
    known, now = chance.randbytes(8), int(time.time() * 1000)
    there.daemon.stop()
    with sqlite3.connect(f"{there.place}/ledger.sqlite", timeout=60) as ledger:
        ledger.execute("INSERT INTO approval (identifier, operation, parameters, requester, requester_name, requester_uid, requester_gid,"
                       " requester_groups, reason, requested_at, expires_at, status, node) VALUES (?, 'key_resume', zeroblob(32), 1, 'a',"
                       " 1, 1, '', 'timing', ?, ?, 'rejected', 'a')", (known, now, now + 86_400_000))
    ledger.close()
    there.daemon.start()
    body = json.dumps({"decision": "reject", "reason": "timing"}).encode()
    identifiers = {"near": [known[:7] + bytes([known[7] ^ number]) for number in range(1, 25)],
                   "far": [chance.randbytes(8) for _ in range(24)], "existing": [known]}
    classes = {one: [load.post(b"/v1/approvals/" + identifier.hex().encode(), body) for identifier in those]
               for one, those in identifiers.items()}
    return over_http(options, "approvals", there.daemon.admin, classes,
                     [("near", "far", "secret"), ("existing", "far", "public")], "far")


def payment_tokens(options, there):
    """Measures refused payment tokens that the simulated Apple has signed: the path that an attacker without the frames has."""
    faults = {"EC-tag": ("ec", "bad-tag"), "EC-point": ("ec", "point-off-curve"), "EC-unknown": ("ec", "unknown-public-key-hash"),
              "RSA-tag": ("rsa", "bad-tag"), "RSA-octet": ("rsa", "wrapped-key-with-first-octet"),
              "RSA-hash": ("rsa", "wrapped-key-with-sha1"), "RSA-size": ("rsa", "wrapped-key-of-32-bytes")}
    count = 3 if options.short else min(options.rounds, 200)
    classes = {one: [load.decrypt(token) for token in service.mint(count, "--deviation", fault, certificate=f"authority/{kind}.pem")]
               for one, (kind, fault) in faults.items()}
    pairs = [(f"RSA-{one}", "RSA-tag", "secret") for one in ("octet", "hash", "size")]
    pairs += [(f"EC-{one}", "EC-tag", "public") for one in ("point", "unknown")]
    return over_http(options, "decrypt", there.socket, classes, pairs, "RSA-tag")


FUNCTIONS = [("gcm-first", "gcm-last", "secret"), ("oaep-octet", "oaep-hash", "secret"), ("oaep-separator", "oaep-hash", "secret"),
             ("oaep-valid", "oaep-hash", "secret"), ("digest-first", "digest-last", "secret"), ("hmac-first", "hmac-last", "secret"),
             ("planted-first", "planted-last", "planted")]
NAMES = {
    # Calls are short, and their differences small.
    "functions": lambda options: probe(options, FUNCTIONS, ["gcm-last"], "functions", name="functions", times=5),
    "softhsm": lambda options: worker(options, deployment.SoftHSMToken, "softhsm", ["EC", "RSA"]),
    "one-step": lambda options: worker(options, deployment.OneStepToken, "one-step", ["EC"]),
    "nss": lambda options: worker(options, deployment.NSSToken, "nss", ["EC", "RSA"]),
    "nss-oaep": lambda options: worker(options, UnwrappingToken, "nss-oaep", ["RSA"])}
# The measurements with one daemon on a SoftHSM token.
SERVED = {"gateway": bearer_keys, "approvals": approvals, "decrypt": payment_tokens}


def judge(options, measured):
    """Returns the rows of all pairs, and what is wrong."""
    rows, wrong = [], []
    level = LEVEL / sum(len(each.pairs) for each in measured)
    for each in measured:
        for a, b, kind in each.pairs:
            row = differences.compare(each.times[a], each.times[b], level, options.seed)
            row.update(name=each.name, title=each.title, a=a, b=b, kind=kind, answers=[each.answers[a], each.answers[b]])
            rows.append(row)
            where = f"{each.name}: {a} and {b}"
            if kind == "planted" and not row["found"]:
                wrong.append(f"{where}: the planted difference was not found")
            if kind in ("secret", "again") and (set(each.answers[a]) != set(each.answers[b]) or len(each.answers[a]) != 1):
                wrong.append(f"{where} have different answers: {row['answers']}")
            if row["found"] and (kind == "again" or kind == "secret" and not options.short):
                wrong.append(f"{where}: the times differ by {row['difference_us']:.2f} µs")
    return rows, wrong


def table(rows):
    for row in rows:
        digits = 3 if row["median_us"] < 20 else 1
        difference, low, high = (f"{row[name]:+.{digits}f}" for name in ("difference_us", "low_us", "high_us"))
        print(f"| `{row['name']}` | {row['a']} | {row['b']} | {row['kind']} | {row['median_us']:.1f} | {difference} ({low} to {high}) | "
              f"{row['cohen_d']:+.2f} | {row['t']:+.1f} | {row['p_permutation']:.4f} | {row['detectable_us']:.{digits}f} | "
              f"{'differs' if row['found'] else 'same'} |")


def main():
    parser = argparse.ArgumentParser(prog="scripts/timing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *NAMES, *SERVED], help=f"of {', '.join([*NAMES, *SERVED])} (all)")
    parser.add_argument("--rounds", type=int, help="(2000; 24 with --short)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the order and the permutations")
    parser.add_argument("--output", choices=["text", "json"], default="text")
    parser.add_argument("--check", action="store_true", help="only checks arguments and statistics")
    service.add_options(parser)
    options = parser.parse_args()
    options.rounds = options.rounds or (24 if options.short else 2000)
    if options.check:
        differences.check()
        return 0
    said = sys.stderr if options.output == "json" else sys.stdout
    print(f"timing: {options.rounds} rounds, --seed {options.seed}", file=said, flush=True)
    deployment.make_merchants()
    usual = [name for name in [*NAMES, *SERVED] if not options.short or name not in ("one-step", "nss-oaep")]
    measured, names = [], options.names or usual
    for name in [name for name in names if name in NAMES]:
        if name.startswith("nss") and not deployment.NSSToken.is_installed():
            print(f"{name} skipped: NSS is not installed (libnss3, libnss3-tools)", file=said, flush=True)
            continue
        measured += NAMES[name](options)
        print(f"{name} measured {measured[-1].title}", file=said, flush=True)
    if set(names) & set(SERVED):
        with deployment.Deployment("served", {"timing": deployment.SoftHSMToken}) as there:
            measured += [SERVED[name](options, there) for name in names if name in SERVED]
    rows, wrong = judge(options, measured)
    if options.output == "json":
        print(json.dumps({"rounds": options.rounds, "seed": options.seed, "rows": rows, "wrong": wrong}, indent=1))
        return 1 if wrong else 0
    print("| | A | B | | median of B, µs | difference, µs | d | Welch's t | p by permutation | detectable, µs | |\n" + "|---" * 11 + "|")
    table(rows)
    return service.verdict(wrong)


if __name__ == "__main__":
    with service.cleaning("timing"):
        sys.exit(main())
