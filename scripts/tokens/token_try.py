"""`paytokenctl token try` on a row's HSM token, before a daemon uses it."""
import json
import os
import subprocess
import time

# The columns of the table of Wycheproof's cases, with the steps that give their cells.
VECTORS = {"ECDH P-256": "Wycheproof ECDH P-256", "RSA-OAEP, SHA-256": "Wycheproof RSA-OAEP SHA-256"}


def run(token, label):
    """Returns the answer, or None if the HSM token was not opened; and complaints about the program."""
    arguments = ["--init-args", token.arguments] if token.arguments else []
    # Without YAML's quotes.
    environment = {name: value.strip('"') for name, value in token.environment.items()}
    began = time.monotonic()
    done = subprocess.run(
        ["paytokenctl", "token", "try", "--module", token.module, "--token", label, "--pin-file", token.pin, "--vectors",
         os.environ["TOKENS_VECTORS"], "--timeout", "30", "--output", "json", *arguments], env={**os.environ, **environment},
        text=True, capture_output=True)
    said = done.stderr.strip()
    complaint = [f"token try: exit {done.returncode}: {said}"] if done.returncode != 0 else []
    if not done.stdout:
        return None, complaint
    answer = json.loads(done.stdout)
    for result in answer["report"]["results"]:
        details = "; ".join([result.get("reason", ""), *result.get("details", [])]).strip("; ")
        print(f"  token try: {result['step']}: {'yes' if result['works'] else 'no'}" + (f" ({details})" if details else ""), flush=True)
    print(f"  token try: {time.monotonic() - began:.0f} s" + (f"; {said}" if said else ""), flush=True)
    return answer, complaint


def vectors(answer):
    """Returns the cells of Wycheproof's cases, the reasons of skipped cases, and wrong results."""
    cells, reasons, wrong = {}, [], []
    results = {result["step"]: result for result in answer["report"]["results"]}
    for column, step in VECTORS.items():
        result = results.get(step)
        if result is None:
            continue
        count, *skipped = result.get("details", ["0"])
        # A dash if the HSM token has none of the keys.
        cells[column] = "no" if not result["works"] else "–" if count.startswith("0") else count
        reasons += [f"{step}: {each}" for each in skipped]
        if not result["works"]:
            wrong.append(f"{step}: {result.get('reason')}")
    return cells, reasons, wrong
