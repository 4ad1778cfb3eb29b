"""Renewals of a merchant's certificate under payment load: two hosts, a node with the key of Apple's API, an outbound program, and
a simulator of the API, the portal and wallets. The ledger is in PostgreSQL. Each host has an HSM token of its own; a new key is made
on one host and cloned to the other. A third host is in the ledger and down, so every plan excludes it by name.

An operator gives `rotate renew` on a terminal and answers its questions; sometimes two operators do so at once. With --by-hand a person
renews without it: `rotate plan` names each step, and the person does it with paytokenctl, or in the portal. At steps that the seed
draws, a process is killed (SIGKILL) while the command runs: a daemon, its workers, the outbound program, the command itself, or the
database's server. A command that failed is repeated, once the plan names the step again. The half hour for which `rotate renew` only
reads after a lost answer passes at once: the attempt's time in the ledger is set back.
The seed also draws what Apple does not document, and acts of other people in the portal.

Wallets use the certificate that is active at the portal, then both for a while, and late ones the old certificate for longer. The
soak fails if a payment is refused, except as a replay; if a renewal gets two certificates; if a certificate is activated before every
required node has proved the key with it; if the old key is deactivated before the new one has opened a payment token on every
node; if a write follows an unanswered one without a person's decision; or if a record does not verify.

With --control a person makes one of the mistakes against which the plan warns. The soak must find that, and ends with 0 if it does.
"""
import base64
import bisect
import collections
import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import pty
import random
import re
import select
import subprocess
import time

import database
import deployment
import hosts_callers
import portal
import proof
import service

MERCHANT = deployment.MERCHANTS["ec"]
HOSTS, AWAY, PORTAL = ["host-a", "host-b"], "host-c", "portal"
VICTIMS = [*HOSTS, PORTAL, "workers of host-a", "workers of host-b", "outbound", "command", "database"]
STEPS = [b"distribute", b"prove", b"request", b"read", b"create", b"await_answer", b"find", b"decide_repeat", b"import",
         b"prove_with_certificate", b"activate", b"watch", b"make_test_payment", b"finish", b"revoke", b"stop", b"done"]
# The mistake of each control, and the words of a fault that it must cause.
CONTROLS = {"activates-early": "before it was proved", "requests-twice": "certificates"}


class Token(deployment.SoftHSMToken):
    """A SoftHSM token of one of two hosts. The second host's is a clone of the first one's, as HSM vendors offer it."""

    def clone(self, other):
        """Copies the objects that this HSM token has and the other one lacks into the other one. Returns True if there were
        any. Both must have the same secrets. The other's generation changes, so that programs read it again."""
        here, there = (next(pathlib.Path(token.tokens).iterdir()) for token in (self, other))
        lacking = [file for file in here.glob("*.object") if file.name != "token.object" and not (there / file.name).exists()]
        for file in lacking:
            (there / f"{file.name}.new").write_bytes(file.read_bytes())
            os.rename(there / f"{file.name}.new", there / file.name)
        if not lacking:
            return False
        with open(there / "generation", "r+b") as generation:
            number = int.from_bytes(generation.read(8), "big")
            generation.seek(0)
            generation.write((number + 1).to_bytes(8, "big"))
        return True


class Node(deployment.Deployment):
    """A daemon of the ledger."""

    def __init__(self, name, ledger, roles, merchants=(), more="", twin=None):
        self.name = name
        super().__init__(name, {"hsm": Token}, merchants=merchants, call_timeout="60s", ledger=ledger.settings(name, roles=roles) + more)
        if twin is not None:
            for file in pathlib.Path(self.tokens[0].tokens).iterdir():
                service.run("rm", "-r", file)
            service.run("cp", "-a", f"{twin.tokens[0].tokens}/.", self.tokens[0].tokens)


class Strikes:
    """Kills a process while a step runs, as the seed draws it, and starts it again."""

    def __init__(self, world, chance):
        self.world, self.chance, self.counts = world, chance, collections.Counter()
        self.command = None

    def around(self, action, share=0.5):
        """Does a step. Returns its result. share: the probability of a kill."""
        if self.chance.random() > share:
            return action()
        delay = self.chance.uniform(0, 0.6)
        # This thread kills, because the server ends with the thread that started it.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            doing = pool.submit(action)
            time.sleep(delay)
            self.strike()
            return doing.result(2 * service.GUARD)

    def strike(self):
        """Kills a process, and starts it again."""
        world, victim = self.world, self.chance.choice(VICTIMS)
        self.counts[victim] += 1
        if victim == "command":
            command = self.command
            if command is not None:
                command.kill()
        elif victim == "outbound":
            world.outbound.kill()
            world.outbound.spawn()
        elif victim == "database":
            world.server.kill()
            world.server.start()
        elif victim.startswith("workers"):
            world.nodes[victim.rpartition(" ")[2]].kill_workers()
        else:
            world.nodes[victim].daemon.kill()
            world.nodes[victim].daemon.start(ready=False)


class World(service.Contexts):
    """All programs and the load. A context manager."""

    def __init__(self, seed, rate):
        super().__init__()
        # The times at which the renewals began.
        self.seed, self.rate, self.began = seed, rate, []

    def begin(self):
        deployment.make_merchants()
        self.server = self.enter_context(database.Server())
        ledger = self.ledger = self.server.ledger("ledger")
        first = Node(HOSTS[0], ledger, "decrypt, monitor, audit, admin", ("ec",))
        second = Node(HOSTS[1], ledger, "decrypt, monitor, audit, admin", ("ec",), twin=first)
        away = Node(AWAY, ledger, "decrypt, monitor, audit, admin")
        # The API's key is on a node that serves no payments.
        apart = Node(PORTAL, ledger, "portal-read, monitor, audit, admin", more=portal.SECTION)
        self.nodes = {node.name: self.enter_context(node) for node in (first, second, apart)}
        with away:
            pass
        self.ctl(PORTAL, "key", "import", "--use", "service", "--private-key", portal.TEAM_KEY)
        self.portal = self.enter_context(portal.Portal("authority/ec.pem"))
        self.outbound = self.enter_context(self.portal.outbound(apart.daemon))
        self.outbound.spawn()
        self.wallets = portal.Wallets(self.portal, MERCHANT)
        self.load = hosts_callers.Payments({name: self.nodes[name].socket for name in HOSTS}, service.GUARD, self.rate, self.seed)
        self.load.minters = [self.wallets]

    def clone(self):
        """Clones new keys to the second host. Returns True if there were any."""
        first, second = (self.nodes[name] for name in HOSTS)
        return first.tokens[0].clone(second.tokens[0])

    def ctl(self, node, *arguments):
        return self.nodes[node].daemon.ctl(*arguments)


class Person:
    """Renews the certificate by the plan, sometimes together with another person who gives the same commands at the same time.

    control: the mistake that the person makes; None for none.
    """

    def __init__(self, world, strikes, chance, number, control):
        self.world, self.strikes, self.chance, self.number, self.control = world, strikes, chance, number, control
        self.key = self.certificate = self.latest = None
        self.told = ""
        # The certificates that wallets used before.
        self.previous = [each for each in certificates(world) if each["activated"]]
        self.file = os.path.abspath(f"renewal-{number}.cer")
        self.steps = {"generate": self.generate, "prove": self.prove, "create": self.create, "import": self.import_certificate,
                      "prove_with_certificate": self.prove_with_certificate, "activate": self.activate, "watch": self.watch,
                      "make_test_payment": self.watch}

    def renew(self):
        """Returns when the old key is deactivated."""
        until = time.monotonic() + 3 * service.GUARD
        while not ((plan := self.plan())["step"] in ("generate", "done") and self.key):
            if time.monotonic() > until or plan["step"] == "stop":
                raise service.Failed(f"renewal {self.number} is still at {plan['step']}: {plan['next']} {self.told}")
            # Other steps are shown while Apple's list is too old, or lacks a new certificate.
            step = self.steps.get(plan["step"], self.wait)
            self.strikes.around(lambda step=step, plan=plan: step(plan), 0.5 if self.is_news(plan) else 0.05)

    def is_news(self, plan):
        """Returns True if the plan names another step than before."""
        before, self.latest = self.latest, plan["step"]
        return before != plan["step"]

    def wait(self, plan):
        time.sleep(1)

    def run(self, node, *arguments):
        """Runs paytokenctl. Returns its output, or None if it failed."""
        daemon = self.world.nodes[node].daemon

        def begun():
            return subprocess.Popen(["paytokenctl", *arguments], env=daemon.environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
        others = [begun()] if self.chance.random() < 0.2 else []
        with begun() as command:
            self.strikes.command = command
            output, said = command.communicate(timeout=service.GUARD)
        self.strikes.command = None
        for other in others:
            other.communicate(timeout=service.GUARD)
            self.strikes.counts["two people at once"] += 1
        if command.returncode != 0:
            self.told = f"{node}: {' '.join(arguments)}: exit {command.returncode}: {said.decode(errors='replace').strip()}"
        return output if command.returncode == 0 else None

    def plan(self):
        def planned():
            output = self.run(PORTAL, "rotate", "plan", MERCHANT, "--exclude-node", AWAY, "--output", "json")
            return json.loads(output)[0] if output else None
        return service.wait(lambda: f"a plan ({self.told})", planned, 2 * service.GUARD, 0.5)

    # The steps, by the plan's names.

    def generate(self, plan):
        # A command without an answer may have made the key.
        self.run(HOSTS[0], "rotate", "start", MERCHANT)

    def prove(self, plan):
        self.key = plan["publicKeyHash"]
        # Without an open renewal a daemon lists the keys of an HSM token when its worker opens it.
        if plan["step"] == "prove" and self.world.clone():
            self.world.nodes[HOSTS[1]].kill_workers()
        for node in HOSTS:
            self.run(node, "key", "prove", self.key)

    def create(self, plan):
        # The plan names this step until a newer list has the certificate.
        if self.certificate is not None:
            return self.wait(plan)
        request = f"renewal-{self.number}-{time.monotonic_ns()}.csr"
        if self.run(HOSTS[0], "csr", "create", plan["publicKeyHash"], "--out", request) is None:
            return None
        try:
            self.certificate = self.world.portal.ask("create", MERCHANT, request, self.file)["id"]
        except portal.Refused as refusal:
            self.told = str(refusal)
            self.strikes.counts["refused by the portal"] += 1
            if self.certificate is None:
                clean(self.world)
        if self.control and self.certificate:
            if self.control == "activates-early":
                self.world.portal.ask("activate", self.certificate)
                # Until the import, payments with the key are refused and repeated, and the load would not end.
                for node in HOSTS:
                    service.wait("the import after the mistake",
                                 lambda node=node: self.run(node, "rotate", "import", self.file) is not None, pause=1)
            else:
                self.world.portal.ask("create", MERCHANT, request, self.file)
            raise service.Failed("the mistake is made")

    def import_certificate(self, plan):
        for node in HOSTS:
            self.run(node, "rotate", "import", self.file)

    def prove_with_certificate(self, plan):
        # The plan names this step as soon as one host has imported the certificate.
        self.import_certificate(plan)
        self.prove(plan)

    def activate(self, plan):
        self.world.portal.ask("activate", self.certificate)
        self.wait(plan)

    def watch(self, plan):
        self.key = plan["publicKeyHash"]
        # A person checks that every node opens payment tokens with the new key.
        if not all(self.world.load.opened[node, self.key] for node in HOSTS):
            return self.wait(plan)
        # The option --force leaves out the hour without payment tokens for the old key, which has a cut-off.
        self.run(HOSTS[0], "rotate", "finish", MERCHANT, "--force", "--cut-off", "1d")


class Terminal:
    """A command on a terminal of its own, whose questions are answered with yes."""

    def __init__(self, command, environment):
        self.terminal, inside = pty.openpty()
        self.process = subprocess.Popen(command, env=environment, stdin=inside, stdout=inside, stderr=inside, start_new_session=True)
        os.close(inside)
        self.said = b""

    def kill(self):
        self.process.kill()

    def turn(self):
        """Reads what the command says, and answers a question. Returns the exit status, or None while it runs."""
        if select.select([self.terminal], [], [], 0.1)[0]:
            # The end of a terminal is an error.
            with contextlib.suppress(OSError):
                self.said += os.read(self.terminal, 1 << 16)
            if self.said.endswith(b"Type yes: "):
                os.write(self.terminal, b"yes\n")
                self.said += b"\n"
        return self.process.poll()

    def steps(self):
        """Returns the names of the steps that the command has shown."""
        return [name for name in re.findall(rb"^([a-z_]+): ", self.said.replace(b"\r", b"\n"), re.M) if name in STEPS]

    def close(self):
        os.close(self.terminal)


class Operator(Person):
    """Renews with `rotate renew` on a terminal, sometimes while another operator does the same."""

    def renew(self):
        self.until, self.flags = time.monotonic() + 6 * service.GUARD, []
        service.wait("a new key", self.has_new_key, pause=1)
        self.finish()
        # Apple may have revoked the replaced certificate by itself.
        if self.chance.random() < 0.5 and not self.has_taken_place("revoke"):
            self.strikes.counts["old certificate revoked"] += 1
            self.finish("--revoke-old")

    def finish(self, *more):
        """Repeats the command until it says that nothing is left to do."""
        while self.command(*more) != 0:
            if time.monotonic() > self.until:
                raise service.Failed(f"renewal {self.number} does not end: {self.told}")
            self.decide()

    def has_new_key(self):
        plan = self.plan()
        if plan["step"] in ("generate", "done"):
            self.strikes.around(lambda: self.generate(plan))
            return False
        self.key = plan["publicKeyHash"]
        return True

    def command(self, *more):
        """Returns the exit status of the first operator's command. Kills a process at half of the steps that it shows."""
        daemon = self.world.nodes[PORTAL].daemon
        words = ["paytokenctl", "rotate", "renew", MERCHANT, "--exclude-node", AWAY, *self.flags, *more]
        terminals = [Terminal(words, daemon.environment) for _ in range(2 if self.chance.random() < 0.3 else 1)]
        self.strikes.counts["two people at once"] += len(terminals) - 1
        self.strikes.command, self.flags = terminals[0], []
        self.world.clone()
        statuses, count, since, strike = [None], 0, time.monotonic(), math.inf
        while None in statuses:
            statuses = [terminal.turn() for terminal in terminals]
            shown = [terminal.steps() for terminal in terminals]
            # The other operator's command may go on after the first one's has been killed.
            steps = shown[statuses.index(None)] if None in statuses else shown[0]
            if sum(map(len, shown)) > count:
                count = sum(map(len, shown))
                strike = time.monotonic() + self.chance.uniform(0, 0.6) if self.chance.random() < 0.5 else math.inf
                # A read that fails in between changes the step for a moment.
                if steps[-1:] not in ([b"find"], [b"read"]):
                    since = time.monotonic()
            if time.monotonic() > strike:
                strike = math.inf
                self.strikes.strike()
            # No request is under way by then, and the portal's lists are complete.
            if steps[-1:] == [b"find"] and time.monotonic() > since + 90:
                since = time.monotonic()
                self.strikes.counts["half an hour without an answer"] += 1
                self.world.ledger.sql("UPDATE renewal_attempt SET intended_at = intended_at - 1800000 "
                                      "WHERE outcome IN ('intended', 'unknown')")
        self.strikes.command = None
        for terminal in terminals:
            terminal.close()
        self.told = f"exit {statuses[0]}: {terminals[0].said.decode(errors='replace')[-600:]}"
        self.latest = shown[0][-1].decode() if shown[0] else None
        return statuses[0]

    def decide(self):
        """Does what the command has left to a person."""
        if self.latest == "stop":
            raise service.Failed(f"renewal {self.number} stopped: {self.told}")
        if self.latest in ("watch", "make_test_payment"):
            service.wait(f"payments of renewal {self.number} on every node", lambda: self.world.load.must_go_on() and all(
                self.world.load.opened[node, self.key] for node in HOSTS), pause=0.1)
            self.flags = ["--test-payment-made"]
        elif self.latest == "decide_repeat" and not self.has_taken_place((last := self.plan()["attempts"][-1])["change"]):
            # A limit is the usual reason for a refusal.
            if last["change"] == "create":
                clean(self.world, self.key)
            self.world.load.past.operation(time.monotonic(), time.monotonic(), "person", "decision", "done", at=time.time())
            self.strikes.counts[f"repeated {last['change']} after {last['outcome']}"] += 1
            self.flags = ["--repeat-attempt", f"{last['change']}:{last['number']}"]
        else:
            time.sleep(1)

    def has_taken_place(self, change):
        """Returns True if the portal shows the change."""
        listed, old = certificates(self.world), [each["id"] for each in self.previous]
        own = [each for each in listed if base64_of(each["publicKeyHash"]) == self.key]
        if change == "revoke":
            return all(each["id"] not in old for each in listed)
        return any(change == "create" or each["activated"] for each in own)


def certificates(world):
    return world.portal.ask("certificates", MERCHANT)["certificates"]


def base64_of(key):
    return base64.b64encode(bytes.fromhex(key)).decode()


def clean(world, key=None):
    """Revokes the certificates that wallets do not use, except that of a key, so that the portal has room."""
    for certificate in certificates(world):
        if not certificate["activated"] and base64_of(certificate["publicKeyHash"]) != key:
            world.portal.ask("revoke", certificate["id"])


def renew(world, strikes, chance, number, options):
    """Makes one renewal, with a portal of another behaviour, and notes it in the history."""
    began, past, control = time.monotonic(), world.load.past, options.control
    # The number of lists in which a change may be missing. The plan reads one a minute.
    most = 1 if options.short else 3
    world.portal.ask("draw", chance.randrange(1 << 32), most)
    if control:
        # The portal must permit the mistake.
        world.portal.ask("limit", 9)
    elif chance.random() < 0.3:
        world.portal.ask("before", "GET", "createOther", MERCHANT)
    person = (Person if options.by_hand or control else Operator)(world, strikes, chance, number, control)
    world.began.append(time.time())
    try:
        person.renew()
    finally:
        if person.key:
            past.operation(began, time.monotonic(), "person", "renewal", "done", key=person.key, nodes=HOSTS,
                           previous=[base64_of(each["publicKeyHash"]) for each in person.previous])
    print(f"renewal {number:3}  {time.monotonic() - began:5.0f} s, {world.load.released():7} payment tokens released", flush=True)
    # A payment token of a late wallet may still come.
    clean(world)


def note(world):
    """Adds what happened at the portal to the history."""
    past, offset, before = world.load.past, time.time() - time.monotonic(), {}
    for change in world.portal.ask("changes")["changes"]:
        at = change["time"]
        itself = change["kind"] == "activated" and (before.get("id"), before.get("time")) == (change["id"], at)
        past.operation(at - offset, at - offset, "portal", "certificate", "done", key=base64_of(change["publicKeyHash"]),
                       change=change["kind"], at=at, itself=itself or None)
        before = change
    requests = world.portal.ask("requests")["requests"]
    for request in requests:
        if request["method"] != "GET":
            is_known = request["answered"] and request["status"] < 500
            # The request for each renewal's certificate has the same path.
            number = bisect.bisect(world.began, request["time"])
            past.operation(request["time"] - offset, request["time"] - offset, "outbound", "write", "done" if is_known else "unknown",
                           request=f"renewal {number}: {request['method']} {request['target']}", at=request["time"])
    return requests


def main(parser):
    parser.add_argument("--control", choices=CONTROLS, help="a mistake that the soak must find")
    parser.add_argument("--by-hand", action="store_true", help="by rotate plan and the portal instead of rotate renew, as in a control")
    options = service.parse(parser, seed="of the kills, the portal's behaviour and the load",
                            renewals=(50, 3, "number of renewals"), rate=(20, 10, "payment tokens a second at most"))
    chance, began = random.Random(options.seed), time.monotonic()
    print(f"{options.renewals} renewals, {options.rate} payment tokens a second at most, --seed {options.seed}", flush=True)
    with World(options.seed, options.rate) as world:
        load, strikes = world.load, Strikes(world, chance)
        load.start()
        # A mistake ends the renewal.
        with contextlib.suppress(*[service.Failed] * bool(options.control)):
            for number in range(1, options.renewals + 1):
                renew(world, strikes, chance, number, options)
        load.finish()
        requests = note(world)
        print("tokens      " + ", ".join(f"{count} {what}" for what, count in world.wallets.counts.items()))
        print("asked again " + (", ".join(f"{load.counts[why]} after {why}" for why in sorted(load.counts)
                                          if why not in ("released", "repeated", "replayed")) or "none"))
        print("meanwhile   " + ", ".join(f"{count} {what}" for what, count in sorted(strikes.counts.items())))
        print(f"portal      {len(requests)} requests, {sum(not request['answered'] for request in requests)} without a whole answer")
        wrong = load.wrong + load.hung + load.past.judge(f"renewals-{options.seed}", world.ledger.lines(), not options.control)
        for name, node in world.nodes.items():
            print(f"verified    {name}")
            wrong += proof.verify(node.daemon)
        print(f"took        {time.monotonic() - began:.0f} s")
    if options.control:
        found = [fault for fault in wrong if CONTROLS[options.control] in fault]
        print(f"control     {options.control}: " + (f"found: {found[0]}" if found else "NOT found"))
        return [] if found else [f"the soak does not find {options.control}"]
    return wrong
