"""Hooks of schemathesis for payments. No schema can make a payment token that the simulated Apple or Google has signed, so
requests that are meant to be right get one that was minted for them, with its amount or merchant."""
import json
import os
import pathlib

import schemathesis


def tokens(variable):
    return [json.loads(line) for line in pathlib.Path(os.environ[variable]).read_text().splitlines()]


TOKENS, GOOGLE_TOKENS = tokens("GATEWAY_API_TOKENS"), tokens("GATEWAY_API_GOOGLE_TOKENS")
SEEN = open(os.environ["GATEWAY_API_SEEN"], "a", buffering=1)


@schemathesis.hook
def before_call(context, case, kwargs):
    is_right = case.meta is not None and "positive" in str(case.meta.generation.mode).lower()
    if not is_right or case.method.upper() != "POST" or not isinstance(case.body, dict):
        return
    if TOKENS and case.path == "/payments/apple-pay":
        case.body["token"] = TOKENS.pop()
        case.body["expected"] = {"amount": "10.00", "currency": "USD"}
    if GOOGLE_TOKENS and case.path == "/payments/google-pay":
        case.body |= {"token": GOOGLE_TOKENS.pop(), "merchantIdentifier": "BCR2DN4TEXAMPLE", "amount": "10.00", "currency": "USD"}


@schemathesis.hook
def after_call(context, case, response):
    SEEN.write(f"{case.method.upper()} {case.path} {response.status_code}\n")
