"""Three daemons with a ledger on a PostgreSQL primary and its synchronous standby, under load, while both servers, the network
between the hosts and the daemons fail. Each daemon has a separate HSM token with the same merchant keys, one for Apple Pay and one for
Google Pay, and each of the five programs has a separate network namespace. A third of the payment tokens are of Google Pay.

In a fail-over, the primary is killed (SIGKILL), the standby is promoted, and the old primary rejoins as the standby, rewound or
freshly copied. The other faults are spread among the fail-overs; `scripts/soak hosts --list` names them. Some are hindrances, under
which all daemons must go on releasing. In a race no component fails. All daemons get the same payment tokens at the same moment, with
one reference or with different ones, and only one daemon may release each. In the middle of the run, a base backup from some faults
earlier replaces both servers. All nodes must then release nothing until two people accept it. Payment tokens whose release is missing
in the backup must stay refused.

With --minutes, the seed draws what comes until the time is over: a fault, a hindrance or two, or a fault during a hindrance, with how
long they last and all other numbers. Step N depends only on the seed, --faults and N, so --first N repeats a run from that step on.

At the end every request must have been answered. The history of all requests and answers must keep the rules of
scripts/check-history, with the record of the node that gave the answer, and a suspended key must not have been used. No answer may have
taken longer than ledger.timeout and a margin, and every record must verify. The margin is another ledger.timeout (three more with
--short), for everything except the ledger. Faults last longer than both together (with --short longer than one of them), so an
answer without a deadline would come only after the fault. Time during which the daemon itself is stopped does not count.
"""
import collections
import contextlib
import itertools
import os
import random
import statistics
import time

import clocks
import cluster
import deployment
import hindrances
import hosts_callers
import logged_disk
import network
import outages
import patroni_cluster
import proof
import service

NODES = ["node-1", "node-2", "node-3"]
FAIL_OVERS = ["fail-over", "leader-killed"]
FAULTS = ["race", "suspended-key", "fail-over", "vanished-primary", "two-primaries", "partitioned-daemon", "partitioned-standby", "stopped-server",
          "stopped-standby", "lagging-standby", "stopped-daemon", "lost-daemon", "full-disk", "flood", *hindrances.Hindrances.NAMES,
          "restore", "restore-at-rest"]
RESTORES = ["restore", "restore-at-rest"]
# The backup for a restore is made this number of faults earlier.
BACK_UP, FORGOTTEN = "back-up", 4
# --short omits these faults, because they take long.
LONG = ["lost-daemon", "lagging-standby", *hindrances.Hindrances.NAMES, "restore-at-rest"]
ON_REQUEST = ["stopped-leader"]
# The size of each server's file system, small enough to be filled.
SIZE = 400 << 20


# number: of the step in a schedule. fault: None if there are only hindrances.
Step = collections.namedtuple("Step", "number fault hindrances")


def step(number, name):
    """Returns the step with one fault or hindrance."""
    return Step(number, None, [name]) if name in hindrances.Hindrances.NAMES else Step(number, name, [])


def drawn(faults, seed, number):
    """Returns a step of the random schedule."""
    chance = random.Random(f"{seed} draws {number}")
    other = [name for name in faults if name not in hindrances.Hindrances.NAMES]
    hindering = [name for name in faults if name in hindrances.Hindrances.NAMES]
    kind = chance.choice(["fault", "both", "both", "hindrances"]) if other and hindering else "fault" if other else "hindrances"
    fault = chance.choice(other) if kind != "hindrances" else None
    count = {"fault": 0, "both": 1}.get(kind, chance.randint(1, min(2, len(hindering))) if hindering else 0)
    return Step(number, fault, chance.sample(hindering, count))


def plan(faults, rounds, others):
    """Returns the order of the faults: `rounds` fail-overs, each other fault `others` times among them, a restore in the middle,
    and before each restore a backup some faults earlier."""
    chosen = [fault for fault in faults if fault not in (*FAIL_OVERS, "restore")] * others
    order = [fault for fault in faults if fault in FAIL_OVERS] * rounds
    if not order:
        order = chosen
    else:
        for number, fault in enumerate(chosen):
            order.insert((number + 1) * (rounds + len(chosen)) // (len(chosen) + 1), fault)
    if "restore" in faults:
        order.insert((len(order) + 1) // 2, "restore")
    # The backup is made only a few faults before the restore, so that most releases stay in the record and are compared at the
    # end.
    for number in [number for number, fault in enumerate(order) if fault in RESTORES][::-1]:
        order.insert(max(0, number - FORGOTTEN), BACK_UP)
    return order


def missing(faults, there):
    """Returns, by fault, why it is not possible here."""
    found = {}
    if isinstance(there.network, network.Machine):
        found |= {fault: there.why for fault in faults if fault.startswith(("partitioned", "vanished", "lagging"))}
    if "full-disk" in faults and not there.cluster.primary.disk:
        found["full-disk"] = "a file system for the primary alone needs root"
    return {fault: why for fault, why in (found | hindrances.missing(there)).items() if fault in faults}


class Hosts(service.Contexts):
    """The servers, the daemons and the load. A context manager."""

    def __init__(self, timeout, margin, lasting, rate, seed, servers, faults, races, names):
        """timeout: ledger.timeout in seconds. margin: the seconds that an answer may take in addition. lasting: the usual
        duration of a fault. servers, faults: the classes of the cluster and of its faults. races: the number of payment tokens in
        a race. names: of the faults that are to come."""
        super().__init__()
        self.servers, self.faults, self.lasting, self.races, self.names = servers, faults, lasting, races, names
        self.timeout, self.rate, self.seed, self.chance = timeout, rate, seed, random.Random(seed)
        self.limit = timeout + margin
        self.why, self.clocks = network.Network.missing(), {}

    def begin(self):
        # The security team's accounts must be able to reach the sockets through this directory.
        os.chmod(".", 0o711)
        self.network = network.Machine()
        if not self.why:
            self.network = self.enter_context(network.Network([*NODES, *cluster.Cluster.NAMES, patroni_cluster.STORE]))
        if "wrong-clock" in self.names and not clocks.missing():
            self.clocks = {node: clocks.Clock(f"{node}.clock") for node in NODES}
        may_slow = "slow-disk" in self.names and not logged_disk.Disk.missing()
        self.cluster = self.enter_context(self.servers(self.network, SIZE, may_slow))
        self.daemons = {node: self.enter_context(self._daemon(node)) for node in NODES}
        self.load = hosts_callers.Payments({node: there.socket for node, there in self.daemons.items()}, self.limit, self.rate,
                                           self.chance.random(), with_google=True)
        self.load.keys = next(iter(self.daemons.values())).daemon.keys()
        self.outages = self.faults(self.cluster, self.network, self.daemons, self.load, self.chance, self.lasting, self.limit,
                                   self.races)
        self.hindrances = hindrances.Hindrances(self.cluster, self.network, self.daemons, self.load, self.clocks, self.timeout)

    def _daemon(self, node):
        ledger = self.cluster.ledger.settings(
            node, self.cluster.hosts, with_google=True, timeout=f"{self.timeout}s", require_standby="true",
            **({"repeat_for": hindrances.REPEAT_FOR} if self.clocks else {}))
        own_clock = self.clocks[node].words() if self.clocks else []
        # This soak does not test HSM tokens, so they are in memory.
        there = deployment.Deployment(
            node, {"a": deployment.SoftHSMToken}, merchants=("ec", service.GOOGLE), call_timeout="60s",
            program=(*self.network.within(node), *own_clock, "paytokend", "--config"), listener={"admin_mode": '"0666"'},
            ledger=ledger + outages.rules())
        os.chmod(node, 0o711)
        # A slow network can cut the first connection to the ledger.
        there.daemon.starts_again = True
        return there

    def draw(self, number):
        """Makes all that is random in the following fault depend on its number in the schedule, also the time for which it lasts."""
        self.chance = self.outages.chance = random.Random(f"{self.seed} {number}")
        self.outages.lasting = self.chance.uniform(1, self.lasting)

    def strike(self, step):
        """Causes the fault of a step during its hindrances. Returns the times until all was repaired, until all nodes released again,
        and the part of the latter after the repair."""
        before, lost, notes = self.load.counts.copy(), len(self.outages.lost), []
        names = " + ".join([step.fault, *step.hindrances] if step.fault else step.hindrances)
        self.load.past.note(time.monotonic(), step=step.number, faults=names)
        print(f"{step.number:3}  {names:20}", end="", flush=True)
        struck = time.monotonic()
        with contextlib.ExitStack() as ending:
            for name in step.hindrances:
                ending.enter_context(self.hindrances.during(name, self.chance, notes, len(step.hindrances) == 1 and not step.fault))
            if step.fault:
                event = getattr(self.outages, step.fault.replace("-", "_"))()
            else:
                nodes = [node for node in NODES if not self.load.has_wrong_clock(node)]
                self.load.wait_for_releases(nodes, time.monotonic(), f"in spite of {names}")
                time.sleep(max(0.0, struck + self.outages.lasting - time.monotonic()))
        if step.hindrances:
            repaired = time.monotonic()
            event = event._replace(repaired=repaired, since=repaired) if step.fault else outages.Event(struck, repaired, repaired, "")
        back = max(self.load.wait_for_releases(NODES, event.since, names).values())
        since = self.load.counts - before
        self.load.ask_again(self.outages.lost[lost:])
        times = event.repaired - event.struck, back - event.struck, max(0.0, back - event.repaired)
        print(f"{times[0]:8.1f} s {times[1]:9.1f} s {times[2]:9.1f} s {since['released']:8}"
              f"{since['ledger_unavailable']:8}   {'; '.join(filter(None, [event.what, *notes]))}", flush=True)
        return times

    @contextlib.contextmanager
    def keeping(self):
        """Keeps the history if what is awaited does not come."""
        try:
            yield
        except service.Failed:
            print(f"\nthe history is kept: {self.load.past.keep(f'hosts-{self.seed}')}")
            raise

    def steady(self, count):
        """Waits until `count` more payment tokens were released."""
        before = self.load.released()
        service.wait(f"{count} releases", lambda: self.load.must_go_on() and self.load.released() >= before + count, pause=0.02)


def check(hosts, seed):
    """Checks the answers, the ledger, and the verifiers' verdicts. Returns what is wrong, and prints counts."""
    load, ledger = hosts.load, hosts.cluster.ledger
    wrong, counts, _, _ = proof.recorded(ledger)
    wrong += load.past.judge(f"hosts-{seed}", ledger.lines())
    wrong += load.wrong + load.hung + hosts.outages.wrong
    twins = len(load.payments) - len({payment.number for payment in load.payments})
    print(f"payments    {len(load.payments)} payment tokens, {twins} with the messageId of another; {load.counts['released']} released, "
          f"{load.counts['repeated']} repeated, {load.counts['replayed']} refused as replays")
    print("asked again " + ", ".join(f"{load.counts[why]} after {why}" for why in sorted(load.counts)
                                     if why not in ("released", "repeated", "replayed")))
    print(f"ledger      {counts['claims']} claims, {counts['released']} releases ({counts['google']} of Google Pay) and "
          f"{counts['repeats']} repeats recorded; {len(hosts.outages.lost)} releases were lost by the restore")
    print(f"history     {load.past.last} operations, {len(wrong)} faults; {len(load.hung)} hung past the deadline, the longest "
          f"answer took {load.longest:.1f} s of {hosts.limit:.0f}")
    return wrong


def table(times, skipped):
    """Prints for each fault how long it took until the repair, until all daemons released again, and the part after the repair."""
    print(f"{'fault':22}{'times':>6}{'repaired after':>20}{'released by all':>20}{'after the repair':>20}")
    for fault, each in times.items():
        columns = "".join(f"{statistics.median(column):9.1f} ({max(column):5.1f}) s" + " " for column in zip(*each))
        print(f"{fault:22}{len(each):6}   {columns}")
    for fault, why in skipped.items():
        print(f"{fault:22}  SKIPPED: {why}")
    print("            the median, and the longest in brackets")


def main(parser):
    parser.add_argument("--rounds", type=int, help="fail-overs (50; 1 with --short)")
    parser.add_argument("--others", type=int, help="how often each other fault comes (2; 1 with --short)")
    parser.add_argument("--faults", help="some of them only, with commas between")
    parser.add_argument("--list", action="store_true", help="the faults' names")
    parser.add_argument("--patroni", action="store_true",
                        help="servers managed by Patroni and etcd: their leader is killed five times (--rounds), and there is a "
                             "switchover. stopped-leader only with --faults: after it Patroni 3.0 with PostgreSQL 15 does not "
                             "always name a synchronous standby again, and the run then ends without a verdict")
    parser.add_argument("--minutes", type=float, help="a schedule that is drawn from the seed, until this time is over")
    parser.add_argument("--first", type=int, default=1, help="with --minutes, the number of the step with which it begins (1)")
    options = service.parse(parser, seed="of the load and the faults", timeout=(5, 3, "ledger.timeout, in seconds"),
                            rate=(60, 20, "payment tokens a second at most"), races=(5000, 200, "payment tokens of a race"))
    known = patroni_cluster.Outages.FAULTS if options.patroni else FAULTS
    if options.list:
        print("\n".join(known))
        return []
    faults = [fault for fault in known if fault not in ON_REQUEST and not (options.short and fault in LONG)]
    if options.faults:
        faults = options.faults.split(",")
    if unknown := set(faults) - set(known):
        parser.error(f"there is no fault {', '.join(unknown)}; --list names them")
    rounds = options.rounds or (1 if options.short else 5 if options.patroni else 50)
    others = options.others or (1 if options.short or options.patroni else 2)
    timeout, rate, began = options.timeout, options.rate, time.monotonic()
    servers, kind = cluster.Cluster, outages.Outages
    if options.patroni:
        if lacking := patroni_cluster.missing() or network.Network.missing():
            raise service.Failed(f"--patroni lacks: {lacking if isinstance(lacking, str) else ' '.join(lacking)}")
        servers, kind = patroni_cluster.Cluster, patroni_cluster.Outages
    # A fault lasts longer than an answer may take, or, with --short, at least until callers are refused.
    lasting = timeout + 1 if options.short else 2 * timeout + 1
    # A busy machine needs more than three seconds for everything except the ledger.
    margin = 3 * timeout if options.short else timeout
    with Hosts(timeout, margin, lasting, rate, options.seed, servers, kind, options.races, faults) as hosts, hosts.keeping():
        skipped = missing(faults, hosts)
        possible = [fault for fault in faults if fault not in skipped]
        if not possible:
            raise service.Failed(f"none of the faults is possible here: {skipped}")
        order = plan(possible, rounds, others)
        times = collections.defaultdict(list)
        hosts.load.mint()
        hosts.load.start()
        hosts.steady(rate)
        count = f"{options.minutes} minutes of" if options.minutes else sum(fault != BACK_UP for fault in order)
        print(f"{count} faults, {rate} payment tokens a second at most, ledger.timeout {timeout} s, "
              f"--seed {options.seed}; ready in {time.monotonic() - began:.1f} s")
        print(f"     {'':20}{'repaired':>10}{'released':>12}{'after it':>12}{'new':>8}{'503':>8}")
        if options.minutes:
            until, numbers = time.monotonic() + 60 * options.minutes, itertools.count(options.first)
            while time.monotonic() < until:
                here = drawn(possible, options.seed, next(numbers))
                hosts.draw(here.number)
                hosts.steady(hosts.chance.randint(1, rate))
                if here.fault in RESTORES:
                    hosts.outages.back_up()
                    hosts.steady(hosts.chance.randint(1, 2 * rate))
                times[" + ".join(filter(None, [here.fault, *here.hindrances]))].append(hosts.strike(here))
        numbers = itertools.count(1)
        for fault in order if not options.minutes else []:
            if fault == BACK_UP:
                hosts.outages.back_up()
                continue
            # The fault comes after a random number of releases.
            hosts.steady(hosts.chance.randint(1, rate))
            times[fault].append(hosts.strike(step(next(numbers), fault)))
        hosts.steady(rate)
        hosts.load.finish()
        table(times, skipped)
        wrong = check(hosts, options.seed)
        for node, there in hosts.daemons.items():
            print(f"verified    {node}")
            wrong += proof.verify(there.daemon)
        for there in hosts.daemons.values():
            wrong += there.daemon.stop()
        print(f"took        {time.monotonic() - began:.0f} s")
    return wrong
