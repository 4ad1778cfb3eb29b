"""Kills the daemon repeatedly with SIGKILL under load, and checks that no crash has these effects: an answered release that is
missing in the ledger or is in it twice, a payment that is released again after the restart, or a broken chain.

Each round starts the daemon. It repeats the requests that the crash left unanswered with their reference, which must be answered.
It sends released payment tokens with another reference, which must be refused as replays. Then it puts load on the daemon, and
kills it at a random answer. The kernel keeps the data that a killed process has written, so the soak does not show the losses of
a power cut.
"""
import collections
import json
import random
import time

import load
import proof
import service


class Round:
    """The requests of one round, and their answers."""

    def __init__(self, answers, tokens, daemon):
        self.answers, self.tokens, self.daemon = answers, tokens, daemon
        # The unanswered payment tokens by their reference.
        self.open = {}
        self.outcomes = collections.Counter()

    def answered(self, tag, status, body, began, ended):
        reference, token = tag
        if status is None:
            self.open[reference] = token
            self.outcomes["unanswered"] += 1
        elif status == 200:
            self.answers.take(reference, body)
            self.outcomes["repeated" if json.loads(body)["repeated"] else "released"] += 1
        else:
            code = json.loads(body).get("code", status)
            self.outcomes[code] += 1
            # While it starts and ends, the daemon may refuse these requests only with 503.
            if status != 503:
                self.answers.wrong.append(f"{reference} was refused with {code} under load")
            self.open[reference] = token

    def requests(self, fresh, chance):
        """Yields fresh payment tokens, and every eighth time a released one with its reference."""
        while fresh:
            known = list(self.tokens)[-200:]
            if known and chance.random() < 0.125:
                reference = chance.choice(known)
                yield (reference, self.tokens[reference]), load.decrypt(self.tokens[reference], reference.encode())
            number, token = fresh.popleft()
            reference = f"kill-{number}"
            yield (reference, token), load.decrypt(token, reference.encode())


def settle(daemon, answers, left, known):
    """Checks after a restart that each unanswered payment token is released once, and that released ones are not released
    again."""
    counts = collections.Counter()

    def had(tag, status, body, began, ended):
        if status != 200:
            answers.wrong.append(f"{tag} was unanswered, and is refused under its reference: {status} {body[:200]}")
            return
        answers.take(tag, body)
        # An unanswered repeat does not count, because its payment token was already released.
        if tag not in known:
            counts["claimed" if json.loads(body)["repeated"] else "not claimed"] += 1
    load.drive(daemon.socket, 4, [(reference, load.decrypt(token, reference.encode()))
                                  for reference, token in left.items()], had)

    def refused(tag, status, body, began, ended):
        if status != 409 or json.loads(body).get("code") != "transaction_replayed":
            answers.wrong.append(f"{tag} was released before, and asked for again answers {status} {body[:200]}")
        counts["replays refused"] += 1
    return counts, refused


def main(parser):
    options = service.parse(parser, seed="of the random moments", rounds=(50, 3, "how often it is killed"),
                            clients=(16, 16, "connections"))
    rounds, chance = options.rounds, random.Random(options.seed)
    answers, tokens, left = proof.Answers(), {}, {}
    unclaimed = claimed = replays = 0
    print(f"{rounds} rounds, {options.clients} clients, --seed {options.seed}")
    with service.Service() as daemon:
        # After the last start there is no load, and all conditions must hold.
        for number in range(1, rounds + 2):
            seconds = daemon.start()
            if number == 1:
                daemon.import_merchant()
            counts, refused = settle(daemon, answers, left, tokens)
            tokens.update(left)
            known = list(tokens.items())
            # A crash can lose only the newest releases, so only those are checked until the last round, which checks all.
            asked = known if number > rounds else known[-100:]
            load.drive(daemon.socket, 4, [(reference, load.decrypt(token, b"another")) for reference, token in asked],
                       refused)
            claimed, unclaimed = claimed + counts["claimed"], unclaimed + counts["not claimed"]
            replays += counts["replays refused"]
            if number > rounds:
                break
            # The kill comes after this number of answers, so the daemon is under load on any machine. Only these payment tokens
            # and those under way can be used until then.
            last = chance.randint(1, 150 if options.short else 1000)
            fresh = collections.deque(enumerate(service.mint(last + options.clients), start=number * 10000))
            turn = Round(answers, tokens, daemon)
            ended, taken, began = [], 0, time.monotonic()

            def answered(tag, status, body, began, now):
                nonlocal taken
                turn.answered(tag, status, body, began, now)
                if status == 200:
                    tokens[tag[0]] = tag[1]
                taken += status is not None
                if taken == last and not ended:
                    ended.append((time.monotonic(), daemon.kill()))
            load.drive(daemon.socket, options.clients, turn.requests(fresh, chance), answered)
            if not ended:
                raise service.Failed(f"round {number}: {taken} answers came, and the load was over before {last}")
            if not ended[0][1]:
                answers.wrong.append(f"round {number}: the worker was still there {service.GUARD} s after its daemon's end")
            left = turn.open
            print(f"round {number:3}  ready in {seconds:4.1f} s, killed after {(ended[0][0] - began) * 1000:4.0f} ms: "
                  f"{turn.outcomes['released']} released, {turn.outcomes['repeated']} repeated, {len(left)} unanswered",
                  flush=True)
        wrong = list(answers.wrong)
        found, counts = proof.compare(proof.LedgerFile(), answers)
        wrong += found
        print(f"answered    {len(answers.released)} releases, {len(answers.repeated)} repeats")
        print(f"ledger      {counts['claims']} claims, {counts['released']} releases and {counts['repeats']} repeats recorded")
        print(f"unanswered  {claimed} of {claimed + unclaimed} had been claimed before the crash; "
              "each was had under its reference")
        print(f"replays     {replays} transactions asked for again after a restart, under another reference")
        wrong += proof.verify(daemon)
        wrong += daemon.stop()
    return wrong
