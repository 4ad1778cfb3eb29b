"""A proxy between two programs on Unix sockets that cuts some of the connections, each at a random place: before the request, in
the middle of it, after it, or in the middle of the answer."""
import collections
import contextlib
import pathlib
import random
import socket
import threading

PLACES = ("before the request", "in the request", "after the request", "in the answer")


class Cutter:
    """A proxy that listens at `path`, which may be an address, forwards to `target`, and cuts one connection in `one_in`. A
    context manager."""

    def __init__(self, path, target, one_in=None, seed=None):
        self.path, self.target, self.one_in = path, target, one_in
        self.chance, self.lock = random.Random(seed), threading.Lock()
        # The number of cuts at each place.
        self.cuts = collections.Counter()

    def __enter__(self):
        if isinstance(self.path, str):
            pathlib.Path(self.path).unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX if isinstance(self.path, str) else socket.AF_INET)
        self.listener.bind(self.path)
        self.listener.listen(1024)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error):
        # The shutdown wakes the accepting thread, which closing alone would not do.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        pathlib.Path(self.path).unlink(missing_ok=True)

    def _accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                place = self.chance.choice(PLACES) if self.one_in and self.chance.randrange(self.one_in) == 0 else None
                # A request has at least a thousand bytes, and an answer has fewer.
                limit = self.chance.randrange(1, 900 if place == "in the request" else 150)
            threading.Thread(target=self._pass, args=(peer, place, limit), daemon=True).start()

    def _pass(self, peer, place, limit):
        with peer, socket.socket(socket.AF_UNIX) as other:
            try:
                if place == "before the request":
                    return self._count(place)
                other.connect(self.target)
                back = threading.Thread(target=self._answer, args=(peer, other, place, limit), daemon=True)
                back.start()
                passed = 0
                while piece := peer.recv(65536):
                    if place == "in the request":
                        other.sendall(piece[:limit - passed])
                        passed += len(piece)
                        if passed >= limit:
                            self._count(place)
                            break
                        continue
                    other.sendall(piece)
            except OSError:
                pass
            finally:
                self._end(peer, other)

    def _answer(self, peer, other, place, limit):
        try:
            while piece := other.recv(65536):
                if place == "after the request":
                    # An answer shows that all of the request was read.
                    self._count(place)
                    break
                if place == "in the answer":
                    self._count(place)
                    peer.sendall(piece[:limit])
                    break
                peer.sendall(piece)
        except OSError:
            pass
        finally:
            self._end(peer, other)

    @staticmethod
    def _end(*connections):
        """Ends both directions, so that the other thread does not wait any longer."""
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _count(self, place):
        with self.lock:
            self.cuts[place] += 1
