"""Measures POST /v1/decrypt against a running paytokend, and beside it the raw loop of HSM operations.

Called by `scripts/soak throughput`. Python's standard library only. Each client is a process with one keep-alive
connection that sends its next request when the answer is there; requests are made before the clock starts. The raw
loop is C_DeriveKey, C_GetAttributeValue and C_DestroyObject on the same token, key and machine, with as many threads
as the worker has sessions: what the HSM alone could do.
"""
import argparse
import ctypes
import hashlib
import json
import multiprocessing
import os
import socket
import sys
import threading
import time

CK = ctypes.c_ulong
CKU_USER, CKF_SERIAL_SESSION, CKF_OS_LOCKING_OK = 1, 4, 2
CKA_CLASS, CKA_TOKEN, CKA_VALUE, CKA_KEY_TYPE, CKA_ID = 0x0, 0x1, 0x11, 0x100, 0x102
CKA_SENSITIVE, CKA_EXTRACTABLE = 0x103, 0x162
CKO_PRIVATE_KEY, CKO_SECRET_KEY, CKK_GENERIC_SECRET = 3, 4, 0x10
CKM_ECDH1_DERIVE, CKD_NULL = 0x1050, 1
# P-256's generator: any point on the curve costs the token the same.
POINT = bytes.fromhex(
    "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
    "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5")


class Attribute(ctypes.Structure):
    _fields_ = [("type", CK), ("value", ctypes.c_void_p), ("length", CK)]


class Mechanism(ctypes.Structure):
    _fields_ = [("mechanism", CK), ("parameter", ctypes.c_void_p), ("length", CK)]


class ECDH1DeriveParams(ctypes.Structure):
    _fields_ = [("kdf", CK), ("shared_length", CK), ("shared", ctypes.c_void_p),
                ("public_length", CK), ("public", ctypes.c_void_p)]


class InitializeArgs(ctypes.Structure):
    _fields_ = [("mutex", ctypes.c_void_p * 4), ("flags", CK), ("reserved", ctypes.c_void_p)]


class RawLoop:
    """The HSM without a daemon. Runs in a process of its own: a PKCS#11 library is never shared across a fork."""

    def __init__(self, module, label, pin, identifier):
        self.library = ctypes.CDLL(module)
        self.call("C_Initialize", ctypes.byref(InitializeArgs(flags=CKF_OS_LOCKING_OK)))
        self.slot = self.slot_of(label)
        self.session = self.open_session()
        self.call("C_Login", self.session, CK(CKU_USER), pin, CK(len(pin)))
        self.key = self.find(identifier)

    def call(self, name, *arguments):
        value = getattr(self.library, name)(*arguments)
        if value:
            raise RuntimeError(f"{name}: 0x{value:x}")

    @staticmethod
    def template(*attributes):
        array, kept = (Attribute * len(attributes))(), []
        for index, (kind, value) in enumerate(attributes):
            if isinstance(value, bool):
                value = ctypes.c_ubyte(value)
            elif isinstance(value, int):
                value = CK(value)
            else:
                value = ctypes.create_string_buffer(value, len(value))
            kept.append(value)
            array[index] = Attribute(kind, ctypes.addressof(value), ctypes.sizeof(value))
        array.kept = kept
        return array

    def slot_of(self, label):
        count = CK()
        self.call("C_GetSlotList", 1, None, ctypes.byref(count))
        slots = (CK * count.value)()
        self.call("C_GetSlotList", 1, slots, ctypes.byref(count))
        for slot in slots:
            info = ctypes.create_string_buffer(512)
            self.call("C_GetTokenInfo", CK(slot), info)
            if info.raw[:32].rstrip() == label:
                return CK(slot)
        raise RuntimeError("no token of that label")

    def open_session(self):
        session = CK()
        self.call("C_OpenSession", self.slot, CK(CKF_SERIAL_SESSION | 2), None, None, ctypes.byref(session))
        return session

    def find(self, identifier):
        template = self.template((CKA_CLASS, CKO_PRIVATE_KEY), (CKA_ID, identifier))
        self.call("C_FindObjectsInit", self.session, template, CK(len(template)))
        key, count = CK(), CK()
        self.call("C_FindObjects", self.session, ctypes.byref(key), CK(1), ctypes.byref(count))
        self.call("C_FindObjectsFinal", self.session)
        if count.value != 1:
            raise RuntimeError("the key is not in the token")
        return key

    def session_copy(self):
        copy, template = CK(), self.template((CKA_TOKEN, False))
        self.call("C_CopyObject", self.session, self.key, template, CK(len(template)), ctypes.byref(copy))
        return copy

    def work(self, key, until, counts, index):
        session, derived = self.open_session(), CK()
        point = ctypes.create_string_buffer(POINT, len(POINT))
        parameters = ECDH1DeriveParams(CKD_NULL, 0, None, len(POINT), ctypes.addressof(point))
        mechanism = Mechanism(CKM_ECDH1_DERIVE, ctypes.addressof(parameters), ctypes.sizeof(parameters))
        template = self.template((CKA_CLASS, CKO_SECRET_KEY), (CKA_KEY_TYPE, CKK_GENERIC_SECRET), (CKA_TOKEN, False),
                                 (CKA_SENSITIVE, False), (CKA_EXTRACTABLE, True))
        secret = self.template((CKA_VALUE, bytes(32)))
        derive, read, destroy = (getattr(self.library, name) for name in
                                 ("C_DeriveKey", "C_GetAttributeValue", "C_DestroyObject"))
        done = 0
        while time.monotonic() < until:
            if (derive(session, ctypes.byref(mechanism), key, template, CK(len(template)), ctypes.byref(derived))
                    or read(session, derived, secret, CK(1)) or destroy(session, derived)):
                raise RuntimeError("the raw loop failed")
            done += 1
        counts[index] = done

    def rate(self, key, threads, seconds):
        counts, began = [0] * threads, time.monotonic()
        workers = [threading.Thread(target=self.work, args=(key, began + seconds, counts, index))
                   for index in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sum(counts) / (time.monotonic() - began)


def raw_loop(options, identifier, threads, seconds, pipe):
    with open(options.pin_file, "rb") as file:
        pin = file.read().rstrip(b"\n")
    loop = RawLoop(options.module, options.label.encode(), pin, identifier)
    pipe.send((loop.rate(loop.key, threads, seconds), loop.rate(loop.session_copy(), threads, seconds)))
    os._exit(0)


def requests(file, limit):
    for number, line in enumerate(file):
        if number >= limit:
            return
        body = b'{"token":' + line.strip() + b',"reference":"soak-%d"}' % number
        yield (b"POST /v1/decrypt HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               b"Content-Length: %d\r\n\r\n" % len(body)) + body


def exchange(connection, request):
    """Status and body of one answer on a keep-alive connection."""
    connection.sendall(request)
    received = connection.recv(65536)
    while b"\r\n\r\n" not in received:
        more = connection.recv(65536)
        if not more:
            raise ConnectionError("the daemon closed the connection")
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)
    return int(head[9:12]), body


def client(path, own, start, seconds, pipe):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    times, refusals = [], {}
    start.wait()
    until = time.monotonic() + seconds
    for request in own:
        began = time.monotonic()
        if began >= until:
            break
        status, body = exchange(connection, request)
        times.append(time.monotonic() - began)
        if status != 200:
            code = json.loads(body).get("code", str(status))
            refusals[code] = refusals.get(code, 0) + 1
    pipe.send((times, refusals, time.monotonic()))


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("socket", "tokens", "module", "label", "pin-file", "public-key"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()

    with open(options.public_key, "rb") as file:
        identifier = hashlib.sha256(file.read()).digest()
    context = multiprocessing.get_context("fork")
    near, far = context.Pipe()
    loop = context.Process(
        target=raw_loop, args=(options, identifier, options.sessions, max(1.0, min(3.0, options.seconds / 4)), far))
    loop.start()
    far.close()
    try:
        raw, copied = near.recv()
    except EOFError:
        sys.exit("throughput: the raw loop failed")
    loop.join()

    with open(options.tokens, "rb") as file:
        prepared = list(requests(file, sys.maxsize))
    start = context.Barrier(options.clients + 1)
    pipes = []
    for index in range(options.clients):
        near, far = context.Pipe()
        own = prepared[index::options.clients]
        context.Process(target=client, args=(options.socket, own, start, options.seconds, far)).start()
        far.close()
        pipes.append(near)
    start.wait()
    began = time.monotonic()
    times, refusals, end = [], {}, began
    for pipe in pipes:
        try:
            own, refused, ended = pipe.recv()
        except EOFError:
            sys.exit("throughput: a client failed")
        times += own
        end = max(end, ended)
        for code, count in refused.items():
            refusals[code] = refusals.get(code, 0) + count
    times.sort()
    rate = len(times) / (end - began)
    print(f"requests            {len(times)} in {end - began:.1f} s from {options.clients} clients"
          f" ({len(prepared)} tokens were minted before)")
    print(f"throughput          {rate:.0f}/s")
    print(f"latency             p50 {percentile(times, 0.5):.2f} ms, p99 {percentile(times, 0.99):.2f} ms,"
          f" longest {times[-1] * 1000:.1f} ms")
    print(f"raw HSM loop        {raw:.0f}/s with {options.sessions} threads"
          f" ({copied:.0f}/s on a session copy of the key)")
    print(f"ratio               {rate / raw:.2f} of the raw loop ({rate / copied:.2f} of the one on a session copy)")
    for code, count in sorted(refusals.items()):
        print(f"refused             {count} {code}")
    return 1 if refusals or not times else 0


if __name__ == "__main__":
    sys.exit(main())
