"""Measures what an HSM token alone can do while a daemon uses the same HSM token. It runs raw-loop.c, which scripts/soak and
scripts/bench compile, as a process that is asked repeatedly."""
import collections
import hashlib
import os

import service

# The operations a second, the processor time of one operation, and the 50th and 99th percentile of their times. All times are in
# microseconds.
Figures = collections.namedtuple("Figures", "rate processor p50 p99")


def public_key_hash(certificate):
    """Returns the CKA_ID of its key, in hexadecimal. certificate: as for service.public_key."""
    return hashlib.sha256(service.public_key(certificate)).hexdigest()


class RawLoop(service.Answering):
    """A process that has a SoftHSM token open, and repeats the operations of one payment token with a certificate's key. A context
    manager. token: one of deployment.py's."""

    def __init__(self, token, certificate):
        super().__init__("./raw-loop", os.environ["SOAK_MODULE"], token.name, token.pin, public_key_hash(certificate),
                         env={**os.environ, "SOFTHSM2_CONF": token.conf})

    def measure(self, threads, seconds, kind="copy"):
        """Runs the operations, and returns Figures. kind: "object" for the HSM token's own key, "copy" for a session copy of it,
        which the worker uses."""
        return Figures(*map(float, self.ask(kind, threads, seconds)))
