"""The rows of the table: a base, and rows that each change one property of it."""
import dataclasses

import deployment
import service


@dataclasses.dataclass(frozen=True)
class Setup:
    """The setup of a row's service. Rows with the same setup share its daemon."""
    token: type = deployment.SoftHSMToken
    # The type of the merchant key that is used: ec or rsa for Apple Pay, or google.
    kind: str = "ec"
    # The number of merchant keys in the HSM token, including the used one.
    keys: int = 1
    # The number of the worker's sessions with the HSM token, each of which has a thread.
    sessions: int = 2
    # sqlite; postgresql, on a durable server without a standby; or none: paytokend with a ledger in memory that writes nothing.
    ledger: str = "sqlite"
    # Milliseconds by which a relay between daemon and server delays everything in each direction; 0 for no relay.
    relay: int | None = None
    # The protection tier that answers must name.
    tier: str = "C"
    # True if payments go through paytoken-gateway to processor-simulator, with the gateway's store in a file.
    gateway: bool = False
    # The directory of another build's programs; None for this build's.
    programs: str | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    # The name for --rows.
    name: str
    # The title in the table.
    title: str
    setup: Setup = Setup()
    connections: int = 32
    # Milliseconds by which every derivation in the HSM token takes longer, without processor time.
    latency: int = 0
    # Requests come at this share of the largest throughput, whether or not earlier ones are answered.
    load: float | None = None
    # Requests come at this rate, in the same way.
    rate: float | None = None
    # True for a row that is measured only on request.
    is_extra: bool = False

    @property
    def ceiling(self):
        """Returns the maximum rate of an HSM token with this latency and number of sessions."""
        return self.setup.sessions * 1000 / self.latency if self.latency else None

    @property
    def is_open(self):
        return self.load is not None or self.rate is not None

    def of(self, programs):
        """Returns the same row with another build's programs."""
        return dataclasses.replace(self, name=f"{self.name}@", title=f"{self.title}: other build",
                                   setup=dataclasses.replace(self.setup, programs=programs))


BASE = Setup()
RSA = Setup(kind="rsa")
GOOGLE = Setup(kind=service.GOOGLE)
SERVER = Setup(ledger="postgresql")


def latency(milliseconds, sessions, is_extra=False):
    # With fewer connections than twice the sessions, sessions would wait for callers.
    connections = max(32, 2 * sessions)
    return Row(f"latency-{milliseconds}-{sessions}", f"{milliseconds} ms in the token, {sessions} sessions, {connections} conn.",
               Setup(deployment.ScriptedToken, sessions=sessions), connections, latency=milliseconds,
               is_extra=is_extra)


ROWS = [
    Row("ec", "base: EC_v1, tier C, SQLite, 1 key, 32 conn."),
    Row("ec-1", "1 connection", connections=1),
    Row("ec-8", "8 connections", connections=8),
    Row("ec-128", "128 connections", connections=128),
    Row("ec-512", "512 connections", connections=512),
    Row("rsa", "RSA_v1 (2048 bits)", RSA),
    Row("rsa-128", "RSA_v1, 128 connections", RSA, connections=128),
    Row("google", "Google Pay (ECv2)", GOOGLE),
    Row("keys-100", "100 keys", Setup(keys=100)),
    Row("keys-10000", "10,000 keys", Setup(keys=10_000)),
    Row("no-ledger", "no ledger", Setup(ledger="none")),
    Row("postgresql", "PostgreSQL", SERVER),
    Row("postgresql-1", "PostgreSQL, 1 connection", SERVER, connections=1),
    Row("postgresql-128", "PostgreSQL, 128 connections", SERVER, connections=128),
    # This row shows the cost of the relay itself.
    Row("relay-128", "PostgreSQL, 128 conn., a relay between", Setup(ledger="postgresql", relay=0), connections=128),
    Row("away-128", "PostgreSQL, 128 conn., 2 ms away each way", Setup(ledger="postgresql", relay=2), connections=128),
    Row("gateway", "payments through paytoken-gateway, 32 conn.", Setup(gateway=True)),
    Row("tier-b", "tier B (NSS softokn)", Setup(deployment.NSSToken, tier="B")),
    Row("tier-a", "tier A (scripted one-step KDF)", Setup(deployment.OneStepToken, tier="A")),
    *[latency(milliseconds, sessions) for milliseconds in (5, 20) for sessions in (8, 32, 64)],
    # The latency is so long that even a debug build's own time is small in comparison.
    latency(100, 8, is_extra=True),
    Row("open-half", "open loop, half of the maximum", connections=128, load=0.5),
    Row("open-most", "open loop, nine tenths of the maximum", connections=128, load=0.9),
    Row("open-3000", "open loop, 3,000 a second", connections=128, rate=3000),
]
NAMES = [row.name for row in ROWS]
# The maximum is the fastest of these; the named row is measured if an open loop needs it.
MAXIMUM = "ec-128"
# The rows of --quick, for a look at a change.
QUICK = ["ec", "ec-1", "ec-8", "ec-128", "rsa", "google", "no-ledger", "gateway"]
# The rows that scripts/test runs, each of which can reveal a different defect.
SHORT = ["ec", "ec-1", "rsa", "google", "no-ledger", "postgresql", "gateway", "latency-100-8"]
