"""Keeps a copy of the project's files in which some have other contents, for scripts/fuzz and scripts/mutate."""
import os
import pathlib
import shutil
import subprocess
from collections.abc import Mapping

TOP = pathlib.Path(__file__).resolve().parent.parent


def listed(*places: str) -> set[str]:
    """Returns the names of the files in these places, committed or new; of all files if no place is given."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *places], cwd=TOP, check=True,
                           capture_output=True).stdout.decode().split("\0")
    return {name for name in names if name and (TOP / name).is_file()}


def update(tree: pathlib.Path, names: set[str], changed: Mapping[str, bytes]) -> None:
    """Makes the copy hold these files and the changed ones, and no others, except in its .build.

    Writes only files that differ, so that a build of the copy compiles only them."""
    wanted = names | set(changed)
    for folder, folders, files in os.walk(tree):
        if pathlib.Path(folder) == tree and ".build" in folders:
            folders.remove(".build")
        for path in (pathlib.Path(folder, file) for file in files):
            if str(path.relative_to(tree)) not in wanted:
                path.unlink()
    for name in sorted(wanted):
        copy = tree / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if name not in changed and not copy.exists():
            shutil.copy2(TOP / name, copy)
        else:
            content = changed[name] if name in changed else (TOP / name).read_bytes()
            if not copy.exists() or copy.read_bytes() != content:
                copy.write_bytes(content)
