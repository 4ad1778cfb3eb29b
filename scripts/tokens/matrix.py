"""The matrix of scripts/test-tokens: lists its rows, runs one, and compares those that were run with the table in Tokens.md.

  matrix.py rows [NAME…]               name, release and packages of each row
  matrix.py run NAME RESULTS           runs a row in the Debian that this process is in, and adds its result to the file
  matrix.py table RESULTS [--write]    prints the table; status 1 if a row differs from the article's, unless it is written there
"""
import json
import pathlib
import sys

import libraries
import service
import token_try
import trial

ARTICLE = pathlib.Path(__file__).parents[2] / "Sources/HSM/HSMWorker/Documentation.docc/Tokens.md"


# The columns of both tables.
TABLES = [trial.COLUMNS, ["HSM token", *token_try.VECTORS]]


def line(row, columns):
    return "| " + " | ".join(row[column] for column in columns) + " |"


def header(columns):
    return line({column: column for column in columns}, columns)


def rows(*names):
    unknown = [name for name in names if name not in libraries.ROWS]
    if unknown:
        sys.exit(f"test-tokens: there is no row {unknown[0]}; there are {', '.join(libraries.ROWS)}")
    for name in names or libraries.ROWS:
        kind = libraries.ROWS[name]
        print(name, kind.release, *kind.packages)


def run(name, results):
    print(f"{name}: {libraries.ROWS[name].title}", flush=True)
    tried = trial.Trial(name)
    with service.cleaning("test-tokens"):
        row = tried.run()
    for reason in tried.reasons:
        print(f"  {reason}")
    with open(results, "a") as file:
        file.write(json.dumps(row) + "\n")
    sys.exit(service.verdict(tried.wrong))


def table(results, *options):
    found = [json.loads(text) for text in pathlib.Path(results).read_text().splitlines()]
    if not found:
        return
    lines, differs = ARTICLE.read_text().splitlines(), False
    for columns in TABLES:
        print("\n".join([header(columns), line(dict.fromkeys(columns, "---"), columns), *(line(row, columns) for row in found)]))
        begin = lines.index(header(columns))
        for row in found:
            end = lines.index("", begin)
            place = next((number for number in range(begin, end) if lines[number].startswith(f"| {row['HSM token']} |")), None)
            if place is None or lines[place] != line(row, columns):
                differs = True
                print(f"test-tokens: {row['HSM token']}: {ARTICLE.name} " + (
                    "has no such row" if place is None else f"says {lines[place]}"), file=sys.stderr)
            if place is not None:
                lines[place] = line(row, columns)
            elif "--write" in options:
                lines.insert(end, line(row, columns))
    if "--write" in options:
        ARTICLE.write_text("\n".join(lines) + "\n")
    elif differs:
        sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1] == "rows":
        rows(*sys.argv[2:])
    elif sys.argv[1] == "run":
        run(*sys.argv[2:])
    else:
        table(*sys.argv[2:])
