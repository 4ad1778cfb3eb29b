"""One row of scripts/test-tokens: a daemon on a fresh HSM token, and what each step gave."""
import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import deployment
import handshake
import libraries
import load
import outcome
import proof
import raw
import service
import token_try

# Seconds after which an HSM token that is not open, or does not answer right, counts as one that never will be.
LIMIT = 90
LABEL = "tried"
CLIENTS, KILLS = 8, 5
KINDS = {"EC": ("--type", "ec"), "RSA": ("--type", "rsa"), "identity": ("--use", "identity")}
COLUMNS = ["HSM token", "opens", "EC_v1", "RSA_v1", "TLS", "imports", "generates", "4 sessions", "kill -9", "wrong PIN", "restart",
           "destroy", "older ledger", "lost ledger", "verify"]
# The cells that `token try` and the daemon must agree on.
SHARED = ["EC_v1", "RSA_v1", "TLS", "imports", "generates", "4 sessions", "destroy"]


class Trial:
    """The steps of a row. answers: a cell for each column. reasons: why a cell is not "yes". wrong: defects of the daemon."""

    def __init__(self, name):
        self.kind = libraries.ROWS[name]
        self.answers, self.reasons, self.wrong = {"HSM token": self.kind.title}, [], []
        self.there, self.token, self.is_first = None, None, True
        # The certificates of keys that work, by kind; and the names of those that did not at the last wait.
        self.certificates, self.failing = {}, []

    def run(self):
        os.mkdir("made", 0o700)
        try:
            self.token = self.kind(LABEL, "made")
            print(f"  made by {self.kind.made_by}", flush=True)
            tried = self._token_try()
            if self._opens():
                self._tiers()
                self._keys()
                for column, step in [("4 sessions", self._sessions), ("kill -9", self._kills), ("wrong PIN", self._pins),
                                     ("restart", self._restarts), ("destroy", self._destroys), ("verify", self._verifies),
                                     ("older ledger", self._older), ("lost ledger", self._lost)]:
                    self.answers[column] = self._try(column, step)
                    if self.answers[column] == "no":
                        self._recover()
                self._compare(tried)
        finally:
            if self.there is not None:
                self.there.daemon.__exit__()
            if self.token is not None:
                self.token.end()
        return {column: self.answers.get(column, "–") for column in [*COLUMNS, *token_try.VECTORS]}

    def _token_try(self):
        """Runs `token try` with Wycheproof's cases. Returns its cells."""
        answer, complaint = token_try.run(self.token, self.kind.label or LABEL)
        self.wrong += complaint
        if answer is None:
            return {}
        cells, reasons, wrong = token_try.vectors(answer)
        self.answers |= cells
        self.reasons += reasons
        self.wrong += wrong
        return answer["cells"]

    def _compare(self, tried):
        """`token try` must have told what the daemon then did."""
        for column in SHARED:
            if tried and tried[column] != self.answers.get(column):
                self.wrong.append(f"{column}: the daemon gave {self.answers.get(column)}, and token try {tried[column]}")

    def _try(self, column, step):
        """Returns the step's cell, "yes" if it has none, and "no" if it fails."""
        try:
            return step() or "yes"
        except (service.Failed, OSError, subprocess.SubprocessError) as failure:
            self.reasons.append(f"{column}: {failure}")
            return "no"

    def _recover(self):
        """Starts everything again after a step that failed, so that the next one shows something of its own. Leaves out keys that no
        longer work: each step would wait for them in vain."""
        self.there.daemon.stop()
        self.token.restart()
        self.there.daemon.start(ready=False)
        try:
            self._until_used("readiness after a step that failed")
        except service.Failed as failure:
            self.reasons.append(str(failure))
            for name in self.failing:
                self.reasons.append(f"{name} is left out from here")
                self.certificates.pop(name)

    # The start

    def _opens(self):
        """Starts a daemon with the HSM token alone, or, if it never gets ready, after a SoftHSM token."""
        for self.is_first in (True, False):
            others = {} if self.is_first else {"first": deployment.SoftHSMToken}
            self.there = deployment.Deployment(f"trial{len(others)}", {**others, LABEL: lambda name, place: self.token}, merchants=(),
                                               sessions=4, call_timeout="10s")
            self.there.daemon.start(ready=False)
            until = time.monotonic() + LIMIT
            while time.monotonic() < until and not self._serves():
                time.sleep(0.2)
            if self._serves():
                self.answers["opens"] = "yes" if self.is_first else "second only"
                return True
            self.reasons.append(f"{'alone' if self.is_first else 'as second'}: not ready after {LIMIT} s: {self._complaint()}")
            self.there.daemon.stop()
        self.answers["opens"] = "no"
        return False

    def _status(self):
        return json.loads(load.once(self.there.daemon.admin, load.get("/v1/status"))[1])

    def _own_status(self):
        return next(each for each in self._status()["tokens"] if each["name"] == LABEL)

    def _serves(self):
        """Returns True if the daemon is ready, and the HSM token serves a version or signs."""
        own = self._own_status()
        return self.there.daemon.is_ready() and own["condition"] == "ready" and bool(
            own.get("tierECv1") or own.get("tierRSAv1") or own.get("tlsAlgorithms"))

    def _complaint(self):
        status, own = self._status(), self._own_status()
        said = [own["condition"], own.get("message"), *own["shortcomings"], *(reason["message"] for reason in status["reasons"])]
        return "; ".join(dict.fromkeys(filter(None, said)))

    def _tiers(self):
        own = self._own_status()
        algorithms = own.get("tlsAlgorithms") or []
        names = {"rsa_pss_rsae_sha256": "PSS*" if own.get("pss") == "worker" else "PSS", "rsa_pkcs1_sha256": "PKCS1"}
        self.answers |= {"EC_v1": own.get("tierECv1", "–"), "RSA_v1": own.get("tierRSAv1", "–"),
                         "TLS": ", ".join(names[each] for each in algorithms) or "–"}
        self.reasons += [f"tiers: {each}" for each in own["shortcomings"]]

    # Keys

    def _keys(self):
        for column, make in (("imports", self._import), ("generates", self._generate)):
            made = []
            for kind, options in KINDS.items():
                def make_and_use(kind=kind, options=options, make=make, column=column):
                    name = f"{column}-{kind}"
                    certificate = make(name, f"merchant.com.example.{name}".lower(), kind, options)
                    self._use(kind, certificate)
                    self.certificates[name] = certificate
                if self._try(f"{column} {kind}", make_and_use) == "yes":
                    made.append(kind)
            self.answers[column] = ", ".join(made) or "–"

    def _certify(self, name, request, identifier, kind):
        certificate = f"authority/{name}.pem"
        service.run("token-forge", "certify", "authority", "--csr", request, "--kind",
                    "merchant-identity" if kind == "identity" else "payment-processing", "--merchant-identifier", identifier, "--out",
                    certificate)
        return certificate

    def _import(self, name, identifier, kind, options):
        request, key = f"{name}.csr", f"{name}.key"
        algorithm = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256") if kind == "EC" else ("rsa:2048",)
        service.run("openssl", "req", "-new", "-newkey", *algorithm, "-nodes", "-subj", "/CN=tried", "-keyout", key, "-out", request)
        certificate = self._certify(name, request, identifier, kind)
        self.there.daemon.ctl("key", "import", "--private-key", key, "--certificate", certificate, "--token", LABEL)
        return certificate

    def _generate(self, name, identifier, kind, options):
        daemon, request = self.there.daemon, f"{name}.csr"
        daemon.ctl("key", "generate", "--merchant-identifier", identifier, *options, "--token", LABEL)
        key = next(each for each in json.loads(daemon.ctl("key", "list", "--output", "json"))
                   if each.get("merchantIdentifier") == identifier)
        daemon.ctl("csr", "create", key["publicKeyHash"], "--out", request)
        certificate = self._certify(name, request, identifier, kind)
        daemon.ctl("certificate", "import", certificate)
        return certificate

    def _use(self, kind, certificate):
        if kind == "identity":
            self._sign(certificate)
        else:
            self._decrypt(certificate, 1, 1)

    def _decrypt(self, certificate, count, clients):
        """Decrypts so many payment tokens, all of which must give what was minted."""
        wanted, refused = self._requests(certificate, count), []

        def answered(plaintext, status, body, began, ended):
            if status != 200:
                refused.append(f"{status} {body.decode(errors='replace')}")
            elif outcome.opened(body) != plaintext:
                self.wrong.append(f"{certificate}: what was decrypted is not what was minted")
        load.drive(self.there.socket, clients, wanted, answered, limit=service.GUARD)
        if refused:
            raise service.Failed(f"{len(refused)} of {count} refused, the first with {refused[0][:400]}")

    def _requests(self, certificate, count):
        with service.Minter(certificate=certificate, with_payloads=True) as minter:
            return [(plaintext, load.decrypt(token)) for plaintext, token in minter.take(count)]

    def _sign(self, certificate):
        """Signs handshakes of TLS 1.2 by each algorithm of the HSM token, and of TLS 1.3 by PSS. openssl verifies the signatures."""
        pathlib.Path("public.pem").write_bytes(service.run("openssl", "x509", "-in", certificate, "-noout", "-pubkey"))
        key = base64.b64encode(bytes.fromhex(raw.public_key_hash(certificate))).decode()
        for algorithm in self._own_status().get("tlsAlgorithms") or []:
            inputs = [handshake.tls12(pathlib.Path(certificate).read_text())]
            if algorithm == "rsa_pss_rsae_sha256":
                inputs.append(handshake.tls13())
            for covered in inputs:
                status, body = load.once(self.there.socket, load.post(b"/v1/tls-signatures", json.dumps({
                    "publicKeyHash": key, "algorithm": algorithm, "input": base64.b64encode(covered).decode()}).encode()))
                if status != 200:
                    raise service.Failed(f"{algorithm}: {status} {body.decode(errors='replace')}")
                pathlib.Path("covered").write_bytes(covered)
                pathlib.Path("signature").write_bytes(base64.b64decode(json.loads(body)["signature"]))
                service.run("openssl", "dgst", "-sha256", "-verify", "public.pem", "-signature", "signature",
                            *handshake.ALGORITHMS[algorithm], "covered")

    def _processing(self):
        """Returns the certificates of keys that decrypt."""
        return [certificate for name, certificate in self.certificates.items() if not name.endswith("identity")]

    def _until_used(self, what):
        """Waits until the HSM token is open and each key works."""
        self.failing = []
        service.wait(what, service.seldom(self._serves, 0.2), LIMIT)
        failures = []

        def works():
            failures.clear()
            self.failing = []
            for name, certificate in self.certificates.items():
                try:
                    self._use(name.rpartition("-")[2], certificate)
                except service.Failed as failure:
                    failures.append(f"{name}: {failure}")
                    self.failing.append(name)
            return not failures
        service.wait(lambda: f"{what} ({'; '.join(failures)})", works, LIMIT, 0.2)

    # Operation

    def _sessions(self):
        if not self._processing():
            return "–"
        if self._own_status().get("sessions") != 4:
            raise service.Failed(f"the status says {self._own_status().get('sessions')} sessions")
        for certificate in self._processing():
            self._decrypt(certificate, CLIENTS * 8, CLIENTS)
        return "yes"

    def _kills(self):
        """Kills the workers under load, five times, and then the daemon."""
        if not self._processing():
            return "–"
        certificate, right, kills, refused = self._processing()[0], 0, [], []
        until = time.monotonic() + 2 * LIMIT

        def requests():
            with service.Minter(certificate=certificate, with_payloads=True) as minter:
                while True:
                    for plaintext, token in minter.take(1):
                        yield plaintext, load.decrypt(token)

        def answered(plaintext, status, body, began, ended):
            nonlocal right
            if status == 200:
                right += outcome.opened(body) == plaintext
                if outcome.opened(body) != plaintext:
                    self.wrong.append("kill -9: what was decrypted is not what was minted")
            elif status != 503:
                self.wrong.append(f"kill -9: refused with {status} {body[:200]}")
            else:
                refused.append(body)

        def tick():
            if right >= 10 * (len(kills) + 1):
                if len(kills) == KILLS:
                    return True
                kills.append(right)
                self.there.kill_workers()
            return time.monotonic() > until
        load.drive(self.there.socket, CLIENTS, requests(), answered, tick=tick, limit=service.GUARD)
        if len(kills) < KILLS or right < 10 * (KILLS + 1):
            raise service.Failed(f"after {len(kills)} kills of the worker only {right} right answers came in {2 * LIMIT} s; the last "
                                 f"refusal: {refused[-1:]}")
        self.there.daemon.kill()
        self.there.daemon.start(ready=False)
        self._until_used("readiness after the daemon's kill")

    def _pins(self):
        """Starts the daemon with a wrong PIN, and gives it the right one."""
        right = pathlib.Path(self.token.pin).read_text()
        self.wrong += self.there.daemon.stop()
        # As many characters, since some libraries check the length first.
        pathlib.Path(self.token.pin).write_text(right.rstrip()[:-1] + ("1" if right.rstrip()[-1] != "1" else "2"))
        try:
            self.there.daemon.start(ready=False)
            service.wait(lambda: f"the refusal of a wrong PIN ({self._complaint()})",
                         service.seldom(lambda: self._own_status()["condition"] == "unavailable", 0.2), LIMIT)
            said = self._complaint()
        finally:
            pathlib.Path(self.token.pin).write_text(right)
        self.there.daemon.process.send_signal(signal.SIGHUP)
        self._until_used("readiness with the right PIN")
        if "PIN" not in said:
            raise service.Failed(f"the status does not name the PIN: {said}")

    def _restarts(self):
        """Replaces the process that the library calls, while the daemon runs."""
        if not self.kind.has_service:
            return "–"
        self.token.restart()
        self._until_used("answers after the restart of the HSM token's service")
        return "yes"

    def _destroys(self):
        """Destroys a key that works, after which the HSM token has one less."""
        if not self.certificates:
            return "–"
        name = list(self.certificates)[-1]
        key = raw.public_key_hash(self.certificates.pop(name))
        before = self._own_status()["keys"]
        for words in (("retire", key), ("destroy", key)):
            self.there.daemon.ctl("key", *words, "--reason", "tried")
        self.there.daemon.stop()
        self.there.daemon.start(ready=False)
        self._until_used("readiness after a key's destruction")
        after = self._own_status()["keys"]
        if after != before - 1:
            raise service.Failed(f"{name} was destroyed, and the HSM token shows {after} private keys after {before}")
        return "yes"

    # The record

    def _verifies(self):
        wrong = proof.verify(self.there.daemon)
        if wrong:
            raise service.Failed("; ".join(wrong))

    def _files(self):
        return list(pathlib.Path(self.there.place).glob("ledger.sqlite*"))

    def _is_noticed(self):
        """Starts the daemon on a ledger that is not its newest. Returns the cell."""
        self.there.daemon.spawn()
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            if self.there.daemon.process.poll() is not None:
                return "noticed"
            status, body = load.once(self.there.daemon.socket, service.GET_READY)
            if status == 200:
                return "not noticed"
            if body and any(word in body for word in (b"ledger_older", b"accept-restore", b"audit key")):
                return "noticed"
            time.sleep(0.1)
        raise service.Failed(f"neither ready nor refused: {self._complaint()}")

    def _older(self):
        if not self.is_first:
            return "–"
        daemon, copies = self.there.daemon, pathlib.Path("older")
        daemon.stop()
        copies.mkdir()
        for file in self._files():
            shutil.copy(file, copies)
        daemon.start(ready=False)
        self._until_used("readiness before the newer records")
        daemon.stop()
        for file in self._files():
            file.rename(f"{file}.newest")
        for file in copies.iterdir():
            shutil.copy(file, self.there.place)
        return self._is_noticed()

    def _lost(self):
        if not self.is_first:
            return "–"
        self.there.daemon.__exit__()
        for file in self._files():
            file.unlink()
        return self._is_noticed()
