"""Runs the build, the checks, the short soaks, the short benchmark and the Swift tests, after scripts/test has installed
everything. Prints a line for each check and each suite, and failures in full. With arguments, runs only `swift test` with these
arguments.

The results of the Swift tests come from the events that Swift Testing writes to a separate file, because programs under test
write to the output as well. A test that began and did not end counts as a crash.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

DEBUG = ["--short", "--debug", "--skip-build"]
# Two of these run at a time, since most of them wait for much of their time. The long ones are first.
CHECKS = [*[["scripts/soak", soak, *DEBUG] for soak in ("hosts", "payments", "upgrade", "sessions", "archives")],
          ["scripts/test-database-upgrade", "--skip-build"], ["scripts/test-restore", "--skip-build"],
          ["scripts/analyze"], ["scripts/analyze", "--self-test"],
          ["scripts/check-structure"], ["scripts/check-language"], ["scripts/check-documents"], ["scripts/test-docs"],
          ["scripts/mutate", "--check"], ["scripts/model", "--short"], ["scripts/check-history", "--self-test"],
          ["scripts/check-openapi"],
          ["scripts/sbom", "--try"], ["scripts/test-release"], ["scripts/test-clients"], ["scripts/test-readme"],
          ["scripts/sample-report", "--check"], ["scripts/test-demo"], ["scripts/test-demo-page"],
          ["scripts/test-monitoring", "--rules"],
          ["scripts/check-gateway-api", *DEBUG], ["scripts/check-openapi-clients", "--debug", "--skip-build"],
          *[["scripts/soak", soak, *DEBUG] for soak in ("kill", "full-disk", "records", "keys", "faults", "lasting", "differential")],
          ["scripts/test-install", "--if-possible"], ["scripts/test-install", "--if-possible", "--release", "trixie"],
          ["scripts/test-images", "--if-possible"]]
# Each of these runs alone, since it compares rates or times.
MEASURING = [["scripts/soak", "overload", *DEBUG], ["scripts/bench", *DEBUG], ["scripts/timing", *DEBUG]]
# Suites that run many programs. They run alone, because on two cores they would otherwise wait for hundreds of other tests.
ALONE = ["HSMWorkerTests", "DaemonTests|WorkerSupervisionTests", "SystemTests"]
TESTS = [[word for name in ALONE for word in ("--skip", name)], *[["--filter", name] for name in ALONE]]
# The words of the Swift runtime and `swift test` for a crash.
CRASHES = ["Fatal error", "Program crashed", "unexpected signal"]
# After this number of seconds without a line, a line names the running checks.
SILENCE = 60


class Report:
    """The printed lines, the counts, and the file with the output of all programs."""

    def __init__(self):
        # Two checks run at a time.
        self.lock = threading.RLock()
        self.counts, self.failures, self.skips, self.totals = collections.Counter(), [], [], []
        self.log = tempfile.NamedTemporaryFile("wb", prefix="paytokend-test.", suffix=".log", delete=False)
        self.began = self.said = time.monotonic()

    def say(self, text):
        print(text, flush=True)
        self.said = time.monotonic()

    def line(self, mark, text, seconds=None):
        self.say(f"{mark:6}{text}" + ("" if seconds is None else f"   {seconds:.1f} s"))

    def starts(self, name, shows=True):
        """Prints that a check starts. Returns the position in the log at which its output begins."""
        if shows:
            self.line("run", name)
        self.log.seek(0, os.SEEK_END)
        self.log.write(f"== {name}\n".encode())
        self.log.flush()
        return self.log.tell()

    def keep(self, name, output):
        """Appends a program's output to the log."""
        with self.lock, open(output.name, "rb") as said:
            self.starts(name, shows=False)
            shutil.copyfileobj(said, self.log)
            self.log.flush()

    def waiting(self, began, what):
        if time.monotonic() - self.said > SILENCE:
            self.line("", f"… {what()}", time.monotonic() - began)

    def fail(self, name, seconds, details, count=1):
        self.line("FAIL", name, seconds)
        for text in details:
            self.say("      | " + text)
        self.failures.append(name)
        self.counts["failed"] += count

    def skip(self, text):
        self.line("skip", text)
        self.skips.append(text)

    def close(self):
        """Prints the summary, and returns the exit status."""
        seconds = int(time.monotonic() - self.began)
        for total in self.totals:
            self.say(f"Swift Testing: {total}")
        self.say(f"scripts/test: {seconds // 60} min {seconds % 60} s")
        passed, failed, skipped = (self.counts[name] for name in ("passed", "failed", "skipped"))
        if passed + failed == 0:
            self.say("scripts/test: no test was run: nothing is called so, or all of it was skipped")
            failed += 1
        for text in self.skips:
            self.say(f"SKIPPED: {text}")
        for name in self.failures:
            self.say(f"FAILED: {name}")
        if failed:
            self.say(f"all that programs wrote: {self.log.name}")
        self.say(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
        self.log.close()
        if not failed:
            os.unlink(self.log.name)
        return 1 if failed else 0


def ended(status):
    """Returns a description of a program's exit status."""
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit {status}"


def last_lines(path, count, start=0):
    with open(path, "rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace").splitlines()[-count:]


def run(report, command, counted=True):
    """Runs a program. Returns True if it succeeded."""
    name, began = " ".join(command), time.monotonic()
    report.line("run", name)
    with tempfile.NamedTemporaryFile(prefix="paytokend-test.") as output:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT) as process:
            while True:
                try:
                    status = process.wait(1)
                    break
                except subprocess.TimeoutExpired:
                    report.waiting(began, lambda: f"{name}: {(last_lines(output.name, 1) or [''])[0][:150]}")
        said = last_lines(output.name, 100_000)
        report.keep(name, output)
    took = time.monotonic() - began
    with report.lock:
        if status != 0:
            # Omits a build's lines about successful steps.
            report.fail(f"{name}: {ended(status)}", took, [line for line in said if not line.startswith("[")])
        elif said and " skipped: " in said[-1] and counted:
            report.skip(said[-1])
            report.counts["skipped"] += 1
        else:
            report.line("ok", name, took)
            report.counts["passed"] += counted
    return status == 0


class SwiftTests:
    """One run of `swift test`, read from its events."""

    def __init__(self, report, arguments):
        self.report, self.arguments = report, arguments
        self.suites, self.names, self.places = {}, {}, {}
        # By identifier: the start of each running test, its issues, and, for a suite, the number of each outcome of its tests.
        self.running, self.issues = {}, collections.defaultdict(list)
        self.outcomes = collections.defaultdict(collections.Counter)
        self.total, self.failed = None, False

    def run(self):
        report, began = self.report, time.monotonic()
        name = " ".join(["swift test", *self.arguments])
        before, start = report.counts.copy(), report.starts(name)
        with tempfile.TemporaryDirectory(prefix="paytokend-test.") as place:
            events = pathlib.Path(place, "events")
            events.touch()
            command = ["swift", "test", "--skip-build", "--parallel", "--event-stream-output-path", str(events),
                       "--event-stream-version", "0", *self.arguments]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=report.log,
                                  stderr=subprocess.STDOUT) as process, open(events, encoding="utf-8") as stream:
                status, rest = None, ""
                while status is None:
                    status = process.poll()
                    # Reads once more after the end of the program, for the last events.
                    lines = (rest + stream.read()).split("\n")
                    rest = lines.pop()
                    for line in lines:
                        self.take(json.loads(line))
                    if status is None:
                        report.waiting(began, self.under_way)
                        time.sleep(0.1)
        took, counted = time.monotonic() - began, report.counts - before
        if self.total is None:
            running = [f"was running: {self.title(test)}" for test in self.running if test not in self.suites]
            report.fail(f"{name}: {ended(status)} before the tests were over", took, running + self.crash(start))
        else:
            report.totals.append(self.total)
            if counted["passed"] + counted["failed"] == 0:
                report.fail(f"{name}: no test was run", took, last_lines(report.log.name, 5, start))
            elif (status != 0 or self.failed) and not counted["failed"]:
                report.fail(f"{name}: {ended(status)}, though no test failed", took,
                            self.issues[None] or last_lines(report.log.name, 60, start))
            elif status == 0 and counted["failed"]:
                report.fail(f"{name}: exit 0, though tests failed", took, [])

    def crash(self, start):
        """Returns the output from the first line about the crash, or the last lines if there is none."""
        said = last_lines(self.report.log.name, 1_000_000, start)
        found = [number for number, line in enumerate(said) if any(sign in line for sign in CRASHES)]
        if not found:
            return said[-60:]
        # The line about the signal may come much later, or inside another line.
        return said[found[0]:found[0] + 60] + [said[number] for number in found if number >= found[0] + 60]

    def under_way(self):
        tests = [test for test in self.running if test not in self.suites]
        return "running: " + "; ".join(map(self.title, tests[:4])) + ("; …" if len(tests) > 4 else "")

    def title(self, test):
        return f"{test.partition('.')[0].partition('/')[0]}: {self.names.get(test, test)}"

    def of_suites(self, test):
        """Returns the suites that contain the test."""
        return [suite for suite in self.suites if test.startswith(suite + "/")]

    def take(self, record):
        payload = record["payload"]
        if record["kind"] == "test":
            test = payload["id"]
            self.names[test] = payload.get("displayName") or payload["name"]
            place = payload["sourceLocation"]
            self.places[test] = f"{place['fileID']}:{place['line']}"
            if payload["kind"] == "suite":
                self.suites[test] = payload
            return
        kind, test = payload["kind"], payload.get("testID")
        messages = payload.get("messages", [])
        symbol = messages[0]["symbol"] if messages else ""
        if kind == "testStarted":
            self.running[test] = payload["instant"]["absolute"]
        elif kind == "issueRecorded":
            if not payload.get("issue", {}).get("isKnown"):
                place = payload.get("issue", {}).get("sourceLocation") or {}
                where = f"{place['fileID']}:{place['line']}: " if place else ""
                text = "\n".join(message["text"] for message in messages)
                self.issues[test] += (where + text).splitlines()
        elif kind == "testSkipped":
            self.count(test, "skipped")
            if test in self.suites or not any(suite in self.skipped_suites() for suite in self.of_suites(test)):
                self.report.skip(f"{test.partition('.')[0]}: {messages[0]['text'] if messages else self.title(test)}")
        elif kind == "testEnded":
            took = payload["instant"]["absolute"] - self.running.pop(test, payload["instant"]["absolute"])
            self.end(test, took, "failed" if symbol == "fail" else "passed")
        elif kind == "runEnded":
            self.total = messages[0]["text"] if messages else "no total"
            self.failed = symbol == "fail"

    def skipped_suites(self):
        return [suite for suite in self.suites if self.outcomes[suite]["itself skipped"]]

    def count(self, test, outcome):
        if test in self.suites:
            self.outcomes[test]["itself " + outcome] += 1
            return
        self.report.counts[outcome] += 1
        for suite in self.of_suites(test):
            self.outcomes[suite][outcome] += 1

    def end(self, test, took, outcome):
        if test not in self.suites:
            if outcome == "failed":
                # The loop below counts the failure in the suite.
                self.report.fail(f"{self.title(test)} ({self.places[test]})", took, self.issues[test], count=0)
            self.count(test, outcome)
            return
        counts = self.outcomes[test]
        if outcome == "failed" and not counts["failed"]:
            # An initialiser or a trait of the suite failed, and not one of its tests.
            self.report.fail(f"{self.title(test)} ({self.places[test]})", took, self.issues[test])
        said = ", ".join(f"{counts[name]} {name}" for name in ("passed", "failed", "skipped") if counts[name])
        self.report.line("ok" if outcome == "passed" else "FAIL", f"{self.title(test)}: {said or 'no test'}", took)


def leave(number, frame):
    sys.exit(128 + number)


def main(arguments):
    signal.signal(signal.SIGTERM, leave)
    report = Report()
    if run(report, ["swift", "build", "--build-tests"], counted=False):
        if not arguments:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda command: run(report, command), CHECKS))
            for command in MEASURING:
                run(report, command)
        for chosen in [arguments] if arguments else TESTS:
            SwiftTests(report, chosen).run()
    return report.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
