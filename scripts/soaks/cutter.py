"""A proxy between two programs on Unix sockets that disturbs some of the connections, each at a random place: before the request, in
the middle of it, after it, or in the middle of the answer. It cuts them there, or holds them for a while."""
import collections
import contextlib
import pathlib
import random
import socket
import threading
import time

PLACES = ("before the request", "in the request", "after the request", "in the answer")


class Cutter:
    """A proxy that listens at `path`, which may be an address, forwards to `target`, and disturbs one connection in `one_in`. A
    context manager.

    hold: the longest time in seconds for which half of these connections are held; with 0 all are cut. request, answer: the most bytes
    before the place. A request to a program with HTTP has at least a thousand bytes, and an answer has fewer.
    """

    def __init__(self, path, target, one_in=None, seed=None, hold=0.0, request=900, answer=150):
        self.path, self.target, self.one_in, self.hold = path, target, one_in, hold
        self.limits = {"in the request": request, "after the request": 1, "in the answer": answer}
        self.chance, self.lock, self.open = random.Random(seed), threading.Lock(), set()
        # The number of cuts at each place, and of holds.
        self.cuts, self.holds = collections.Counter(), 0

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

    def cut_all(self):
        """Cuts the connections of now, wherever they are."""
        with self.lock:
            for pair in self.open:
                self._end(*pair)

    def _accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                place = self.chance.choice(PLACES) if self.one_in and self.chance.randrange(self.one_in) == 0 else None
                # An answer shows that all of the request was read, so its beginning is after the request.
                limit = self.chance.randrange(1, self.limits[place] + 1) - (place == "after the request") if place in self.limits else 0
                held = self.chance.uniform(0, self.hold) if self.hold and self.chance.random() < 0.5 else None
            threading.Thread(target=self._pass, args=(peer, place, limit, held), daemon=True).start()

    def _pass(self, peer, place, limit, held):
        with peer, socket.socket(socket.AF_UNIX) as other:
            pair = peer, other
            with self.lock:
                self.open.add(pair)
            try:
                if place == "before the request" and self._cuts(place, held):
                    return
                other.connect(self.target)
                forward = limit if place == "in the request" else None
                back = limit if place in ("after the request", "in the answer") else None
                threading.Thread(target=self._relay, args=(other, peer, place, back, held), daemon=True).start()
                self._relay(peer, other, place, forward, held)
            except OSError:
                pass
            finally:
                with self.lock:
                    self.open.discard(pair)
                self._end(*pair)

    def _relay(self, source, target, place, limit, held):
        """Passes on what comes. limit: the bytes before the place, if it is in this direction."""
        passed = 0
        try:
            while piece := source.recv(65536):
                if limit is not None and passed + len(piece) >= limit:
                    target.sendall(piece[:limit - passed])
                    if self._cuts(place, held):
                        break
                    piece, limit = piece[limit - passed:], None
                passed += len(piece)
                target.sendall(piece)
        except OSError:
            pass
        finally:
            self._end(source, target)

    @staticmethod
    def _end(*connections):
        """Ends both directions, so that the other thread does not wait any longer."""
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _cuts(self, place, held):
        """Holds the connection, or returns True if it is to be cut."""
        with self.lock:
            self.holds += held is not None
            self.cuts[place] += held is None
        time.sleep(held or 0)
        return held is None
