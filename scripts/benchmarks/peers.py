"""Other programs that decrypt Apple Pay payment tokens, in the same run with the same payment tokens. They run in one process,
have the merchant's key in a file, use no socket and keep no record of releases. So their work is a lower bound."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import deployment

PROGRAM = pathlib.Path(__file__).with_name("processout.go")
# The number of simultaneous decryptions.
THREADS = 2


class ProcessOut:
    """github.com/processout/applepay, in Go. Go's build adds our program to its package by an overlay: nothing is written into
    its directory, and the modules are those in its go.sum."""
    name = "processout"
    TITLES = {"ec": "processout/applepay (Go), EC_v1", "rsa": "processout/applepay (Go), RSA_v1"}

    def __init__(self, directory):
        self.missing = None
        directory = pathlib.Path(os.environ.get("BENCH_FROM", "."), directory).resolve()
        if not (directory / "go.mod").exists():
            self.missing = f"{directory} has no go.mod: it is to be a checkout of github.com/processout/applepay"
        elif shutil.which("go") is None:
            self.missing = "Go is not installed (Debian: apt-get install golang-go)"
        else:
            self._build(directory)

    def _build(self, directory):
        with tempfile.TemporaryDirectory(dir=".") as place:
            overlay = pathlib.Path(place, "overlay.json")
            overlay.write_text(json.dumps({"Replace": {str(directory / "bench" / "main.go"): str(PROGRAM)}}))
            done = subprocess.run(
                ["go", "build", "-overlay", overlay.resolve(), "-o", os.path.abspath("peer-processout"), "./bench"], cwd=directory,
                capture_output=True, text=True)
        if done.returncode != 0:
            self.missing = f"Go did not build it: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"

    def play(self, sample, seconds):
        """Yields pairs of a row's name and figures."""
        for kind, identifier in deployment.MERCHANTS.items():
            done = subprocess.run(
                ["./peer-processout", identifier, f"authority/{kind}.pem", f"authority/{kind}.key.pem", "authority/root.pem",
                 str(sample(kind)), str(THREADS), str(seconds)], capture_output=True, text=True)
            if done.returncode == 0:
                yield f"{self.name}-{kind}", json.loads(done.stdout)
            else:
                self.missing = done.stderr.strip()


PEERS = {ProcessOut.name: ProcessOut}
TITLES = {f"{peer.name}-{kind}": title for peer in PEERS.values() for kind, title in peer.TITLES.items()}
