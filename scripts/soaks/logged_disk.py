"""A disk that logs every write and every flush, and what the disk holds after a power cut at some place of the log.

A separate process serves the disk as the only file of a FUSE file system. A loop device on that file has a volatile write cache, so that
the kernel sends it flushes as it does to a real disk. The process handles one request after another: a flush covers exactly the writes
before it in the log.

After a cut, the disk holds all writes before the last flush and a random part of the later ones: it may have written them in any order,
and a sector of 512 bytes is the smallest piece that it writes as a whole.

The disk can also be slow: each write and each flush then takes a time, in which the disk does nothing else.
"""
import bisect
import collections
import contextlib
import mmap
import os
import pathlib
import random
import struct
import subprocess
import sys
import time
from typing import Iterator, NamedTuple

import service

SECTOR = 512
# An entry of the log: time on the monotonic clock, offset and length. A write's bytes follow; a flush has the length 0.
ENTRY = struct.Struct("<dQI")

# The seconds that each write and each flush takes, in a file that the serving process reads.
PACE = struct.Struct("<dd")

# Requests of the FUSE protocol (linux/fuse.h): their numbers, and the heads of requests and answers.
FORGET, GETATTR, OPEN, READ, WRITE, RELEASE, FSYNC, FLUSH, INIT, DESTROY, FORGETS = 2, 3, 14, 15, 16, 18, 20, 25, 26, 38, 42
REQUEST, ANSWER = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
# The file handle, the offset and the length, with which requests to read and to write begin.
PIECE, WRITE_HEAD = struct.Struct("<QQI"), 40
# Version, read-ahead, flags, requests in the background, largest write, granularity of times, pages of a request.
INIT_ANSWER, BIG_WRITES, MAX_PAGES = struct.Struct("<IIIIHHIIHH8I"), 1 << 5, 1 << 22
ATTRIBUTES, OPENED, DIRECT = struct.Struct("<QII6Q10I"), struct.Struct("<QII"), 1
LARGEST = 1 << 20
NOT_IMPLEMENTED, NO_DEVICE, INTERRUPTED = 38, 19, (2, 4, 11)
# The mode of the file, which is the root of its file system.
MODE = 0o100600


def serve(place: str, size: int, path: str, slow: str) -> None:
    """Serves a disk of `size` bytes as the file `place` until that is unmounted. path: the log. slow: the file with PACE."""
    with open(slow, "rb") as file:
        pace = mmap.mmap(file.fileno(), PACE.size, prot=mmap.PROT_READ)
    device = os.open("/dev/fuse", os.O_RDWR)
    service.run("mount", "-i", "-t", "fuse", "-o", f"fd={device},rootmode={MODE:o},user_id=0,group_id=0", "disk", place,
                pass_fds=[device])
    content = mmap.mmap(-1, size)
    with open(path, "wb") as log:
        while True:
            try:
                request = os.read(device, LARGEST + 65536)
            except OSError as error:
                if error.errno == NO_DEVICE:
                    return
                if error.errno in INTERRUPTED:
                    continue
                raise
            _, operation, number, *_ = REQUEST.unpack_from(request)
            if operation in (FORGET, FORGETS):
                continue
            error_number, answer = 0, b""
            if operation in (WRITE, FSYNC) and (seconds := PACE.unpack(pace)[operation == FSYNC]):
                time.sleep(seconds)
            if operation == INIT:
                answer = INIT_ANSWER.pack(7, 31, 0, BIG_WRITES | MAX_PAGES, 16, 12, LARGEST, 1, LARGEST // 4096, 0, *[0] * 8)
            elif operation == GETATTR:
                answer = ATTRIBUTES.pack(3600, 0, 0, 1, size, size // SECTOR, *[0] * 6, MODE, 1, *[0] * 3, 4096, *[0] * 1)
            elif operation == OPEN:
                answer = OPENED.pack(0, DIRECT, 0)
            elif operation == READ:
                _, offset, length = PIECE.unpack_from(request, REQUEST.size)
                answer = content[offset:offset + length]
            elif operation == WRITE:
                _, offset, length = PIECE.unpack_from(request, REQUEST.size)
                piece = request[REQUEST.size + WRITE_HEAD:REQUEST.size + WRITE_HEAD + length]
                log.write(ENTRY.pack(time.monotonic(), offset, length))
                log.write(piece)
                content[offset:offset + length] = piece
                answer = struct.pack("<II", length, 0)
            elif operation == FSYNC:
                log.write(ENTRY.pack(time.monotonic(), 0, 0))
            elif operation not in (FLUSH, RELEASE, DESTROY):
                # The kernel then writes zeros instead of freeing space, and does not ask again.
                error_number = NOT_IMPLEMENTED
            with contextlib.suppress(FileNotFoundError):
                os.writev(device, [ANSWER.pack(ANSWER.size + len(answer), -error_number, number), answer])


class Entry(NamedTuple):
    """A write, or a flush with the length 0. place: that of its bytes in the log."""
    time: float
    offset: int
    length: int
    place: int


class Disk(contextlib.AbstractContextManager):
    """The disk with an ext4 file system, mounted at a directory. A context manager, which unmounts it.

    name: of its files. place: the directory. options: of the file system's mount. With `sync,dirsync`, all that programs write is
    written to the disk at once. logs: False if no log is needed.
    """

    def __init__(self, name: str, place: str, size: int, options: str = "noatime", logs: bool = True) -> None:
        self.file, self.pace, self.path = f"{name}.disk", f"{name}.pace", f"{name}.log" if logs else os.devnull
        self.place, self.size, self.options = place, size, options
        self.server: subprocess.Popen | None = None

    def __enter__(self) -> "Disk":
        pathlib.Path(self.file).touch()
        self.slow(0, 0)
        self.server = subprocess.Popen([sys.executable, __file__, self.file, str(self.size), self.path, self.pace])
        try:
            service.wait("the disk", lambda: self.server.poll() is None and os.path.getsize(self.file) == self.size, pause=0.01)
            service.run("mkfs.ext4", "-q", "-b", 4096, "-m", 0, "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", self.file)
            service.run("mount", "-o", f"loop,{self.options}", self.file, self.place)
        except BaseException:
            self.__exit__()
            raise
        return self

    @staticmethod
    def missing() -> str | None:
        """Returns the reason why there can be no such disk on this machine, or None."""
        can = os.geteuid() == 0 and os.access("/dev/fuse", os.W_OK) and os.access("/dev/loop-control", os.W_OK)
        return None if can else "it needs root, /dev/fuse and /dev/loop-control"

    def slow(self, write: float, flush: float) -> None:
        """Makes each write and each flush that begins from now on take these seconds."""
        with open(self.pace, "r+b" if os.path.exists(self.pace) else "wb") as file:
            file.write(PACE.pack(write, flush))

    def __exit__(self, *error: object) -> None:
        self.slow(0, 0)
        for place in (self.place, self.file):
            if os.path.ismount(place):
                unmount(place)
        self.server.wait(service.GUARD)


def unmount(place: str) -> None:
    """Unmounts when the last program that has a file open there has ended."""
    service.wait(f"the end of {place}'s use", lambda: subprocess.run(["umount", place], capture_output=True).returncode == 0)


@contextlib.contextmanager
def mounted(image: str, place: str) -> Iterator[None]:
    """Mounts an image, for which the kernel replays the file system's journal."""
    service.run("mount", "-o", "loop", image, place)
    try:
        yield
    finally:
        unmount(place)


class Cut(NamedTuple):
    """A power cut.

    flush: the number of the last completed flush in the log. last: that of the last write that the disk had received. moment: the time
    until which the disk can have been in this state. kept: for each later write, the sectors that reached the disk.
    """
    number: int
    flush: int
    last: int
    moment: float
    how: str
    kept: dict[int, list[int]]


class Log:
    """The log of a disk that is no longer in use, and the disk as it was at a flush."""

    def __init__(self, disk: Disk) -> None:
        self.size, self.file, self.entries = disk.size, open(disk.path, "rb"), []  # noqa: SIM115 (it is read until the run's end)
        self.base, self.applied = mmap.mmap(-1, disk.size), 0
        length = os.path.getsize(disk.path)
        place = 0
        while place < length:
            self.file.seek(place)
            moment, offset, count = ENTRY.unpack(self.file.read(ENTRY.size))
            entry = Entry(moment, offset, count, place + ENTRY.size)
            self.entries.append(entry)
            place = entry.place + entry.length
        self.flushes = [number for number, entry in enumerate(self.entries) if entry.length == 0]

    def cuts(self, seed: str, count: int, since: float, until: float) -> list[Cut]:
        """Returns `count` random cuts between two times, in the order of their flushes. No program wrote to the disk after the second
        time."""
        before = [number for number in self.flushes if self.entries[number].time < since]
        between = [number for number in self.flushes if since <= self.entries[number].time < until]
        found = []
        for number in range(count):
            chance = random.Random(f"{seed} {number}")
            flush = chance.choice(before[-1:] + between)
            following = next((other for other in self.flushes if other > flush), len(self.entries))
            last = chance.randrange(flush, following)
            moment = min(until, self.entries[last + 1].time) if last + 1 < len(self.entries) else until
            how = chance.choice(["nothing", "everything", "whole writes", "sectors"])
            found.append(Cut(number, flush, last, moment, how, self._kept(chance, how, range(flush + 1, last + 1))))
        return sorted(found, key=lambda cut: (cut.flush, cut.last))

    def _kept(self, chance: random.Random, how: str, writes: range) -> dict[int, list[int]]:
        kept = {}
        for number in writes:
            sectors = list(range(self.entries[number].length // SECTOR))
            # A write that reached the disk in part has lost about half of its sectors.
            fate = {"nothing": "lost", "everything": "whole"}.get(how) or chance.choice(
                ["lost", "whole"] if how == "whole writes" else ["lost", "whole", "torn"])
            kept[number] = [sector for sector in sectors if fate == "whole" or fate == "torn" and chance.random() < 0.5]
        return kept

    def _bytes(self, entry: Entry) -> bytes:
        self.file.seek(entry.place)
        return self.file.read(entry.length)

    def _apply(self, end: int) -> None:
        for entry in self.entries[self.applied:end]:
            self.base[entry.offset:entry.offset + entry.length] = self._bytes(entry)
        self.applied = max(self.applied, end)

    def replay_until(self, moment: float, image: str) -> None:
        """Writes the disk's content to a file, with all writes before this time. Times must ascend from call to call."""
        self._apply(bisect.bisect_left(self.entries, moment, key=lambda entry: entry.time))
        with open(image, "wb") as file:
            file.write(self.base)

    def replay(self, cut: Cut, image: str) -> None:
        """Writes the disk's content after the cut to a file. Cuts must come in the order of their flushes."""
        self._apply(cut.flush + 1)
        with open(image, "wb") as file:
            file.write(self.base)
            for number, sectors in cut.kept.items():
                piece = self._bytes(self.entries[number])
                for sector in sectors:
                    file.seek(self.entries[number].offset + sector * SECTOR)
                    file.write(piece[sector * SECTOR:(sector + 1) * SECTOR])

    def describe(self, cut: Cut) -> str:
        kept = sum(map(len, cut.kept.values()))
        lost = sum(self.entries[number].length // SECTOR for number in cut.kept) - kept
        return f"flush {cut.flush} +{cut.last - cut.flush} writes, {cut.how}: {kept} sectors kept, {lost} lost"

    def counts(self, since: float, until: float) -> collections.Counter[str]:
        """Returns the numbers of writes and flushes between two times."""
        return collections.Counter("flushes" if entry.length == 0 else "writes" for entry in self.entries
                                   if since <= entry.time < until)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
