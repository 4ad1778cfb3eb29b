"""The revision that was measured, and the machine."""
import datetime
import os
import pathlib
import platform
import re
import resource
import subprocess

import database


def first_line(*command):
    """Returns a program's version, or None if it is not installed."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (said.stdout + said.stderr).strip().splitlines()
    return lines[0].strip() if lines else None


def package(name):
    """Returns the version of the installed Debian package."""
    said = first_line("dpkg-query", "--show", "--showformat", "${Version}", name)
    return said if said and not said.startswith("dpkg-query:") else None


def field(path, name, separator=":"):
    for line in pathlib.Path(path).read_text().splitlines():
        key, _, value = line.partition(separator)
        if key.strip() == name:
            return value.strip().strip('"')
    return None


def file_system(path):
    """Returns the type of the file system that contains the path."""
    return first_line("findmnt", "--noheadings", "--output", "FSTYPE", "--target", path) or "unknown"


def busy():
    """Returns the processor time of all programs together, in seconds."""
    user, nice, system, _, _, *interrupts = map(int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def own():
    """Returns the processor time of this program and its children, in seconds."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def describe():
    """Returns names and values for JSON and for the lines above the table."""
    memory = int(re.sub(r"\D", "", field("/proc/meminfo", "MemTotal") or "0")) / 1024 / 1024
    versions = {
        "paytokend": first_line("paytokend", "--version"), "SoftHSM": package("softhsm2") or first_line("softhsm2-util", "--version"),
        "NSS": package("libnss3"), "libcrypto": first_line("openssl", "version"), "SQLite": package("libsqlite3-0"),
        "PostgreSQL": first_line(database.program("postgres") or "postgres", "--version"), "Go": first_line("go", "version")}
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"),
        "commit": os.environ.get("BENCH_COMMIT", "unknown"), "build": os.environ.get("BENCH_BUILD", "unknown"),
        "processor": field("/proc/cpuinfo", "model name") or platform.machine(), "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1), "system": field("/etc/os-release", "PRETTY_NAME", "="), "kernel": platform.release(),
        "file_system": file_system("."), "versions": {name: said for name, said in versions.items() if said}}
