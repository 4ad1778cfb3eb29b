"""Measures merchant sessions a second through paytoken-gateway, from 1, 8 and 32 clients, with a server that simulates Apple. The
TLS key is first in the HSM token, and then in a file. For comparison, the soak measures the HSM token's bare RSA signatures and
those through paytokend (POST /v1/tls-signatures). If the server ends each connection, each session needs a handshake and a
signature. If the server keeps connections open, most sessions need neither.

Then it measures the effect of sessions on decryption. Payment tokens are decrypted at a steady rate alone, with sessions whose
key is in a file (which use the machine but not the HSM token), with sessions whose key is in the HSM token, and with 32 callers
that request only signatures. It does so first on SoftHSM, where everything shares the machine's cores. The second HSM token takes
20 ms for each operation without using the cores, like a real HSM, so only its sessions are shared.

Everything runs on this machine. While decryption is measured, the server and the sessions' load have the lowest priority (nice
19), because in practice they run on other machines. The soak fails if an answer is not 200, or if the server has counted fewer
answers or handshakes than the sessions need. Except with --short, it also fails if signatures more than double the p99 of
decryption on the HSM token that takes 20 ms.
"""
import base64
import concurrent.futures
import contextlib
import json
import os
import pathlib
import statistics

import deployment
import load
import raw
import service

MERCHANTS = ["merchant.com.example.first", "merchant.com.example.second"]
CLIENTS = (1, 8, 32)
# The words before commands that would run on other machines in practice.
ELSEWHERE = ("nice", "-n", "19")
# The number of the gateway's callers, each of which may have sixteen sessions under way.
CALLERS = 4


class Peer(service.Answering):
    """The server that simulates Apple. A context manager. ends: true to end each connection after its answer."""

    def __init__(self, ends, priority=()):
        super().__init__(*priority, "./session-peer", "apple.pem", "apple.key", "clients.pem", "close" if ends else "keep")
        self.port = int(self.line()[0])

    def counts(self):
        """Returns the handshakes and answers so far."""
        return tuple(map(int, self.ask()))


class Gateway(service.Program):
    """A paytoken-gateway and its callers' requests."""

    def __init__(self, name, peer, paytokend, keys, in_files):
        super().__init__(f"{name}.sock", *(("paytoken-gateway-file-key", f"{name}.yaml", "identities") if in_files
                                           else ("paytoken-gateway", "--config", f"{name}.yaml")), log=f"{name}.log")
        pathlib.Path(f"{name}.yaml").write_text(
            f"listener: {{ address: 'unix:{self.socket}' }}\nadmin: {{ socket: {name}-admin.sock }}\n"
            f"paytokend: {{ socket: {paytokend} }}\n"
            "limits: { requests_per_second: 100000, burst: 100000, max_connections: 1024, max_connections_per_address: 1024 }\n"
            "clients:\n" + "".join(
                f"  - {{ name: shop-{number}, key_sha256: '{key['key_sha256']}', merchants: ['*'], operations: [session], "
                "domains: [shop.example] }\n" for number, key in enumerate(keys)) +
            f"sessions: {{ test_server: '127.0.0.1:{peer.port}', trust: [apple.pem] }}\nlog: {{ level: warning }}\n")
        self.requests = [
            load.post(b"/merchant-sessions", json.dumps({
                "merchantIdentifier": MERCHANTS[number % len(MERCHANTS)], "displayName": "Shop", "initiative": "web",
                "initiativeContext": "shop.example"}).encode(), key["key"].encode()) for number, key in enumerate(keys)]


def make_identities(there):
    """Makes a key for each merchant in the HSM token, and one in a file. Returns the public key hashes of those in the HSM
    token."""
    os.makedirs("identities", exist_ok=True)
    daemon, hashes = there.daemon, []
    for merchant in MERCHANTS:
        daemon.ctl("key", "generate", "--merchant-identifier", merchant, "--use", "identity")
        keys = json.loads(daemon.ctl("key", "list", "--output", "json"))
        hashes += [key["publicKeyHash"] for key in keys if key["use"] == "identity" and key["merchantIdentifier"] == merchant]
        daemon.ctl("csr", "create", hashes[-1], "--out", f"{there.place}/{merchant}.csr")
        certify(merchant, f"{there.place}/{merchant}.csr", f"{there.place}/{merchant}.cer")
        daemon.ctl("certificate", "import", f"{there.place}/{merchant}.cer")
        key, request, certificate = (f"identities/{merchant}.{suffix}" for suffix in ("key.pem", "csr", "pem"))
        service.run("openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=file", "-keyout", key, "-out",
                    request)
        certify(merchant, request, f"{there.place}/{merchant}-file.cer")
        service.run("openssl", "x509", "-inform", "DER", "-in", f"{there.place}/{merchant}-file.cer", "-out", certificate)
    service.run("openssl", "x509", "-inform", "DER", "-in", f"{there.place}/{MERCHANTS[0]}.cer", "-out", "identity.pem")
    return hashes


def certify(merchant, request, certificate):
    service.run("token-forge", "certify", "authority", "--csr", request, "--kind", "merchant-identity",
                "--merchant-identifier", merchant, "--out", certificate)


def signatures(hashes):
    """Returns requests for signatures of a TLS 1.3 handshake (RFC 8446 §4.4.3)."""
    covered = b" " * 64 + b"TLS 1.3, client CertificateVerify\0"
    return [load.post(b"/v1/tls-signatures", json.dumps({
        "publicKeyHash": name, "algorithm": "rsa_pss_rsae_sha256",
        "input": base64.b64encode(covered + os.urandom(32)).decode()}).encode()) for name in hashes for _ in range(50)]


def generate(title, socket, requests, clients, seconds, wrong, rate=None, count=60_000, priority=()):
    """Sends the same requests repeatedly. Returns figures."""
    many = (requests * (count // len(requests) + 1))[:count]
    said = load.generate(socket, many, clients, seconds, rate, priority)
    answered = said["statuses"].pop("200", 0)
    wrong += [f"{title}: {number} requests were answered {status}" for status, number in said["statuses"].items()]
    if said["lost"]:
        wrong.append(f"{title}: {said['lost']} requests were not answered")
    if not answered:
        raise service.Failed(f"{title}: nothing was answered 200: {'; '.join(wrong)}")
    return answered, answered / said["seconds"], said["latency"]


def throughput(rounds, seconds, wrong, keys):
    with deployment.Deployment("here", {"a": deployment.SoftHSMToken}, merchants=(), call_timeout="10s",
                               listener={"max_connections_per_uid": 1024}) as there:
        hashes = make_identities(there)
        results = {}

        def take(name, clients, figures):
            results.setdefault((name, clients), []).append((figures[1], figures[2]["p50"], figures[2]["p99"]))
        with contextlib.ExitStack() as stack:
            token = there.tokens[0]
            bare = stack.enter_context(raw.RawLoop(token, "identity.pem"))
            ways = []
            for ends in (True, False):
                peer = stack.enter_context(Peer(ends))
                for in_files in (False, True):
                    name = f"{'file' if in_files else 'token'}, {'a handshake each' if ends else 'connections kept'}"
                    gateway = stack.enter_context(Gateway(name.replace(", ", "-").replace(" ", "-"), peer, there.socket, keys,
                                                          in_files).started())
                    ways.append((name, peer, gateway, ends))
            for _, _, gateway, _ in ways:
                # The first sessions fill the gateway's caches of TLS contexts and identities.
                generate("at first", gateway.socket, gateway.requests, 2, 10, wrong, count=20)
            loops = []
            for _ in range(rounds):
                loops.append(bare.measure(2, seconds))
                for clients in CLIENTS:
                    take("signatures", clients, generate("signatures", there.socket, signatures(hashes), clients, seconds, wrong))
                    for name, peer, gateway, ends in ways:
                        shaken, answered = peer.counts()
                        figures = generate(name, gateway.socket, gateway.requests, clients, seconds, wrong)
                        take(name, clients, figures)
                        shaken, answered = (after - before for before, after in zip((shaken, answered), peer.counts()))
                        # A persistent connection serves many sessions, but each measurement begins with some new ones.
                        if answered != figures[0] or (shaken < answered if ends else shaken > answered / 4 + 2 * clients):
                            wrong.append(f"{name}: {figures[0]} sessions, of which the server knows {answered}, on {shaken} "
                                         "connections")
    loop = statistics.median(figures.rate for figures in loops)
    print(f"bare RSA signatures of the token, 2 sessions: {loop:.0f}/s, p50 "
          f"{statistics.median(figures.p50 for figures in loops) / 1000:.2f} ms")
    print(f"{'':34}{'clients':>8}{'a second':>10}{'of bare':>9}{'p50':>11}{'p99':>11}   of the same with a key in a file")
    middle = {way: [statistics.median(column) for column in zip(*turns)] for way, turns in results.items()}
    for (name, clients), (rate, p50, p99) in middle.items():
        other = middle.get((name.replace("token", "file"), clients)) if name.startswith("token") else None
        print(f"{name:34}{clients:8}{rate:10.0f}{rate / loop:9.2f}{p50 / 1000:8.2f} ms{p99 / 1000:8.2f} ms"
              + (f"   {rate / other[0]:.2f} of the rate, p50 {p50 / other[1]:.2f}, p99 {p99 / other[2]:.2f}" if other else ""))


def decrypt_with(title, kind, delay, sessions, rounds, seconds, wrong, keys):
    """Measures the effect of sessions on decryption on one kind of HSM token. Returns p99 with each load, divided by p99 alone."""
    with (deployment.Deployment(title.replace(" ", "-"), {"a": kind}, merchants=("ec",), sessions=sessions, call_timeout="10s",
                                listener={"max_connections": 1024, "max_connections_per_uid": 1024}) as there,
          service.Minter(certificate="authority/ec.pem") as tokens, Peer(True, ELSEWHERE) as peer, contextlib.ExitStack() as stack):
        hashes = make_identities(there)
        inside, outside = (stack.enter_context(Gateway(f"{title.split()[0]}-{name}", peer, there.socket, keys, in_files).started())
                           for name, in_files in (("token", False), ("file", True)))
        for gateway in (inside, outside):
            generate("at first", gateway.socket, gateway.requests, 2, 10, wrong, count=20)
        if delay:
            there.tokens[0].play(f"fault C_DeriveKey always delay={delay}", f"fault C_Sign always delay={delay}")

        def mint(count):
            return [load.decrypt(token, b"soak") for token in tokens.take(count)]

        def decrypt(requests, clients, rate=None):
            return generate("decryption", there.socket, requests, clients, 60, wrong, rate, len(requests))
        # Measures the maximum rate, of which the rest uses half.
        most = decrypt(mint(1000 if seconds > 1 else 300), 16 if delay else 8)[1]
        rate = most / (2 if delay else 4)
        loads = {"alone": None, "with sessions, key in a file": (outside.socket, outside.requests),
                 "with sessions, key in the token": (inside.socket, inside.requests),
                 "with signatures": (there.socket, signatures(hashes))}
        results = {name: [] for name in loads}
        for turn in range(rounds):
            # The order rotates, so that no load is always the first.
            for name, pressure in [*loads.items()][turn % len(loads):] + [*loads.items()][:turn % len(loads)]:
                requests = mint(int(rate * seconds))
                with concurrent.futures.ThreadPoolExecutor() as pool:
                    under_way = None
                    if pressure:
                        under_way = pool.submit(generate, name, *pressure, 32, seconds + 2, wrong, count=20_000,
                                                priority=ELSEWHERE)
                    _, _, latency = decrypt(requests, 32, rate)
                    if under_way and under_way.done():
                        wrong.append(f"{title}, {name}: the load ended before the decryptions")
                    results[name].append((latency["p50"], latency["p99"], under_way.result()[1] if under_way else 0))
    middle = {name: [statistics.median(column) for column in zip(*turns)] for name, turns in results.items()}
    print(f"\n{title}, {sessions} sessions: {rate:.0f} payment tokens a second, {rate / most:.2f} of its most")
    print(f"{'':34}{'p50':>11}{'p99':>11}   p99 of alone   other load")
    for name, (p50, p99, others) in middle.items():
        print(f"{name:34}{p50 / 1000:8.2f} ms{p99 / 1000:8.2f} ms{p99 / middle['alone'][1]:15.2f}   {others:.0f}/s")
    return {name: figures[1] / middle["alone"][1] for name, figures in middle.items()}


def main(parser):
    parser.add_argument("--part", choices=("rates", "decryption"), help="only sessions a second, or only their effect on decryption")
    options = service.parse(parser, rounds=(3, 1, "of which medians are shown; without --short three times as many with decryption"),
                            seconds=(5.0, 0.5, "of each load"))
    rounds, seconds = options.rounds, options.seconds
    many = 1 if options.short else 3 * rounds
    wrong = []
    keys = [json.loads(service.run("paytoken-gateway", "new-key", "--output", "json")) for _ in range(CALLERS)]
    if options.part != "decryption":
        throughput(rounds, seconds, wrong, keys)
    if options.part != "rates":
        # Rare delays of a shared machine are equally likely in many short loads, unlike in few long ones.
        decrypt_with("SoftHSM", deployment.SoftHSMToken, 0, 2, many, min(seconds, 2), wrong, keys)
        ratios = decrypt_with("20 ms for each operation", deployment.ScriptedToken, 20, 8, many, min(seconds, 2), wrong, keys)
        for name in ("with sessions, key in the token", "with signatures"):
            if ratios[name] > 2 and not options.short:
                wrong.append(f"20 ms for each operation, {name}: decryption's p99 is {ratios[name]:.2f} times its own")
    return wrong
