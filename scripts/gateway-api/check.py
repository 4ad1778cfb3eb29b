"""Runs the programs and schemathesis, and checks the answers. scripts/check-gateway-api calls it."""
import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys

import load
import service
from shop import Shop

# The operations that cannot succeed in this run, with the reasons.
NEVER_RIGHT = {"POST /radial/decrypt": "only clients with certificates may", "POST /merchant-sessions": "there is no Apple here",
               "POST /radial/credit-card-auth": "schemathesis writes no XML that holds a payment token"}


def serve(shop, port):
    """Starts the gateway on a port of this host, for a client that may do everything except decrypt."""
    path = pathlib.Path("gateway.yaml")
    text = path.read_text().replace("address: 'unix:gateway.sock'", f"address: '127.0.0.1:{port}'")
    text = text.replace("[pay, status]", "[pay, status, session], domains: [shop.example]")
    path.write_text(text.replace("burst: 100000", "burst: 100000, max_connections_per_address: 1024"))
    return service.Program(port, *shop.gateway.command, log="gateway.log").started()


def table(document, seen):
    """Prints the answers to each operation. Returns documented successes that never occurred."""
    wrong = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if "administration" in operation.get("tags", []):
                continue
            name = f"{method.upper()} {path}"
            statuses = seen.get(name, {})
            print(f"{name:40}" + "  ".join(f"{status}: {count}" for status, count in sorted(statuses.items())))
            if not statuses:
                wrong.append(f"{name} was never asked")
            elif not statuses.get(200):
                if name in NEVER_RIGHT:
                    print(f"{'':40}no 200: {NEVER_RIGHT[name]}; tests have one")
                else:
                    wrong.append(f"{name} was never answered 200")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--schemathesis", required=True)
    parser.add_argument("--document", required=True)
    parser.add_argument("--examples", type=int)
    parser.add_argument("--seed", type=int)
    service.add_options(parser)
    options = parser.parse_args()
    if options.seed is None:
        # scripts/test runs the same requests each time; a run by hand makes new ones.
        options.seed = 1 if options.short else random.randrange(1 << 32)
    examples = options.examples or (20 if options.short else 200)
    with service.serving() as daemon:
        daemon.import_merchant(service.GOOGLE)
        shop, port = Shop(daemon, random.Random(options.seed), with_google=True), load.free_port()
        with shop.simulator.started(), serve(shop, port) as gateway:
            # schemathesis takes the identifiers of payments from the answers, and requests their status.
            pathlib.Path("tokens.jsonl").write_bytes(b"\n".join(
                token.strip() for token in service.mint(20 * examples + 200, "--amount", "1000")))
            pathlib.Path("google-tokens.jsonl").write_bytes(b"\n".join(
                service.mint(20 * examples + 200, certificate=service.GOOGLE_KEY)))
            done = subprocess.run(
                [options.schemathesis, "--config-file", str(pathlib.Path(__file__).with_name("schemathesis.toml")), "run",
                 options.document, "--url", f"http://127.0.0.1:{port}", "-H", f"Authorization: Bearer {shop.key.decode()}",
                 "--exclude-tag", "administration", "--checks", "all", "--seed", str(options.seed), "--max-examples",
                 str(examples), "--continue-on-failure", "--no-color"],
                env={**os.environ, "SCHEMATHESIS_HOOKS": str(pathlib.Path(__file__).with_name("hooks.py")),
                     "GATEWAY_API_TOKENS": os.path.abspath("tokens.jsonl"),
                     "GATEWAY_API_GOOGLE_TOKENS": os.path.abspath("google-tokens.jsonl"), "GATEWAY_API_SEEN": os.path.abspath("seen"),
                     "PYTHONPATH": ""}, capture_output=True, text=True)
            if done.returncode != 0:
                print(done.stdout[-20_000:], done.stderr[-2_000:])
            wrong = ["the gateway ended"] if gateway.process.poll() is not None else gateway.stop()
            wrong += shop.simulator.stop()
        seen = collections.defaultdict(collections.Counter)
        for line in pathlib.Path("seen").read_text().splitlines():
            method, path, status = line.split(" ")
            seen[f"{method} {path}"][int(status)] += 1
        wrong += table(json.loads(pathlib.Path(options.document).read_text()), seen)
        if done.returncode != 0:
            wrong.append(f"schemathesis found differences (--seed {options.seed})")
        wrong += daemon.stop()
        count = sum(sum(statuses.values()) for statuses in seen.values())
        print(f"check-gateway-api: {count} requests, --seed {options.seed}, {len(wrong)} wrong")
        return service.verdict(wrong)


if __name__ == "__main__":
    with service.cleaning("check-gateway-api"):
        sys.exit(main())
