"""Hooks of schemathesis for payments. No schema can make a payment token that the simulated Apple has signed, so requests that
are meant to be right get one that was minted for them, with its amount."""
import json
import os
import pathlib

import schemathesis

TOKENS = [json.loads(line) for line in pathlib.Path(os.environ["GATEWAY_API_TOKENS"]).read_text().splitlines()]
SEEN = open(os.environ["GATEWAY_API_SEEN"], "a", buffering=1)


@schemathesis.hook
def before_call(context, case, kwargs):
    is_right = case.meta is not None and "positive" in str(case.meta.generation.mode).lower()
    if is_right and TOKENS and case.method.upper() == "POST" and case.path == "/payments/apple-pay" and isinstance(case.body, dict):
        case.body["token"] = TOKENS.pop()
        case.body["expected"] = {"amount": "10.00", "currency": "USD"}


@schemathesis.hook
def after_call(context, case, response):
    SEEN.write(f"{case.method.upper()} {case.path} {response.status_code}\n")
