"""Counts the source files that execute a line between the acceptance of a connection and the answer to one release.

The programs keep their counters in files while they run (LLVM's continuous mode). So copies from before and after a request show
the lines that ran between them. A file counts only if it ran in each of fifteen such requests, which excludes other work of the
daemon.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import struct
import sys

import deployment
import load
import service

TOP, MOST, REQUESTS = pathlib.Path(os.environ.get("PATH_TOP", ".")), 85, 15


class CountedToken(deployment.SoftHSMToken):
    def __init__(self, name, place):
        super().__init__(name, place)
        self.environment["LLVM_PROFILE_FILE"] = os.environ["LLVM_PROFILE_FILE"]


def llvm(tool, *arguments):
    """Returns LLVM's program of the Swift toolchain that built the programs."""
    swift = pathlib.Path(shutil.which("swift")).resolve().parent
    return service.run(swift / tool, *arguments).decode()


def files(program, before, after):
    """Returns the project's files of which the program executed a line between two copies of its counters."""
    profile, earlier = bytearray(after.read_bytes()), before.read_bytes()
    # LLVM's InstrProfData.inc, version 10: words of the header; then identifiers of the binary, a record of 64 bytes for each
    # function, padding, and the counters.
    _, version, identifiers, functions, padding, count = struct.unpack_from("<6Q", profile)
    if version & 0xFF != 10:
        raise service.Failed(f"profiles of version {version & 0xFF} are not known; version 10 is")
    begin = 128 + identifiers + 64 * functions + padding
    counters = struct.Struct(f"<{count}Q")
    changes = [now - then for now, then in zip(counters.unpack_from(profile, begin), counters.unpack_from(earlier, begin))]
    if len(profile) != len(earlier) or min(changes) < 0 or profile[:begin] != earlier[:begin]:
        raise service.Failed(f"the counters of {program} are not where they were looked for")
    counters.pack_into(profile, begin, *changes)
    pathlib.Path("difference.profraw").write_bytes(profile)
    llvm("llvm-profdata", "merge", "-o", "difference.profdata", "difference.profraw")
    report = json.loads(llvm("llvm-cov", "export", "-summary-only", "-instr-profile", "difference.profdata",
                             shutil.which(program)))
    ran = (pathlib.Path(file["filename"]) for file in report["data"][0]["files"] if file["summary"]["lines"]["covered"])
    return {str(file.relative_to(TOP)) for file in ran if file.is_relative_to(TOP / "Sources")}


def main():
    parser = argparse.ArgumentParser(prog="scripts/count-path", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="name each file")
    parser.add_argument("--skip-build", action="store_true", help="what is in .build/path is built already")
    options = parser.parse_args()
    os.environ["LLVM_PROFILE_FILE"] = os.path.abspath("%c%p.profraw")
    with deployment.Deployment("path", {"primary": CountedToken}, merchants=("ec",)) as deployed:
        processes = dict(zip(("paytokend", "paytokend-hsm"), deployed.daemon.processes(), strict=True))
        passed = []
        # The first request does not count, because it opens resources that later requests find open.
        for number, token in enumerate(service.mint(REQUESTS + 1, certificate="authority/ec.pem")):
            copies = []
            for moment in ("before", "after"):
                for program, process in processes.items():
                    copies.append(shutil.copy(f"{process}.profraw", f"{program}.{moment}"))
                if moment == "before":
                    status, body = load.once(deployed.socket, load.decrypt(token, b"path-%d" % number))
                    if status != 200:
                        raise service.Failed(f"request {number} was answered {status} {body[:200]}")
            passed.append(set().union(*(files(program, pathlib.Path(f"{program}.before"), pathlib.Path(f"{program}.after")) for program in processes)))
    path = set.intersection(*passed[1:])
    if len(path) < 20:
        raise service.Failed(f"only {len(path)} files were counted: was .build/path built with counters?")
    targets = collections.defaultdict(list)
    for file in sorted(path):
        targets["/".join(file.split("/")[:3])].append(file)
    for target, within in targets.items():
        print(f"{len(within):4}  {target}")
        if options.files:
            print("".join(f"        {file.removeprefix(target + '/')}\n" for file in within), end="")
    print(f"{len(path):4}  files on the path of one payment token (at most {MOST})")
    return 0 if len(path) <= MOST else 1


with service.cleaning("count-path"):
    sys.exit(main())
