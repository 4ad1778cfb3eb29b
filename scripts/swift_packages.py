"""The Swift packages from which paytokend is built, by the name of their repository."""
import json
import pathlib
import re
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent
LIST = TOP / "scripts/packaging/swift-packages"


def name_of(url):
    return url.rpartition("/")[2].removesuffix(".git")


def listed():
    """Returns the committed version of each package."""
    return dict(re.findall(r"^([\w.-]+) +(\S+)$", LIST.read_text(encoding="utf-8"), re.M))


def declared(dumped):
    """Returns each package's version in Package.swift, from `swift package dump-package`. For a requirement that is not exact, it
    returns the requirement."""
    for dependency in dumped["dependencies"]:
        (source,) = dependency["sourceControl"]
        requirement = source["requirement"]
        (version,) = requirement.get("exact", [f"not exact, {json.dumps(requirement)},"])
        yield name_of(source["location"]["remote"][0]["urlString"]), version


def resolved():
    """Returns each package's version in the resolved graph."""
    shown = subprocess.run(["swift", "package", "show-dependencies", "--format", "json"], cwd=TOP, check=True,
                           stdout=subprocess.PIPE).stdout
    packages, left = {}, json.loads(shown)["dependencies"]
    while left:
        package = left.pop()
        packages[name_of(package["url"])] = package["version"]
        left += package["dependencies"]
    return packages
