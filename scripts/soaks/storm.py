"""A storm of tokens that Apple's signature covers and that do not open: points off the curve, wrong GCM tags, OAEP blocks
that are none. Each must be refused with decryption_failed, no worker may be replaced, and good traffic must go on.

Good traffic comes at a steady rate, in turns alone, beside an equally heavy load of good tokens, and beside the storm:
as many connections, each with one request after the other. All of it shares the machine's cores, so it is the second
that the storm has to be compared with: how much longer good tokens take because others are bad, and not because there
are others. Bad ones are tried twice in the HSM token, since it answers nonsense and a fault of its own alike.
"""
import collections
import contextlib
import itertools
import json
import multiprocessing
import random
import time

import deployment
import load
import outcome
import service

BAD = {"ec": ["point-off-curve", "bad-tag", "other-merchant-identifier"],
       "rsa": ["bad-tag", "wrapped-key-with-sha1", "wrapped-key-with-label", "wrapped-key-with-first-octet",
               "wrapped-key-for-other-key", "wrapped-key-with-pkcs1"]}


def storm(count):
    """Pairs of a name and a request."""
    bad = [(f"{kind} {deviation}", load.decrypt(token))
           for kind, deviations in BAD.items() for deviation in deviations
           for token in service.mint(count, "--deviation", deviation, certificate=f"authority/{kind}.pem")]
    random.shuffle(bad)
    return bad


def press(path, bad, clients, ready, ended, answers):
    """A load in a process of its own until ended is set: bad tokens, or where there are none good ones with as much RSA.
    Sets ready when it begins. Puts what was answered, and how long it took."""
    codes = collections.Counter()

    def answered(tag, status, body, began, ended):
        codes[tag, status, json.loads(body).get("code", "") if body else ""] += 1

    def requests(following):
        while not ended.is_set():
            yield following()
    with contextlib.ExitStack() as ending:
        if bad:
            following = itertools.cycle(bad).__next__
        else:
            pool = ending.enter_context(outcome.Pool(ec=150, rsa=300))
            # Each is released before the clock starts: what follows is as much work as the storm.
            load.drive(path, clients, ((known.reference, known.request) for known, _ in pool.slots), lambda *_: None)

            def following():
                known = pool.take()
                return known.reference, known.request
        ready.set()
        began = time.monotonic()
        load.drive(path, clients, requests(following), answered, limit=service.GUARD)
        answers.put((codes, time.monotonic() - began))


def main(parser):
    parser.add_argument("--rounds", type=int, default=5, help="of all three (5; 1 with --short)")
    parser.add_argument("--requests", type=int, default=600, help="good ones in each (600; 40 with --short)")
    parser.add_argument("--rate", type=int, default=100, help="of them a second at most (100; 20 with --debug)")
    parser.add_argument("--clients", type=int, default=8, help="connections of the storm (8)")
    options = parser.parse_args()
    rounds, requests = (1, 40) if options.short else (options.rounds, options.requests)
    rate = 20 if options.debug else options.rate
    deployment.make_merchants()
    bad = storm(20 if options.short else 50)
    names = ("alone", "beside good", "beside storm")
    results, pressed = {name: outcome.Outcome() for name in names}, {name: collections.Counter() for name in names}
    seconds, wrong = collections.Counter(), []
    with (deployment.Deployment("storm", {"a": deployment.SoftHSMToken}, call_timeout="10s") as there,
          outcome.Pool(ec=200, rsa=25) as good):
        for name in names * rounds:
            ready, ended = multiprocessing.Event(), multiprocessing.Event()
            answers, pressure = multiprocessing.Queue(), None
            if name != "alone":
                pressure = multiprocessing.Process(
                    target=press, args=(there.socket, bad if name == "beside storm" else [], options.clients, ready, ended,
                                        answers), daemon=True)
                pressure.start()
                if not ready.wait(service.GUARD):
                    raise service.Failed("the load beside the good traffic did not begin")
            load.drive(there.socket, 8, outcome.paced(good, rate, requests), results[name].answered, limit=service.GUARD)
            if pressure is not None:
                ended.set()
                codes, took = answers.get()
                pressed[name] += codes
                seconds[name] += took
                pressure.join()
        restarts = there.restarts()
        wrong += there.daemon.stop()
    print(f"{'good traffic':16}{'requests':>9}{'right':>8}{'p50':>11}{'p99':>11}{'longest':>11}   beside it")
    tails = {}
    for name, result in results.items():
        times = sorted(ended - began for began, ended, _ in result.history)
        tails[name] = load.percentile(times, 0.99)
        pressure = sum(pressed[name].values()) / seconds[name] if seconds[name] else 0
        print(f"{name:16}{result.sent:9}{result.right:8}{load.percentile(times, 0.5):8.2f} ms{tails[name]:8.2f} ms"
              f"{times[-1] * 1000:8.1f} ms   {pressure:.0f}/s")
        wrong += result.wrong
        if result.right != result.sent:
            wrong.append(f"{name}: {result.sent - result.right} good requests were not answered right: "
                         f"{dict(result.refused)}, {result.hung} hung")
    print(f"p99         beside the storm {tails['beside storm'] / tails['beside good']:.2f} of what it is beside good "
          f"tokens, {tails['beside storm'] / tails['alone']:.2f} of what it is alone")
    kinds = collections.Counter()
    for (kind, status, code), count in pressed["beside storm"].items():
        kinds[kind] += count
        if (status, code) != (422, "decryption_failed"):
            wrong.append(f"{count} tokens of the storm ({kind}) were answered {status} {code}")
    print("storm       " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    print(f"workers     {restarts} replaced")
    if restarts:
        wrong.append(f"{restarts} workers were replaced")
    return wrong
