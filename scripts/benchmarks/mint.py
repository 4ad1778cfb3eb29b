"""Payment tokens that are minted while nothing is measured."""
import collections
import concurrent.futures
import os

import service

# The amount of each payment token of Apple Pay, in cents. processor-simulator approves it.
CENTS = 1000


class Mint:
    """Payment tokens for one merchant key, from as many processes as there are cores. Each process mints until its pipe is full.
    The benchmark waits for that, so that minting uses no processor time during a measurement. A context manager."""

    def __init__(self, certificate):
        self.spare = collections.deque()
        amount = () if certificate == service.GOOGLE_KEY else ("--amount", str(CENTS))
        self.minters = [service.Minter(*amount, certificate=certificate) for _ in range(len(os.sched_getaffinity(0)))]

    def take(self, count):
        missing = max(0, count - len(self.spare))
        if missing:
            shares = [missing // len(self.minters) + (place < missing % len(self.minters)) for place in range(len(self.minters))]
            with concurrent.futures.ThreadPoolExecutor() as pool:
                for tokens in pool.map(service.Minter.take, self.minters, shares):
                    self.spare.extend(tokens)
            self._wait_for_pipes()
        return [self.spare.popleft() for _ in range(count)]

    def _wait_for_pipes(self):
        # A minter sleeps only while its pipe is full.
        service.wait("a full pipe of every minter", lambda: all(
            service.stat(minter.forge.pid)[0] == "S" for minter in self.minters), pause=0.005)

    def give_back(self, tokens):
        """Takes back payment tokens that were not used."""
        self.spare.extendleft(reversed(tokens))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for minter in self.minters:
            minter.__exit__(*error)
