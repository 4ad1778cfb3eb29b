"""Breaks the HSM token, its worker and their environment under load, and prints the effects on callers.

Each row has a separate daemon. Every answer is compared with the minted content, and is right, refused, wrong or hung. Refused
means 503 with hsm_unavailable, ledger_unavailable, overloaded or deadline_exceeded. Hung means no answer long after the request's
deadline. Wrong means anything else, such as other bytes or another code. "recovered" is the time from the fault, or from its end
if it lasts, until every answer is right and fast again: within half a second, or within five times the longest time before the
fault. If a fault occurs several times, it is the longest. A fault lasts until it has an effect: the steps wait for events, and
use the clock only to check that something does not happen. If calls can be made at another HSM token or repeated, no request may
be refused. Such rows have "none" in the column "may refuse". Payment tokens that do not decrypt must be refused with
decryption_failed, and no worker may be replaced because of them.
"""
import collections
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import signal
import sys
import time

import deployment
import load
import outcome
import service

# The seconds that the daemon may take in addition to call_timeout: ten for a repetition after a worker's start, and a minute for
# a busy machine.
BESIDE = 10 + 60
# This number of right and fast answers in a row counts as a recovery.
STREAK = 32

Event = collections.namedtuple("Event", "name has_come")


class Run:
    """One fault: its load, its steps, and its result."""

    def __init__(self, options, pool, there):
        self.options, self.pool, self.there = options, pool, there
        self.outcome, self.notes, self.wrong = outcome.Outcome(), [], []
        # The times at which faults began, the times from which recovery counts, and the time at which the last step was done.
        self.faults, self.marks, self.until = [], [], 0.0
        # A request that takes longer, in seconds, was delayed by the fault.
        self.held_up = None

    def mark(self):
        """Marks the time from which the recovery counts."""
        self._compare()
        self.marks.append(time.monotonic())

    def breaks(self):
        """Begins a fault, which lasts until a mark."""
        self._compare()
        self.faults.append(time.monotonic())

    def _compare(self):
        """Determines from the answers before the first fault which answers count as fast on this machine."""
        if self.held_up is None:
            self.held_up = max(outcome.HELD_UP, 5 * self.outcome.longest)

    def play(self, steps, rate=None, clients=16):
        """Runs the load until the steps are done. Each step yields the event that the next one waits for. So a fault lasts until
        it has an effect, however fast the machine is."""
        waits, since = None, 0.0

        def tick():
            nonlocal waits, since
            while waits is None or waits.has_come():
                waits, since = next(steps, None), time.monotonic()
                if waits is None:
                    self.until = since
                    return True
            if time.monotonic() - since > service.GUARD:
                raise service.Failed(f"{waits.name} did not come within {service.GUARD} s")
            return False
        load.drive(self.there.socket, clients, outcome.paced(self.pool, rate), self.outcome.answered, tick=tick,
                   limit=self.options.call_timeout + BESIDE)

    def asked(self, name, question):
        """Returns an event that queries the daemon at most ten times a second."""
        return Event(name, service.seldom(question, 0.1))

    def right(self, count):
        """Waits for `count` more right answers."""
        wanted = self.outcome.right + count
        return Event(f"{count} right answers", lambda: self.outcome.right >= wanted)

    def refused(self, count):
        """Waits for `count` more refusals."""
        wanted = sum(self.outcome.refused.values()) + count
        return Event(f"{count} refusals", lambda: sum(self.outcome.refused.values()) >= wanted)

    def passed(self, seconds):
        """Waits for a time in which something must not happen."""
        end = time.monotonic() + seconds
        return Event(f"{seconds} s", lambda: time.monotonic() >= end)

    def restarted(self, count, **labels):
        """Waits until `count` workers were replaced in all."""
        said = ", ".join(labels.values()) or "any reason"
        return self.asked(f"the replacement of {count} workers ({said})", lambda: self.there.restarts(**labels) >= count)

    def recovered(self):
        """Waits until every answer since the last mark is right and fast again."""
        mark = self.marks[-1]

        def has_come():
            last = self.outcome.history[-STREAK:]
            return len(last) == STREAK and all(
                right and began >= mark and ended - began <= self.held_up for began, ended, right in last)
        return Event("the recovery", has_come)

    def recovery(self):
        """Returns the longest recovery, or None if one was missing."""
        ends = [min((moment for moment in self.faults + self.marks if moment > mark), default=self.until)
                for mark in self.marks]
        times = [self.outcome.recovered(mark, end, self.held_up) for mark, end in zip(self.marks, ends)]
        return None if not times or None in times else max(times)

    def expect(self, condition, message):
        if not condition:
            self.wrong.append(message)


def replaced(run, strike, reason, rounds):
    """Causes the fault repeatedly. Each time the worker must be replaced for this reason."""
    def steps():
        yield run.right(100)
        for number in range(rounds):
            run.mark()
            strike()
            yield run.restarted(number + 1, reason=reason)
            yield run.recovered()
    run.play(steps())
    run.notes.append(f"{run.there.restarts(reason=reason)} workers replaced")


def killed(run):
    replaced(run, run.there.kill_workers, "died", 3 if run.options.short else 20)


def stopped(run):
    replaced(run, lambda: os.kill(run.there.workers()[0], signal.SIGSTOP), "timeout", 1 if run.options.short else 3)


def hung(run):
    replaced(run, lambda: run.there.tokens[0].play("fault C_DeriveKey nth=100 hang once"), "timeout", 1 if run.options.short else 3)


def crashed(run):
    replaced(run, lambda: run.there.tokens[0].play("fault C_DeriveKey nth=100 crash once"), "died", 1 if run.options.short else 3)


def away(run, strike, repair, rounds, rate):
    """Keeps the HSM token away until requests are refused."""
    def steps():
        yield run.right(100)
        for _ in range(rounds):
            run.breaks()
            yield from strike()
            yield run.refused(20)
            repair()
            run.mark()
            yield run.recovered()
    run.play(steps(), rate=rate)


def moved(run):
    """Moves the HSM token's directory away. A worker may continue with the data that it has in memory, so the workers are then
    killed."""
    token = run.there.tokens[0]

    def strike():
        os.rename(token.tokens, token.tokens + ".away")
        yield run.passed(1)
        run.there.kill_workers()
    away(run, strike, lambda: os.rename(token.tokens + ".away", token.tokens), 1 if run.options.short else 2, run.options.rate)


def remote(run):
    token = run.there.tokens[0]

    def strike():
        token.kill()
        yield from ()
    away(run, strike, token.serve, 1 if run.options.short else 3, min(run.options.rate, 100))


def rotated(run):
    """Changes the HSM token's PIN but not the PIN file. Then the worker is killed, and the daemon restarts."""
    token, daemon = run.there.tokens[0], run.there.daemon
    token.play(f"log {token.log}")
    logins = lambda: [result for result in token.calls("C_Login") if result != 0]
    pathlib.Path("pin.new").write_text("80215703\n")
    os.chmod("pin.new", 0o600)

    def reload():
        daemon.process.send_signal(signal.SIGHUP)

    def rotation():
        yield run.right(100)
        service.run(sys.executable, pathlib.Path(__file__).parent / "set_pin.py", token.softhsm, token.pin, "pin.new",
                    env={**os.environ, **{"SOFTHSM2_CONF": token.conf}})
        yield run.right(200)
        run.expect(not run.outcome.refused, "the login before the rotation was given up")

    def death():
        run.there.kill_workers()
        yield run.asked("a refused login", logins)
        # After each of these refusals, a daemon with a fault could try the PIN again.
        yield run.refused(100)
        yield run.passed(3)
        run.expect(len(logins()) == 1, f"{len(logins())} refused logins after the worker's death, not 1")

    def restart():
        yield run.refused(50)
        reload()
        yield run.refused(50)
        yield run.passed(2)
        run.expect(len(logins()) == 1, f"{len(logins())} refused logins after restart and SIGHUP, not 1")

    def repair():
        os.replace("pin.new", token.pin)
        reload()
        run.mark()
        yield run.recovered()
    run.play(rotation(), rate=run.options.rate)
    run.play(death(), rate=run.options.rate)
    run.wrong += daemon.stop()
    daemon.start(ready=False)
    run.play(restart(), rate=run.options.rate)
    run.play(repair(), rate=run.options.rate)
    run.notes.append(f"{len(logins())} refused login, through a death, a restart and a SIGHUP")
    run.expect(len(logins()) == 1, f"{len(logins())} refused logins in all, not 1")


def flooded(run):
    """The load keeps its connections while a flood takes all other connections of both sockets."""
    ended, there = multiprocessing.Event(), multiprocessing.Event()
    crowd = multiprocessing.Process(target=deployment.flood,
                                    args=([run.there.socket, run.there.daemon.admin], there, ended), daemon=True)

    def steps():
        yield run.right(100)
        run.breaks()
        crowd.start()
        # The wait also ends if the flood failed, which is checked below.
        yield Event("the flood", lambda: there.is_set() or not crowd.is_alive())
        yield run.right(300 if run.options.short else 3000)
        ended.set()
        yield Event("the flood's end", lambda: not crowd.is_alive())
        run.mark()
        yield run.recovered()
    try:
        run.play(steps())
    finally:
        ended.set()
    crowd.join()
    run.expect(crowd.exitcode == 0, f"the flood ended with {crowd.exitcode}")
    run.expect(run.there.restarts() == 0, "workers were replaced")


# Deviations of payment tokens that have a valid signature but cannot be decrypted, by the type of the merchant's key.
BAD = {"ec": ["point-off-curve", "bad-tag", "other-merchant-identifier"],
       "rsa": ["bad-tag", "wrapped-key-with-sha1", "wrapped-key-with-label", "wrapped-key-with-first-octet",
               "wrapped-key-for-other-key", "wrapped-key-with-pkcs1"]}


def press(path, bad, ended, answers):
    """Sends requests over eight connections until `ended` is set. Puts the counted answers into the queue. Runs in a separate
    process."""
    codes = collections.Counter()

    def answered(tag, status, body, began, now):
        codes[tag, status, json.loads(body).get("code") if body else None] += 1
    load.drive(path, 8, itertools.takewhile(lambda pair: not ended.is_set(), itertools.cycle(bad)), answered, limit=service.GUARD)
    answers.put(codes)


def stormed(run):
    """Payment tokens that do not decrypt, mixed with valid ones. The HSM token is called twice for each, because it returns the
    same errors for its own faults."""
    bad = [(f"{kind} {deviation}", load.decrypt(token)) for kind, deviations in BAD.items() for deviation in deviations
           for token in service.mint(5 if run.options.short else 50, "--deviation", deviation, certificate=f"authority/{kind}.pem")]
    random.shuffle(bad)
    ended, answers = multiprocessing.Event(), multiprocessing.Queue()
    crowd = multiprocessing.Process(target=press, args=(run.there.socket, bad, ended, answers), daemon=True)

    def steps():
        yield run.right(100)
        run.breaks()
        crowd.start()
        yield run.right(300 if run.options.short else 5000)
        ended.set()
        run.mark()
        yield run.recovered()
    try:
        run.play(steps(), clients=8)
    finally:
        ended.set()
    codes = answers.get(timeout=service.GUARD)
    for (kind, status, code), count in sorted(codes.items()):
        run.expect((status, code) == (422, "decryption_failed"), f"{count} of {kind} were answered {status} {code}")
    run.expect({kind for kind, *_ in codes} == {kind for kind, _ in bad}, "not every kind was refused")
    run.expect(run.there.restarts() == 0, "workers were replaced")
    run.notes.append(f"{sum(codes.values())} refused with decryption_failed")


def one_of_two(run, fault, ends):
    """Makes the second HSM token fail, and repairs it if the fault does not end by itself. The run has recovered when no request
    is delayed any more. After that, the HSM token must be used again."""
    first, second = run.there.tokens
    well, back = [], []

    def decryptions():
        return run.there.decryptions(second.name)

    def used():
        if decryptions() > well[0][1]:
            back.append(time.monotonic() - well[0][0])
        return back

    def steps():
        yield run.right(100)
        run.mark()
        second.play(fault)
        yield run.restarted(1, token=second.name)
        yield run.right(200)
        if not ends:
            second.play()
        well.append((time.monotonic(), decryptions()))
        yield run.asked(f"the token {second.name} being used again", used)
        yield run.recovered()
    run.play(steps())
    run.notes.append(f"used again {back[0]:.1f} s after it was well")
    shares = [int(run.there.decryptions(token.name)) for token in run.there.tokens]
    run.notes.append(f"calls answered {shares[0]} and {shares[1]}")


def two_errors(run):
    one_of_two(run, "fault * always return=0x30", ends=False)


def two_hangs(run):
    one_of_two(run, "fault C_DeriveKey nth=50 hang once", ends=True)


def limited(run):
    """Four sessions are configured, but the HSM token permits three from the start, and later no new ones."""
    token = run.there.tokens[0]

    def steps():
        yield run.right(100)
        token.play("session-limit 3")
        run.there.kill_workers()
        yield run.restarted(1, reason="died")
        yield run.right(200)
        run.mark()
        token.play("session-limit 1")
        yield run.right(200)
        token.play("session-limit 3", "fault C_DeriveKey nth=10 close-sessions")
        yield run.right(400)
        yield run.recovered()
    run.play(steps(), rate=run.options.rate)


def scripted_always(run, *faults):
    def steps():
        yield run.right(100)
        run.mark()
        run.there.tokens[0].play(*faults)
        yield run.right(300 if run.options.short else 1500 if run.options.debug else 15000)
        run.there.tokens[0].play()
        yield run.recovered()
    run.play(steps())
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
    """Makes every second call leak 4 MiB. The worker must be replaced when it has grown by 256 MiB."""
    def steps():
        yield run.right(100)
        run.mark()
        run.there.tokens[0].play("fault C_DeriveKey every=2 leak=4194304")
        yield run.restarted(1, reason="memory")
        run.there.tokens[0].play()
        yield run.recovered()
    run.play(steps(), rate=60)
    count = run.there.restarts(reason="memory")
    run.notes.append(f"{count} workers replaced for their size")
    run.expect(run.there.restarts() == count, "workers were replaced for other reasons")


Fault = collections.namedtuple("Fault", "name title play tokens settings may_refuse short")
SCRIPTED, PAIR = {"a": deployment.ScriptedToken}, {"a": deployment.SoftHSMToken, "b": deployment.ScriptedToken}
FAULTS = [
    Fault("kill", "SIGKILL to the worker, as soon as it serves", killed, SCRIPTED, {}, True, True),
    Fault("stop", "SIGSTOP to the worker", stopped, SCRIPTED, {}, False, False),
    Fault("hang", "a call that never returns", hung, SCRIPTED, {}, False, True),
    Fault("crash", "a call that crashes", crashed, SCRIPTED, {}, False, False),
    Fault("moved", "token directory away, worker killed", moved, SCRIPTED, {}, True, False),
    Fault("pin", "the token's PIN changed, the file not", rotated, SCRIPTED, {}, True, False),
    Fault("flood", "1,500 connections to both sockets", flooded, SCRIPTED, {"descriptors": 400}, False, False),
    Fault("storm", "payment tokens that do not open", stormed, {"a": deployment.SoftHSMToken}, {"call_timeout": "10s"}, False,
          True),
    Fault("server", "p11-kit server killed, later started, RSA_v1", remote, {"a": deployment.RemoteToken}, {}, True, False),
    Fault("pair-errors", "one of two tokens fails every call", two_errors, PAIR, {}, False, True),
    Fault("pair-hang", "one of two tokens hangs", two_hangs, PAIR, {}, False, False),
    Fault("sessions", "room for fewer sessions, then none", limited, SCRIPTED, {"sessions": 4}, False, False),
    Fault("logout", "spurious logouts, sessions closed", logged_out, SCRIPTED, {}, False, False),
    Fault("errors", "nine return values at random", answered_wrong, SCRIPTED, {}, False, False),
    Fault("memory", "a leak of 4 MiB every second call", leaking, SCRIPTED, {}, False, False),
]
HEAD = f"{'fault':45}{'sent':>8}{'right':>8}{'refused':>9}{'wrong':>7}{'hung':>6}{'recovered':>11}{'longest':>9}  may refuse"


def play(fault, options, number):
    """Runs one fault. Prints its row; returns what is wrong."""
    if not all(kind.is_installed() for kind in fault.tokens.values()):
        print(f"{fault.title:45} skipped: it needs p11-kit and its client module (Debian: p11-kit, p11-kit-modules)")
        return []
    settings = {"call_timeout": f"{options.call_timeout}s", **fault.settings}
    is_remote = deployment.RemoteToken in fault.tokens.values()
    merchants = ("rsa",) if is_remote else ("ec", "rsa")
    with deployment.Deployment(f"f{number}", fault.tokens, merchants=merchants, **settings) as there:
        # One request in nine is RSA_v1.
        with outcome.Pool(rsa=12) if is_remote else outcome.Pool(ec=96, rsa=12) as pool:
            run = Run(options, pool, there)
            try:
                fault.play(run)
            except service.Failed as failure:
                run.wrong.append(str(failure))
        run.wrong += there.daemon.stop()
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


def main(parser):
    parser.add_argument("--fault", action="append", choices=[fault.name for fault in FAULTS],
                        help="only this one; may be repeated")
    parser.add_argument("--rate", type=int, default=200,
                        help="requests a second where refusals would else be without number (200)")
    parser.add_argument("--log", action="store_true", help="prints the daemon's last lines after each row")
    options = parser.parse_args()
    # The timeout is long enough that a slow call, in a debug build or on a busy machine, does not count as a hang.
    options.call_timeout = 3
    chosen = [fault for fault in FAULTS
              if (fault.name in options.fault if options.fault else fault.short or not options.short)]
    deployment.make_merchants()
    wrong = []
    print(HEAD)
    for number, fault in enumerate(chosen):
        wrong += play(fault, options, number)
    return wrong
