"""Makes clients with both generators, and checks the answers that they get from the running programs.
scripts/check-openapi-clients calls it."""
import importlib
import json
import pathlib
import pkgutil
import random
import re
import shutil
import subprocess
import sys

import cutter
import service
from shop import Shop

TARGETS = {"Service/DaemonAPI": "paytokend", "Gateway/Gateway": "gateway"}
# Media types for which the generators have no type: the lines of exports, and Radial's XML.
UNTYPED = ("application/jsonl", "text/xml", "application/xml")
EXPECTED = {"currencyCode": "840", "transactionAmount": 1000}


def expect(what, holds):
    if not holds:
        raise service.Failed(f"{what} is not so")


def import_all(package):
    """Imports the package with all of its modules, so that each has been compiled and run."""
    module = importlib.import_module(package)
    for found in pkgutil.walk_packages(module.__path__, package + "."):
        importlib.import_module(found.name)
    return module


def python_client(top, target):
    """Runs openapi-python-client. Returns the package's name."""
    package = f"{TARGETS[target]}_client"
    # The schemas' titles are already unique type names.
    pathlib.Path("generator.yaml").write_text("use_path_prefixes_for_title_model_names: false\npost_hooks: []\n")
    said = service.run("openapi-python-client", "generate", "--path", f"{top}/Sources/{target}/openapi.json", "--meta", "none",
                       "--output-path", package, "--config", "generator.yaml", stdin=subprocess.DEVNULL).decode()
    for line in re.findall(r"^(?:Unable to process|Failure to|Cannot parse|Unsupported|Attempted|Could not).*", said, re.M):
        if not any(kind in line for kind in UNTYPED) and "Unsupported content type" not in line:
            raise service.Failed(f"openapi-python-client, {target}: {line}")
    import_all(package)
    return package


def generator_client(top, target):
    """Runs openapi-generator. Returns the package's name."""
    package = f"{TARGETS[target]}_generated"
    service.run("openapi-generator-cli", "generate", "--generator-name", "python", "--input-spec",
                f"{top}/Sources/{target}/openapi.json", "--output", f"{package}.tree", "--package-name", package,
                "--global-property", "apis,models,supportingFiles,apiDocs=false,modelDocs=false,apiTests=false,modelTests=false",
                stdin=subprocess.DEVNULL)
    sys.path.append(f"{package}.tree")
    import_all(package)
    return package


def relay(path):
    """Returns a URL of this host whose connections go to the Unix socket: urllib3 knows no Unix sockets."""
    host, port = cutter.Cutter(("127.0.0.1", 0), path).__enter__().listener.getsockname()
    return f"http://{host}:{port}"


def tokens():
    """Yields payment tokens of $10.00."""
    return (json.loads(line) for line in service.mint(20, "--amount", "1000"))


def httpx_client(module, path, **options):
    """Returns a client of openapi-python-client over a Unix socket."""
    import httpx
    client = (module.AuthenticatedClient if options else module.Client)(base_url="http://localhost", **options)
    headers = {"Authorization": f"Bearer {options['token']}"} if options else {}
    return client.set_httpx_client(
        httpx.Client(base_url="http://localhost", headers=headers, transport=httpx.HTTPTransport(uds=path)))


def decrypt_with_python_client(package, daemon, minted):
    module, models = importlib.import_module(package), importlib.import_module(f"{package}.models")
    def api(name): return importlib.import_module(f"{package}.api.{name}")
    client, admin = httpx_client(module, daemon.socket), httpx_client(module, daemon.admin)
    token = next(minted)
    request = models.DecryptRequest.from_dict({"token": token, "expected": EXPECTED, "reference": "order-1"})
    expect("the token's way through its type", request.to_dict()["token"] == token)
    answer = api("payments.decrypt").sync(client=client, body=request)
    expect("decrypt's answer", isinstance(answer, models.DecryptAnswer) and not answer.repeated)
    expect("the transactionId", answer.transaction_id == token["paymentData"]["header"]["transactionId"])
    request.reference = "order-2"
    refused = api("payments.decrypt").sync_detailed(client=client, body=request)
    expect("the replay's type", refused.status_code == 409 and isinstance(refused.parsed, models.ReplayedRefusal))
    verified = api("payments.verify").sync(client=client, body=models.VerifyRequest.from_dict({"token": token["paymentData"]}))
    expect("verify's answer", isinstance(verified, models.VerifyAnswer))
    expect("the status", api("administration.status").sync(client=admin).ready is True)
    expect("the readiness", isinstance(api("health.readiness").sync(client=client), models.Ready))
    keys = api("administration.list_keys").sync(client=admin)
    expect("the key", keys.items[0].use is models.KeyUse.PROCESSING)


def pay_with_python_client(package, shop, minted):
    module, models = importlib.import_module(package), importlib.import_module(f"{package}.models")
    def api(name): return importlib.import_module(f"{package}.api.{name}")
    client = httpx_client(module, shop.socket, token=shop.key.decode())
    request = models.ApplePayPaymentSubmission.from_dict(payment(next(minted)))
    result = api("payments.process_apple_pay_payment").sync(client=client, body=request)
    expect("the payment's result", isinstance(result, models.PaymentResult) and result.status == "authorized")
    asked = api("payments.get_payment_status").sync(client=client, transaction_id=result.transaction_id)
    expect("the payment's status", asked.status == "authorized")
    unknown = httpx_client(module, shop.socket, token="x")
    refused = api("payments.process_apple_pay_payment").sync_detailed(client=unknown, body=request)
    expect("the refusal's type", isinstance(refused.parsed, models.UnauthorizedError))


def payment(token):
    return {"token": token, "orderId": "order-1", "customerIPAddress": "2001:db8::7",
            "expected": {"amount": "10.00", "currency": "USD"}}


def decrypt_with_generated(package, daemon, minted):
    module = importlib.import_module(package)
    token = next(minted)
    with module.ApiClient(module.Configuration(host=relay(daemon.socket))) as client:
        request = module.DecryptRequest.from_dict({"token": token, "expected": EXPECTED, "reference": "order-1"})
        expect("the token's way through its type", request.to_dict()["token"] == token)
        answer = module.PaymentsApi(client).decrypt(request)
        expect("decrypt's answer", answer.transaction_id == token["paymentData"]["header"]["transactionId"])
    # The client must use the configured host, and not a server that the file has for a path.
    with module.ApiClient(module.Configuration(host=relay(daemon.admin))) as client:
        expect("the status", module.AdministrationApi(client).status().ready is True)


def pay_with_generated(package, shop, minted):
    module = importlib.import_module(package)
    settings = module.Configuration(host=relay(shop.socket), access_token=shop.key.decode())
    with module.ApiClient(settings) as client:
        api = module.PaymentsApi(client)
        result = api.process_apple_pay_payment(module.ApplePayPaymentSubmission.from_dict(payment(next(minted))))
        expect("the payment's result", result.status == "authorized")
        expect("the payment's status", api.get_payment_status(result.transaction_id).status == "authorized")


def main(top):
    sys.path.insert(0, ".")
    generators = [("openapi-python-client", python_client, decrypt_with_python_client, pay_with_python_client)]
    if shutil.which("java"):
        generators.append(("openapi-generator", generator_client, decrypt_with_generated, pay_with_generated))
    else:
        print("openapi-generator is left out, since there is no java")
    with service.serving() as daemon:
        shop, minted = Shop(daemon, random.Random(1)), tokens()
        with shop.simulator.started(), shop.gateway.started():
            for name, generate, decrypt, pay in generators:
                decrypt(generate(top, "Service/DaemonAPI"), daemon, minted)
                pay(generate(top, "Gateway/Gateway"), shop, minted)
                print(f"{name}: both files have clients, which decrypted and paid")
    print(f"check-openapi-clients: {len(generators)} generators")
    return 0


if __name__ == "__main__":
    with service.cleaning("check-openapi-clients"):
        sys.exit(main(sys.argv[1]))
