"""The Python client as ../conformance.py drives it; README.md has the protocol."""
import json
import sys
import threading

from paytokend import VERDICTS, Client


def say(**members: object) -> None:
    sys.stdout.write(json.dumps(members) + "\n")
    sys.stdout.flush()


def pay(client: Client, line: str) -> None:
    order = json.loads(line)
    outcome = client.decrypt(order["token"], order["reference"], order["expected"], deadline=order["deadline"],
                             after=order.get("after", ()),
                             save_attempt=(lambda attempt: say(id=order["id"], attempt=attempt)) if "after" in order else None)
    print(outcome, file=sys.stderr)
    say(id=order["id"], verdict=outcome.verdict, code=outcome.code, transactionId=outcome.answer.get("transactionId"))


if sys.argv[1] == "verdicts":
    say(**VERDICTS)
else:
    shared = Client(sys.argv[1])
    for line in sys.stdin:
        threading.Thread(target=pay, args=(shared, line)).start()
