"""Lets the claims of a ledger grow older than ledger.retain_claims, several times, and releases payments while the daemon prunes
them. In each period the soak releases a number of payments, stops the daemon, and makes the claims 200 days older, but not the last
thousand. Then it starts the daemon and goes on releasing until the old claims are gone. The rows are those of the soak `lasting`.

At first it also releases payment tokens that were signed 200 days ago, with a wide signing-time window. They are sent again after
the pruning: with the usual window, and with the wide one. Nothing that was released may be released again, neither these, nor the
payment tokens whose claims are still there. Every other request must be answered 200 with the minted content. The removed claims
must be those that are recorded as pruned, and the record must verify. What claims need in the file, or in the tables, may not grow
from one period to the next.

Records are older only after a year and are removed by the month, so that they have a soak of their own (archives).
"""
import collections
import contextlib
import datetime
import json
import pathlib
import re
import sqlite3
import time

import database
import deployment
import lasting
import load
import outcome
import proof
import service

DAYS = 200
# The signing-time window, and ledger.retain_claims, which is at least twice as long: those that accept what was signed then, and
# the usual ones.
WIDE, USUAL = ("365d", "730d"), ("1d", "180d")
# The number of claims that stay young, and of payment tokens that are sent again.
YOUNG, AGAIN = 1000, 200
# Few claims are pruned before the load begins. Some releases are then made after it.
FEW = 100
# The number of answers from which on p99 is compared.
JUDGED = 2000
# The permitted ratios: of p99 while claims are pruned to p99 without, and of what claims need after the last period and the first,
# with some bytes more.
P99_RATIO, SIZE_RATIO, SLACK = 5, 1.5, 2_000_000


def configure(there, window, retention):
    file = pathlib.Path(there.configuration)
    text = re.sub(r"signing_time_window: \w+", f"signing_time_window: {window}", file.read_text())
    file.write_text(re.sub(r"\nledger:\n(  retain_claims: \w+\n)?", f"\nledger:\n  retain_claims: {retention}\n", text))


def make_older(ledger, kept):
    """Makes all claims older than they are by DAYS, except the last ones. The daemon is stopped."""
    statement = (f"UPDATE claim SET claimed_at = claimed_at - {DAYS * 86_400_000} WHERE claimed_at < "
                 f"(SELECT min(claimed_at) FROM (SELECT claimed_at FROM claim ORDER BY claimed_at DESC LIMIT {kept}) AS young)")
    if isinstance(ledger, database.Ledger):
        ledger.sql(statement)
        # The statement has made each row a second time.
        ledger.server.sql("VACUUM FULL paytokend.claim", ledger.name)
        return
    with contextlib.closing(sqlite3.connect(ledger.path)) as file, file:
        file.execute(statement)


def claims_size(ledger):
    """Returns the bytes that claims need or have left free."""
    parts = ledger.parts()
    if isinstance(ledger, database.Ledger):
        return sum(size for name, size in parts.items() if name.startswith("claim"))
    return ledger.used() - sum(size for name, size in parts.items() if not name.startswith("claim"))


def refusals(socket, tokens, allowed, what, wrong):
    """Sends payment tokens that were released before. Each must be refused with one of the codes."""
    codes = collections.Counter()

    def answered(tag, status, body, began, ended):
        codes[f"{status} {json.loads(body).get('code')}" if body else str(status)] += 1
    load.drive(socket, 4, ((number, load.decrypt(token, b"again-%d" % number)) for number, token in enumerate(tokens)), answered,
               limit=service.GUARD)
    print(f"  {what}: {dict(codes)}")
    if not tokens or any(code.split(" ")[1] not in allowed for code in codes):
        wrong.append(f"{what}: {dict(codes)}")


def has_old_claims(ledger):
    """Returns true if there are claims that were made older."""
    present = int(time.time() * 1000) - 86_400_000
    return ledger.number(f"SELECT count(*) FROM (SELECT 1 FROM claim WHERE claimed_at < {present} LIMIT 1) AS old")


def pruning_ends(ledger, run):
    """Returns a function that returns True once no old claim is left."""
    first, end = run.outcome.released + FEW, time.monotonic() + service.GUARD
    return lambda: run.outcome.released >= first and not has_old_claims(ledger) or time.monotonic() > end


def vacuumed(ledger):
    """Returns how often PostgreSQL has made room in the table of claims, or None for a file."""
    if not isinstance(ledger, database.Ledger):
        return None
    return ledger.number("SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = 'claim'")


def shown(name, row):
    print(f"{name:8}{lasting.line(row)}", flush=True)
    return row


def release(socket, tokens, wrong):
    """Releases payment tokens once."""
    def answered(tag, status, body, began, ended):
        if status != 200 or b'"repeated":false' not in body:
            wrong.append(f"a payment token was answered {status} {body[:200]}")
    load.drive(socket, 4, ((number, load.decrypt(token, b"first-%d" % number)) for number, token in enumerate(tokens)), answered,
               limit=service.GUARD)


def main(parser):
    parser.add_argument("--ledger", choices=["sqlite", "postgresql"], default="sqlite", help="where it is kept (sqlite)")
    options = service.parse(parser, claims=(100_000, 2000, "claims of a period"), periods=(3, 2, "periods"),
                            clients=(16, 8, "connections"))
    wrong, sizes, pruned = [], [], 0
    with contextlib.ExitStack() as ending:
        # A table is vacuumed a second after many of its rows were removed, and not a minute.
        ledger, section = lasting.opened(options.ledger, ending, settings=["autovacuum_naptime=1s"])
        there = deployment.Deployment(lasting.PLACE, {"a": deployment.SoftHSMToken}, merchants=("ec",), ledger=section,
                                      call_timeout="10s")
        configure(there, *WIDE)
        ending.enter_context(there)
        pool = ending.enter_context(outcome.Pool(uses=1, ec=64))
        run = lasting.Run(there, ledger, options.clients)
        signed = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=DAYS)
        old = service.mint(AGAIN, "--signing-time", signed.strftime("%Y-%m-%dT%H:%M:%SZ"), certificate="authority/ec.pem")
        release(there.socket, old, wrong)
        wrong += there.daemon.stop()
        configure(there, *USUAL)
        there.daemon.start()
        print(f"{options.periods} periods with {options.claims} claims each, {options.clients} clients")
        print(f"{'':8}{lasting.HEAD}")
        for _ in range(options.periods):
            alone = shown("alone", run.drive(pool, options.claims))
            young = service.mint(AGAIN, certificate="authority/ec.pem")
            release(there.socket, young, wrong)
            wrong += there.daemon.stop()
            make_older(ledger, YOUNG)
            claims, before, vacuums = ledger.number("SELECT count(*) FROM claim"), run.outcome.released, vacuumed(ledger)
            there.daemon.start()
            busy = shown("pruning", run.drive(pool, None, pruning_ends(ledger, run)))
            left, added = ledger.number("SELECT count(*) FROM claim"), run.outcome.released - before
            pruned += claims + added - left
            if has_old_claims(ledger):
                wrong.append("old claims were not pruned")
            refusals(there.socket, young, {"transaction_replayed"}, "claims that are left, sent again", wrong)
            service.wait("autovacuum", lambda before=vacuums: before is None or vacuumed(ledger) > before, pause=0.5)
            sizes.append(claims_size(ledger))
            print(f"  of {claims} claims and {added} more, {left} are left; "
                  f"claims need {sizes[-1] / 1e6:.1f} MB, free space included", flush=True)
            if busy["p99"] > alone["p99"] * P99_RATIO and busy["answers"] >= JUDGED:
                wrong.append(f"p99 was {alone['p99']:.1f} ms, and {busy['p99']:.1f} ms while claims were pruned")
        refusals(there.socket, old, {"signing_time_outside_window"}, "pruned, sent again", wrong)
        wrong += there.daemon.stop()
        configure(there, *WIDE)
        there.daemon.start()
        refusals(there.socket, old, {"transaction_replayed"}, "pruned, sent again with the wide window", wrong)
        release(there.socket, service.mint(10, certificate="authority/ec.pem"), wrong)
        wrong += run.judge()
        recorded = sum(json.loads(line)["count"] for line in ledger.lines() if '"claims_prune"' in str(line))
        print(f"pruned      {pruned} claims, {recorded} by the record")
        if pruned != recorded:
            wrong.append(f"{pruned} claims are gone, {recorded} are recorded as pruned")
        if sizes[-1] > sizes[0] * SIZE_RATIO + SLACK:
            wrong.append(f"claims needed {sizes[0] / 1e6:.1f} MB after the first period, {sizes[-1] / 1e6:.1f} MB after the last")
        wrong += proof.verify(there.daemon, only_live=True)
        wrong += there.daemon.stop()
    return wrong
