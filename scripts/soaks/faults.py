"""Breaks the token, its worker and what is around them under load, and tells what callers saw of it.

Each row is a daemon of its own. Every answer is compared with what was minted: right; refused cleanly (503 with
hsm_unavailable, ledger_unavailable, overloaded or deadline_exceeded); wrong (anything else: other bytes, another code, no answer); hung (no
answer within the request's deadline). "recovered" is the time from the fault, or from its end where it lasts, until
everything is answered right again and within half a second; of several times the longest. Where calls can be made
elsewhere or once more, nothing may be refused: those rows say "none" under "may refuse".
"""
import argparse
import collections
import itertools
import multiprocessing
import os
import pathlib
import signal
import sys
import time

import deployment
import load
import outcome
import proof
import service

# How long the daemon may take beside call_timeout: a repetition after a worker's start, and the rest of a request.
BESIDE = 10 + 2


class Run:
    """One fault: its load, what happens to it when, and what came of it."""

    def __init__(self, options, tokens, there):
        self.options, self.tokens, self.there = options, tokens, there
        self.outcome, self.notes, self.wrong = outcome.Outcome(), [], []
        # When faults began, and from when on the time to recover is counted; when the load ended.
        self.faults, self.marks, self.until = [], [], 0.0

    def mark(self):
        """From here on the time to recover is counted."""
        self.marks.append(time.monotonic())

    def breaking(self, action):
        """A fault that lasts until a mark."""
        def both():
            self.faults.append(time.monotonic())
            action()
        return both

    def drive(self, seconds, *events, rate=None, clients=16):
        """Load for so long; events are pairs of seconds from now and a function."""
        began = time.monotonic()
        load.drive(self.there.socket, clients, outcome.paced(self.tokens, rate), self.outcome.answered,
                   until=began + seconds, events=[(began + after, event) for after, event in events],
                   limit=self.options.call_timeout + BESIDE)
        self.until = time.monotonic()

    def at_mark(self, action):
        def both():
            action()
            self.mark()
        return both

    def recovery(self):
        """The longest; None when one of the times there was no recovery."""
        ends = [min((moment for moment in self.faults + self.marks if moment > mark), default=self.until)
                for mark in self.marks]
        times = [self.outcome.recovered(mark, end) for mark, end in zip(self.marks, ends)]
        return None if not times or None in times else max(times)

    def expect(self, condition, message):
        if not condition:
            self.wrong.append(message)


def kill_worker(there):
    for process in there.workers():
        os.kill(process, signal.SIGKILL)


def killed(run):
    seconds = 3 if run.options.short else 20
    run.drive(seconds + 1.5, *[(second, run.at_mark(lambda: kill_worker(run.there))) for second in range(1, seconds + 1)])
    died = run.there.restarts(reason="died")
    run.notes.append(f"{died} workers killed")
    # On a busy machine there may be none when the second has come.
    run.expect(died >= seconds // 2, f"only {died} of {seconds} workers were killed")


def stopped(run):
    rounds = 1 if run.options.short else 3

    def stop():
        os.kill(run.there.workers()[0], signal.SIGSTOP)
        run.mark()
    each = run.options.call_timeout + 4
    run.drive(rounds * each, *[(1 + each * number, stop) for number in range(rounds)])
    run.expect(run.there.restarts(reason="timeout") >= rounds, "the stopped workers were not replaced for their time")


def scripted_once(run, fault, reason):
    rounds = 1 if run.options.short else 3
    token, each = run.there.tokens[0], run.options.call_timeout + 4
    run.drive(rounds * each, *[(1 + each * number, run.at_mark(lambda: token.play(fault))) for number in range(rounds)])
    count = run.there.restarts(reason=reason)
    run.notes.append(f"{count} workers replaced")
    run.expect(count >= rounds, f"{count} workers were replaced for {reason}, not {rounds}")


def hung(run):
    scripted_once(run, "fault C_DeriveKey nth=100 hang once", "timeout")


def crashed(run):
    scripted_once(run, "fault C_DeriveKey nth=100 crash once", "died")


def moved(run):
    """Nothing is changed in the worker: what it has in memory may go on."""
    token, rounds = run.there.tokens[0], 1 if run.options.short else 2
    for _ in range(rounds):
        run.drive(9, (1, run.breaking(lambda: os.rename(token.tokens, token.tokens + ".away"))),
                  (2, lambda: kill_worker(run.there)),
                  (4, run.at_mark(lambda: os.rename(token.tokens + ".away", token.tokens))), rate=run.options.rate)


def rotated(run):
    """The token's PIN is changed and the file is not; then the worker dies, and the daemon restarts."""
    token, daemon = run.there.tokens[0], run.there.daemon
    token.play(f"log {token.log}")
    logins = lambda: [result for result in token.calls("C_Login") if result != 0]
    pathlib.Path("pin.new").write_text("80215703\n")
    os.chmod("pin.new", 0o600)

    def rotate():
        service.run(sys.executable, pathlib.Path(__file__).parent / "set_pin.py", token.softhsm, token.pin, "pin.new",
                    env={**os.environ, **{"SOFTHSM2_CONF": token.conf}})
    run.drive(2, (0.5, rotate), rate=run.options.rate)
    run.expect(not run.outcome.refused, "the login before the rotation was given up")
    run.drive(4, (0, lambda: kill_worker(run.there)), rate=run.options.rate)
    run.expect(len(logins()) == 1, f"{len(logins())} refused logins after the worker's death, not 1")
    run.expect(daemon.stop(), "the daemon did not end with 0 at SIGTERM")
    daemon.start(ready=False)
    reload = lambda: daemon.process.send_signal(signal.SIGHUP)
    run.drive(3, (1, reload), rate=run.options.rate)
    run.expect(len(logins()) == 1, f"{len(logins())} refused logins after restart and SIGHUP, not 1")

    def mend():
        os.replace("pin.new", token.pin)
        reload()
    run.drive(5, (0.5, run.at_mark(mend)), rate=run.options.rate)
    run.notes.append(f"{len(logins())} refused login, through a death, a restart and a SIGHUP")
    run.expect(len(logins()) == 1, f"{len(logins())} refused logins in all, not 1")


def flooded(run):
    """The load keeps its connections; the flood takes all that are left of both sockets."""
    ended = multiprocessing.Event()
    crowd = multiprocessing.Process(target=deployment.flood,
                                    args=([run.there.socket, run.there.daemon.admin], ended), daemon=True)

    def end():
        ended.set()
        crowd.join()
    seconds = 3 if run.options.short else 10
    run.drive(seconds + 3, (1, run.at_mark(crowd.start)), (seconds + 1, end))
    end()
    run.expect(run.there.restarts() == 0, "workers were replaced")


def remote(run):
    token, rounds = run.there.tokens[0], 1 if run.options.short else 3
    run.drive(rounds * 10, *itertools.chain(*[
        ((1 + 10 * number, run.breaking(token.kill)), (3 + 10 * number, run.at_mark(token.serve))) for number in range(rounds)
    ]), rate=min(run.options.rate, 100))


def one_of_two(run, fault, ends):
    """The second token fails, and is mended where the fault does not end by itself. Recovered is when it works again."""
    first, second = run.there.tokens
    seen, back, seconds = [], [], 2 if run.options.short else 5

    def mend():
        if not ends:
            second.play()
        seen.append((time.monotonic(), run.there.decryptions(second.name)))

    def look():
        if not back and run.there.decryptions(second.name) > seen[0][1]:
            back.append(time.monotonic() - seen[0][0])
    began = 1 + seconds
    run.drive(began + 10, (1, run.at_mark(lambda: second.play(fault))), (began, mend),
              *[(began + 0.1 * step, look) for step in range(1, 90)])
    run.expect(back, f"the token {second.name} was not used again")
    run.notes.append(f"used again {back[0]:.1f} s after it was well" if back else "not used again")
    shares = [int(run.there.decryptions(token.name)) for token in run.there.tokens]
    run.notes.append(f"calls answered {shares[0]} and {shares[1]}")


def two_errors(run):
    one_of_two(run, "fault * always return=0x30", ends=False)


def two_hangs(run):
    one_of_two(run, "fault C_DeriveKey nth=50 hang once", ends=True)


def limited(run):
    """Four sessions are configured. There is room for three from the start; later for none besides those."""
    run.there.tokens[0].play("session-limit 3")
    kill_worker(run.there)
    run.drive(2, rate=run.options.rate)
    run.drive(4, (1, run.at_mark(lambda: run.there.tokens[0].play("session-limit 1"))),
              (2, lambda: run.there.tokens[0].play("session-limit 3", "fault C_DeriveKey nth=10 close-sessions")),
              rate=run.options.rate)


def scripted_always(run, *faults):
    seconds = 3 if run.options.short else 8
    run.drive(seconds + 3, (1, run.at_mark(lambda: run.there.tokens[0].play(*faults))),
              (seconds, lambda: run.there.tokens[0].play()))
    reasons = {reason: run.there.restarts(reason=reason) for reason in ("died", "timeout", "token", "memory")}
    run.notes.append("workers replaced: " + (", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
                                             or "none"))


def logged_out(run):
    scripted_always(run, "fault C_DeriveKey every=100 logout", "fault C_DeriveKey every=450 close-sessions")


def answered_wrong(run):
    """CKR_GENERAL_ERROR, FUNCTION_FAILED, DEVICE_ERROR, ENCRYPTED_DATA_INVALID, SESSION_HANDLE_INVALID,
    KEY_HANDLE_INVALID, OBJECT_HANDLE_INVALID, SESSION_COUNT and USER_NOT_LOGGED_IN, each for one call in 300."""
    scripted_always(run, *[f"fault {call} random=300 return={value:#x}"
                           for call in ("C_DeriveKey", "C_Decrypt")
                           for value in (0x5, 0x6, 0x30, 0x40, 0xB3, 0x60, 0x82, 0xB1, 0x101)])


def leaking(run):
    """4 MiB lost by every second call: the worker is replaced when it has grown by 256 MiB."""
    seconds = 4 if run.options.short else 10
    run.drive(seconds + 3, (1, run.at_mark(lambda: run.there.tokens[0].play("fault C_DeriveKey every=2 leak=4194304"))),
              (seconds, lambda: run.there.tokens[0].play()), rate=60)
    count = run.there.restarts(reason="memory")
    run.notes.append(f"{count} workers replaced for their size")
    run.expect(count >= 1, "no worker was replaced for its size")
    run.expect(run.there.restarts() == count, "workers were replaced for other reasons")


Fault = collections.namedtuple("Fault", "name title play tokens settings may_refuse short")
SCRIPTED, PAIR = {"a": deployment.ScriptedToken}, {"a": deployment.SoftHSMToken, "b": deployment.ScriptedToken}
FAULTS = [
    Fault("kill", "SIGKILL to the worker every second", killed, SCRIPTED, {}, True, True),
    Fault("stop", "SIGSTOP to the worker", stopped, SCRIPTED, {}, False, False),
    Fault("hang", "a call that never returns", hung, SCRIPTED, {}, False, True),
    Fault("crash", "a call that crashes", crashed, SCRIPTED, {}, False, False),
    Fault("moved", "token directory away for 3 s, worker killed", moved, SCRIPTED, {}, True, False),
    Fault("pin", "the token's PIN changed, the file not", rotated, SCRIPTED, {}, True, False),
    Fault("flood", "1,500 connections to both sockets", flooded, SCRIPTED, {"descriptors": 400}, False, False),
    Fault("server", "p11-kit server killed for 2 s, RSA_v1", remote, {"a": deployment.RemoteToken}, {}, True, False),
    Fault("pair-errors", "one of two tokens fails every call", two_errors, PAIR, {}, False, True),
    Fault("pair-hang", "one of two tokens hangs", two_hangs, PAIR, {}, False, False),
    Fault("sessions", "room for fewer sessions, then none", limited, SCRIPTED, {"sessions": 4}, False, False),
    Fault("logout", "spurious logouts, sessions closed", logged_out, SCRIPTED, {}, False, False),
    Fault("errors", "nine return values at random", answered_wrong, SCRIPTED, {}, False, False),
    Fault("memory", "a leak of 4 MiB every second call", leaking, SCRIPTED, {}, False, False),
]
HEAD = f"{'fault':45}{'sent':>8}{'right':>8}{'refused':>9}{'wrong':>7}{'hung':>6}{'recovered':>11}{'longest':>9}  may refuse"


def play(fault, options, tokens, number):
    """Runs one. Prints its row; returns what is wrong."""
    if not all(kind.is_installed() for kind in fault.tokens.values()):
        print(f"{fault.title:45} skipped: it needs p11-kit and its client module (Debian: p11-kit, p11-kit-modules)")
        return []
    settings = {"call_timeout": f"{options.call_timeout}s", **fault.settings}
    is_remote = deployment.RemoteToken in fault.tokens.values()
    merchants = ("rsa",) if is_remote else ("ec", "rsa")
    with deployment.Deployment(f"f{number}", fault.tokens, merchants=merchants, **settings) as there:
        if is_remote:
            tokens = [known for known in tokens if known.reference.startswith("rsa")]
        run = Run(options, tokens, there)
        fault.play(run)
        if not there.daemon.stop():
            run.wrong.append("the daemon did not end with 0 at SIGTERM")
    result, recovery = run.outcome, run.recovery()
    refused = sum(result.refused.values())
    print(f"{fault.title:45}{result.sent:8}{result.right:8}{refused:9}{len(result.wrong):7}{result.hung:6}"
          f"{'never' if recovery is None else f'{recovery:.2f} s':>11}{result.longest:7.2f} s  "
          f"{'yes' if fault.may_refuse else 'none'}", flush=True)
    details = [f"{count} {code}" for code, count in result.refused.most_common()] + run.notes
    if details:
        print(f"{'':6}{'; '.join(details)}", flush=True)
    wrong = result.wrong[:5] + run.wrong
    if len(result.wrong) > 5:
        wrong.append(f"and {len(result.wrong) - 5} more wrong answers")
    if result.hung:
        wrong.append(f"{result.hung} requests were not answered within {options.call_timeout + BESIDE} s")
    if refused and not fault.may_refuse:
        wrong.append(f"{refused} requests were refused that could have been answered")
    if recovery is None:
        wrong.append("it did not recover")
    if wrong or options.log:
        log = pathlib.Path(there.daemon.log).read_text(errors="replace").splitlines()
        print("\n".join(f"      | {line[:220]}" for line in log if " request." not in line)[-4000:], flush=True)
    return [f"{fault.name}: {message}" for message in wrong]


def main():
    parser = argparse.ArgumentParser(prog="scripts/soak faults", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", action="append", choices=[fault.name for fault in FAULTS],
                        help="only this one; may be repeated")
    parser.add_argument("--rate", type=int, default=200,
                        help="requests a second where refusals would else be without number (200)")
    parser.add_argument("--log", action="store_true", help="prints the daemon's last lines behind each row")
    options = service.arguments(parser)
    # So that what is slow in a debug build, beside others, does not count as a token that hangs.
    options.call_timeout = 3 if options.debug else 1
    chosen = [fault for fault in FAULTS
              if (fault.name in options.fault if options.fault else fault.short or not options.short)]
    deployment.make_merchants()
    count = 100 if options.short else 400
    curve, modulus = outcome.mint(count, "ec"), outcome.mint(count // 8, "rsa")
    # RSA_v1 for one request in nine.
    tokens = list(itertools.chain(*[[*curve[index * 8:index * 8 + 8], known] for index, known in enumerate(modulus)]))
    wrong = []
    print(HEAD)
    for number, fault in enumerate(chosen):
        wrong += play(fault, options, tokens, number)
    return proof.judge(wrong)


if __name__ == "__main__":
    with service.cleaning():
        sys.exit(main())
