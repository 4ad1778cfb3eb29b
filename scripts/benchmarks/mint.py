"""Payment tokens, minted while no clock runs."""
import collections
import concurrent.futures
import os
import signal

import service


class Mint:
    """Tokens for one merchant key, from as many processes as there are cores. They stand still except in take(), so that
    they take no processor time from what is measured. A context."""

    def __init__(self, certificate):
        self.spare = collections.deque()
        self.minters = [service.Minter(certificate=certificate) for _ in range(len(os.sched_getaffinity(0)))]
        self._signal(signal.SIGSTOP)

    def _signal(self, number):
        for minter in self.minters:
            minter.forge.send_signal(number)

    def take(self, count):
        missing = max(0, count - len(self.spare))
        if missing:
            self._signal(signal.SIGCONT)
            shares = [missing // len(self.minters) + (place < missing % len(self.minters)) for place in range(len(self.minters))]
            with concurrent.futures.ThreadPoolExecutor() as pool:
                for tokens in pool.map(service.Minter.take, self.minters, shares):
                    self.spare.extend(tokens)
            self._signal(signal.SIGSTOP)
        return [self.spare.popleft() for _ in range(count)]

    def give_back(self, tokens):
        """Those that were not used."""
        self.spare.extendleft(reversed(tokens))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        # Whoever stands still does not end either.
        self._signal(signal.SIGCONT)
        for minter in self.minters:
            minter.__exit__(*error)
