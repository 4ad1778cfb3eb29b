"""Apple's API, its portal and wallets, played by the program portal-simulator, and the payment tokens that its wallets make."""
import collections
import json
import pathlib
import subprocess
import threading

import service

ISSUER, KEY_ID = "57246542-96fe-1a63-e053-0824d011072a", "2X9R4HXF34"
# The file that sandbox_portal makes.
TEAM_KEY = f"AuthKey_{KEY_ID}.p8"
# The daemon's configuration for the team's key.
SECTION = f"renewal:\n  issuer: {ISSUER}\n  key_id: {KEY_ID}\n"


class Refused(Exception):
    """The portal's refusal of a command."""


class Portal:
    """The simulator's process. A context manager.

    certificates: the files of the merchants' certificates that wallets use.
    """

    def __init__(self, *certificates):
        self.lock, self.command = threading.Lock(), [
            "portal-simulator", "authority", "--key", TEAM_KEY, "--key-id", KEY_ID, "--issuer", ISSUER, "--certificate",
            "portal.pem", "--private-key", "portal.key",
            *[word for file in certificates for word in ("--merchant", file)]]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self._line()["address"]
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            raise service.Failed(f"portal-simulator ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, *words):
        with self.lock:
            print(*words, file=self.process.stdin, flush=True)
            answer = self._line()
        if "error" in answer:
            raise Refused(f"{' '.join(map(str, words))}: {answer['error']}")
        return answer

    def outbound(self, daemon):
        """Returns the outbound program of a daemon, which is not started."""
        pathlib.Path("outbound.yaml").write_text(
            f"paytokend: {{ socket: '{daemon.socket}' }}\n"
            f"app_store_connect: {{ test_server: '{self.address}', trust: [portal.pem] }}\nlog: {{ format: text }}\n")
        return service.Program("outbound.sock", "paytoken-outbound", "--config", "outbound.yaml")


class Wallets:
    """A source of payment tokens, as service.Minter is one, for the certificates that wallets use when they are minted."""

    def __init__(self, portal, merchant):
        self.portal, self.merchant, self.counts = portal, merchant, collections.Counter()

    def ready(self):
        """Returns a payment token, or None if wallets use no certificate."""
        found = self.portal.ask("mint", self.merchant, 1)["paymentTokens"]
        if not found:
            self.counts["none"] += 1
            return None
        self.counts["late" if found[0]["late"] else "of the certificate in use"] += 1
        return found[0]["paymentToken"].encode()

    def __exit__(self, *error):
        pass
