"""The payment backend of the pod that scripts/test-images runs: pays orders, and repeats with the same reference until it knows the end.

/var/lib/shop/orders/NAME has a payment token on each line, and is complete when it has its name. An order is a line; its reference is
NAME-NUMBER. /var/lib/shop/begun/REFERENCE exists before the daemon is asked, /var/lib/shop/done/REFERENCE has the end. A backend that was
killed asks again for what it had begun.
"""
import concurrent.futures
import json
import os
import pathlib
import signal
import time

from paytokend import Client, Expected, Verdict

SHOP = pathlib.Path("/var/lib/shop")
# The number of threads, each of which pays one order at a time.
THREADS = 8
EXPECTED: Expected = {"currencyCode": "840", "transactionAmount": 1099}


def store(path: pathlib.Path, text: str) -> None:
    """Writes a file durably, completely or not at all."""
    new = path.with_suffix(".new")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def pay(client: Client, reference: str, token: str) -> None:
    begun, done = SHOP / "begun" / reference, SHOP / "done" / reference
    if done.exists():
        return
    interrupted = begun.exists()
    store(begun, "")
    tries = 0
    while True:
        outcome = client.decrypt(json.loads(token), reference, EXPECTED, deadline=30)
        tries += outcome.tries
        if outcome.verdict is not Verdict.RETRY:
            break
    # The stored result contains no card data.
    store(done, json.dumps({"verdict": outcome.verdict, "code": outcome.code, "repeated": outcome.repeated, "tries": tries,
                            "interrupted": interrupted, "transaction": outcome.answer.get("transactionId")}))


def main() -> None:
    # Process 1 ignores SIGTERM by default. This handler ends the backend at once, in the middle of its payments.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    for name in ("orders", "begun", "done"):
        (SHOP / name).mkdir(exist_ok=True)
    client, known = Client(), set()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as shoppers:
        while True:
            for path in sorted((SHOP / "orders").iterdir()):
                if path.name not in known and path.suffix != ".new":
                    known.add(path.name)
                    orders = [(f"{path.name}-{number}", line) for number, line in enumerate(path.read_text().splitlines())]
                    for paid in [shoppers.submit(pay, client, *order) for order in orders]:
                        paid.result()
            time.sleep(0.1)


if __name__ == "__main__":
    main()
