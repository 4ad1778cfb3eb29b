"""A program's own wall clock, which is set while the program runs. libfaketime is loaded into the program. It reads the difference to the
host's clock from a file, at most once a second. The monotonic clock and the times of files stay as they are."""
import atexit
import contextlib
import glob
import os
import pathlib
import shutil

import service

LIBRARIES = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
# The library sets environment variables, after which Swift 6.3 finds no arguments. So a shell loads it first, which leaves them set for the
# program, and two files with its process identifier. They are removed when this program ends.
SHELL = ["sh", "-c", 'echo $$ >>"$0.processes"; exec "$@"']
# The seconds after which the program has certainly read a new difference.
READ = 2


def missing():
    """Returns the reason why no program can have its own clock here, or None."""
    return None if LIBRARIES and shutil.which("gcc") else "the packages libfaketime and gcc are not installed"


class Clock:
    """path: of the file with the difference."""

    def __init__(self, path):
        self.path, self.timers = os.path.abspath(path), os.path.abspath("monotonic-timers.so")
        if not os.path.exists(self.timers):
            service.run("gcc", "-shared", "-fPIC", "-O2", "-o", self.timers,
                        pathlib.Path(__file__).with_name("monotonic-timers.c"))
        self.set(0)
        atexit.register(self._clean)

    def words(self):
        """Returns the words that make a following command run with this clock."""
        return ["env", f"LD_PRELOAD={self.timers}:{LIBRARIES[0]}", f"FAKETIME_TIMESTAMP_FILE={self.path}", "FAKETIME_DONT_FAKE_MONOTONIC=1",
                "FAKETIME_CACHE_DURATION=1", "NO_FAKE_STAT=1", *SHELL, self.path]

    def set(self, seconds):
        """Makes the clock differ from the host's by these seconds. With a negative number it is late."""
        with open(f"{self.path}.new", "w") as file:
            file.write(f"{seconds:+}\n")
        os.replace(f"{self.path}.new", self.path)

    def _clean(self):
        with contextlib.suppress(OSError):
            for process in pathlib.Path(f"{self.path}.processes").read_text().split():
                for name in ("faketime_shm", "sem.faketime_sem"):
                    pathlib.Path(f"/dev/shm/{name}_{process}").unlink(missing_ok=True)
