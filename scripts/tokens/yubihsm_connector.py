"""yubihsm_connector.py PORT FILE: plays Yubico's connector with a YubiHSM 2 that has the factory's authentication key, for Yubico's own
PKCS#11 library. FILE keeps the objects. Commands, sizes and secure channel are those of Yubico's "YubiHSM 2 Commands"; what the
library does not need for paytokend is refused as an invalid command. No part of it is as safe as the device.

AES comes from libcrypto, and asymmetric operations from the program openssl.
"""
import ctypes
import ctypes.util
import hashlib
import http.server
import itertools
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading

# Device errors.
INVALID_COMMAND, INVALID_DATA, INVALID_SESSION, AUTHENTICATION_FAILED, SESSIONS_FULL, NOT_FOUND, EXISTS = 1, 2, 3, 4, 5, 0x0b, 0x11
SESSIONS = 16
OPAQUE, AUTHENTICATION_KEY, ASYMMETRIC_KEY = 1, 2, 3
RSA_2048, EC_P256 = 9, 12
# All that the library names up to 2.6, without those of firmware 2.4.
ALGORITHMS = bytes(range(1, 48))
CRYPTO = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
for function in ("EVP_CIPHER_CTX_new", "EVP_aes_128_cbc"):
    getattr(CRYPTO, function).restype = ctypes.c_void_p


class Refused(Exception):
    """A command that the device answers with an error, whose number is the argument."""


def aes(key, data, vector=bytes(16), encrypts=True):
    """AES-128 in CBC, without padding."""
    context = ctypes.c_void_p(CRYPTO.EVP_CIPHER_CTX_new())
    output, count = ctypes.create_string_buffer(len(data) + 16), ctypes.c_int()
    CRYPTO.EVP_CipherInit_ex(context, ctypes.c_void_p(CRYPTO.EVP_aes_128_cbc()), None, key, vector, int(encrypts))
    CRYPTO.EVP_CIPHER_CTX_set_padding(context, 0)
    CRYPTO.EVP_CipherUpdate(context, output, ctypes.byref(count), data, len(data))
    CRYPTO.EVP_CIPHER_CTX_free(context)
    return output.raw[:count.value]


def cmac(key, data):
    """AES-CMAC, RFC 4493."""
    def double(block):
        number = int.from_bytes(block, "big") << 1
        return ((number & (1 << 128) - 1) ^ (0x87 if number >> 128 else 0)).to_bytes(16, "big")
    subkey = double(aes(key, bytes(16)))
    rest = data[(len(data) - 1) // 16 * 16:] if data else b""
    if len(rest) < 16:
        subkey, rest = double(subkey), (rest + b"\x80").ljust(16, b"\0")
    last = bytes(a ^ b for a, b in zip(rest, subkey))
    return aes(key, data[:max(len(data) - 1, 0) // 16 * 16] + last)[-16:]


def derive(key, kind, bits, context):
    return cmac(key, bytes(11) + bytes([kind, 0]) + struct.pack(">H", bits) + b"\x01" + context)[:bits // 8]


def message(command, data):
    return struct.pack(">BH", command, len(data)) + data


def openssl(*words, key=None, data=b""):
    """Runs openssl, with the key's PEM and the data as files that the words may name {key} and {data}."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"key": f"{folder}/key", "data": f"{folder}/data"}
        pathlib.Path(places["key"]).write_text(key or "")
        pathlib.Path(places["data"]).write_bytes(data)
        done = subprocess.run(["openssl", *(word.format(**places) for word in words)], capture_output=True)
    if done.returncode != 0:
        raise Refused(INVALID_DATA)
    return done.stdout


class Session:
    """A secure channel (SCP03) with the factory's authentication key."""
    KEYS = hashlib.pbkdf2_hmac("sha256", b"password", b"Yubico", 10_000, 32)

    def __init__(self, challenge):
        own = os.urandom(8)
        context = challenge + own
        self.encryption, self.mac, self.answer_mac = (
            derive(key, kind, 128, context) for key, kind in ((self.KEYS[:16], 4), (self.KEYS[16:], 6), (self.KEYS[16:], 7)))
        self.answer = own + derive(self.mac, 0, 64, context)
        self.expected, self.chain, self.counter, self.is_open = derive(self.mac, 1, 64, context), bytes(16), 0, False

    def check(self, command, data):
        """Returns the data without its MAC, which must be right."""
        full = cmac(self.mac, self.chain + struct.pack(">BH", command, len(data)) + data[:-8])
        if full[:8] != data[-8:]:
            raise Refused(AUTHENTICATION_FAILED)
        self.chain = full
        return data[:-8]

    def authenticate(self, data):
        if self.check(4, data)[1:] != self.expected:
            raise Refused(AUTHENTICATION_FAILED)
        self.is_open = True
        return b""

    def exchange(self, data, execute):
        sealed = self.check(5, data)
        self.counter += 1
        vector = aes(self.encryption, self.counter.to_bytes(16, "big"))
        inner = aes(self.encryption, sealed[1:], vector, encrypts=False)
        command, size = struct.unpack(">BH", inner[:3])
        try:
            answer = message(command | 0x80, execute(command, inner[3:3 + size]))
        except Refused as refused:
            print(f"command {command:#04x} with {size} bytes is refused: {refused}", file=sys.stderr, flush=True)
            answer = message(0x7f, bytes(refused.args))
        answer += b"\x80"
        answer = sealed[:1] + aes(self.encryption, answer.ljust(-(-len(answer) // 16) * 16, b"\0"), vector)
        return answer + cmac(self.answer_mac, self.chain + struct.pack(">BH", 0x85, len(answer) + 8) + answer)[:8]


class Device:
    """The objects, by number and type; each has what its information contains, and its secret or content in hexadecimal or PEM."""

    def __init__(self, file):
        self.file, self.sessions, self.lock = pathlib.Path(file), {}, threading.Lock()
        self.objects = {(1, AUTHENTICATION_KEY): {"capabilities": "ff" * 8, "domains": 0xffff, "algorithm": 38, "sequence": 0,
                                                  "origin": 2, "label": b"DEFAULT AUTHKEY".ljust(40, b"\0").hex(), "length": 40}}
        if self.file.exists():
            self.objects = {tuple(place): each for place, each in json.loads(self.file.read_text())}

    def keep(self):
        self.file.write_text(json.dumps(list(self.objects.items())))

    def answer(self, request):
        command, size = struct.unpack(">BH", request[:3])
        data = request[3:3 + size]
        with self.lock:
            try:
                return message(command | 0x80, self.execute_plain(command, data))
            except Refused as refused:
                return message(0x7f, bytes(refused.args))

    def execute_plain(self, command, data):
        if command == 6:
            # Firmware 2.3.2; page 1 is the part's number.
            return b"78CLUFX5000P" if data == b"\x01" else bytes([2, 3, 2]) + struct.pack(">I", 12345678) + bytes([62, 0]) + ALGORITHMS
        if command == 1:
            return data
        if command == 3:
            if data[:2] != b"\0\x01":
                raise Refused(NOT_FOUND)
            free = next((number for number in range(SESSIONS) if number not in self.sessions), None)
            # The device ends sessions that were idle for 30 seconds; this one the oldest.
            if free is None:
                free = next(iter(self.sessions))
                del self.sessions[free]
            self.sessions[free] = Session(data[2:10])
            return bytes([free]) + self.sessions[free].answer
        if command not in (4, 5):
            raise Refused(INVALID_COMMAND)
        session = self.sessions.get(data[0])
        if session is None or session.is_open != (command == 5):
            raise Refused(INVALID_SESSION)
        if command == 4:
            try:
                return session.authenticate(data)
            except Refused:
                del self.sessions[data[0]]
                raise
        return session.exchange(data, lambda inner, rest: self.execute(inner, rest, data[0]))

    def execute(self, command, data, session):
        if command in (0x01, 0x40, 0x41, 0x51):
            return {0x01: lambda: data, 0x40: lambda: self.close(session), 0x41: self.storage,
                    0x51: lambda: os.urandom(struct.unpack(">H", data)[0])}[command]()
        own = {0x42: self.put_opaque, 0x43: self.opaque, 0x45: self.put_key, 0x46: self.generate, 0x47: self.sign_pkcs1,
               0x48: self.list, 0x49: self.decrypt_pkcs1, 0x4e: self.information, 0x54: self.public_key, 0x55: self.sign_pss,
               0x56: self.sign_ecdsa, 0x57: self.derive_ecdh, 0x58: self.delete, 0x59: self.decrypt_oaep}.get(command)
        if own is None:
            raise Refused(INVALID_COMMAND)
        return own(data)

    # Objects

    def close(self, session):
        # Its answer still goes through the channel.
        del self.sessions[session]
        return b""

    def storage(self):
        return struct.pack(">5H", 256, 256 - len(self.objects), 1024, 1024 - 8 * len(self.objects), 126)

    def add(self, data, kind, length, origin, **secret):
        """Adds an object with the fields that commands begin with: number, label, domains, capabilities, algorithm."""
        number = struct.unpack(">H", data[:2])[0] or next(
            free for free in itertools.count(0x1000) if (free, kind) not in self.objects)
        if (number, kind) in self.objects:
            raise Refused(EXISTS)
        self.objects[number, kind] = {"label": data[2:42].hex(), "domains": struct.unpack(">H", data[42:44])[0],
                                      "capabilities": data[44:52].hex(), "algorithm": data[52], "sequence": 0, "origin": origin,
                                      "length": length, **secret}
        self.keep()
        return struct.pack(">H", number)

    def find(self, data, kind=None):
        number = struct.unpack(">H", data[:2])[0]
        each = self.objects.get((number, data[2] if kind is None else kind))
        if each is None:
            raise Refused(NOT_FOUND)
        return each

    def list(self, data):
        sizes, wanted = {1: 2, 2: 1, 3: 2, 4: 8, 5: 1, 6: 40}, {}
        while data:
            size = sizes.get(data[0])
            if size is None:
                raise Refused(INVALID_DATA)
            wanted[data[0]], data = data[1:1 + size], data[1 + size:]

        def fits(number, kind, each):
            bits = int(each["capabilities"], 16)
            return all((struct.pack(">H", number) == value, bytes([kind]) == value, each["domains"] & int.from_bytes(value, "big"),
                        bits & int.from_bytes(value, "big") == int.from_bytes(value, "big"), bytes([each["algorithm"]]) == value,
                        bytes.fromhex(each["label"]) == value)[field - 1] for field, value in wanted.items())
        return b"".join(struct.pack(">HBB", number, kind, each["sequence"])
                        for (number, kind), each in self.objects.items() if fits(number, kind, each))

    def information(self, data):
        each = self.find(data)
        return bytes.fromhex(each["capabilities"]) + data[:2] + struct.pack(
            ">HHBBBB", each["length"], each["domains"], data[2], each["algorithm"], each["sequence"], each["origin"]) + bytes.fromhex(
                each["label"]) + bytes(8)

    def delete(self, data):
        self.find(data)
        del self.objects[struct.unpack(">H", data[:2])[0], data[2]]
        self.keep()
        return b""

    def put_opaque(self, data):
        return self.add(data, OPAQUE, len(data) - 53, 2, content=data[53:].hex())

    def opaque(self, data):
        return bytes.fromhex(self.find(data, OPAQUE)["content"])

    # Keys

    def generate(self, data):
        kinds = {RSA_2048: ("RSA", "rsa_keygen_bits:2048"), EC_P256: ("EC", "ec_paramgen_curve:P-256")}
        if data[52] not in kinds:
            raise Refused(INVALID_DATA)
        algorithm, option = kinds[data[52]]
        key = openssl("genpkey", "-algorithm", algorithm, "-pkeyopt", option).decode()
        return self.add(data, ASYMMETRIC_KEY, 896 if algorithm == "RSA" else 96, 1, key=key)

    def put_key(self, data):
        value = data[53:]
        if data[52] == EC_P256:
            # RFC 5915, without the public key, which openssl computes.
            key = bytes.fromhex("30310201010420") + value + bytes.fromhex("a00a06082a8648ce3d030107")
        elif data[52] == RSA_2048:
            p, q, e = int.from_bytes(value[:128], "big"), int.from_bytes(value[128:], "big"), 65537
            d = pow(e, -1, (p - 1) * (q - 1))
            key = sequence(0, p * q, e, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))
        else:
            raise Refused(INVALID_DATA)
        key = openssl("pkey", "-inform", "DER", "-in", "{data}", data=key).decode()
        return self.add(data, ASYMMETRIC_KEY, 896 if data[52] == RSA_2048 else 96, 2, key=key)

    def public_key(self, data):
        each = self.find(data, ASYMMETRIC_KEY)
        encoded = openssl("pkey", "-in", "{key}", "-pubout", "-outform", "DER", key=each["key"])
        # The point, or the modulus before the exponent 65537, ends the SubjectPublicKeyInfo.
        return bytes([each["algorithm"]]) + (encoded[-64:] if each["algorithm"] == EC_P256 else encoded[-261:-5])

    def operate(self, data, operation, *options, rest):
        return openssl("pkeyutl", operation, "-inkey", "{key}", "-in", "{data}", *(word for option in options for word in (
            "-pkeyopt", option)), key=self.find(data, ASYMMETRIC_KEY)["key"], data=rest)

    def sign_pkcs1(self, data):
        digests = {20: "sha1", 32: "sha256", 48: "sha384", 64: "sha512"}
        digest = digests.get(len(data) - 2)
        return self.operate(data, "-sign", "rsa_padding_mode:pkcs1", *([f"digest:{digest}"] if digest else []), rest=data[2:])

    def sign_pss(self, data):
        digest = {32: "sha1", 33: "sha256", 34: "sha384", 35: "sha512"}[data[2]]
        return self.operate(data, "-sign", "rsa_padding_mode:pss", f"digest:{digest}", f"rsa_mgf1_md:{digest}",
                            f"rsa_pss_saltlen:{struct.unpack('>H', data[3:5])[0]}", rest=data[5:])

    def sign_ecdsa(self, data):
        return self.operate(data, "-sign", rest=data[2:])

    def decrypt_pkcs1(self, data):
        return self.operate(data, "-decrypt", "rsa_padding_mode:pkcs1", rest=data[2:])

    def decrypt_oaep(self, data):
        size = {32: 20, 33: 32, 34: 48, 35: 64}[data[2]]
        digest, mask = (next(name for name, own in (("sha1", 20), ("sha256", 32), ("sha384", 48), ("sha512", 64)) if own == count)
                        for count in (len(data) - 3 - 256, size))
        if data[-len(hashlib.new(digest).digest()):] != hashlib.new(digest).digest():
            # A label other than the empty one.
            raise Refused(INVALID_DATA)
        return self.operate(data, "-decrypt", "rsa_padding_mode:oaep", f"rsa_oaep_md:{digest}", f"rsa_mgf1_md:{mask}",
                            rest=data[3:3 + 256])

    def derive_ecdh(self, data):
        # SubjectPublicKeyInfo of a P-256 point.
        peer = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200") + data[2:]
        return openssl("pkeyutl", "-derive", "-inkey", "{key}", "-peerkey", "{data}", "-peerform", "DER",
                       key=self.find(data, ASYMMETRIC_KEY)["key"], data=peer)


def sequence(*numbers):
    """DER of a SEQUENCE of INTEGERs."""
    def tagged(tag, content):
        size = len(content)
        length = bytes([size]) if size < 128 else (lambda text: bytes([0x80 | len(text)]) + text)(
            size.to_bytes((size.bit_length() + 7) // 8, "big"))
        return bytes([tag]) + length + content
    return tagged(0x30, b"".join(tagged(2, number.to_bytes(number.bit_length() // 8 + 1, "big")) for number in numbers))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    device: Device

    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply("text/plain", f"status=OK\nserial=*\nversion=3.0.4\npid={os.getpid()}\naddress=127.0.0.1\nport={sys.argv[1]}\n".encode())

    def do_POST(self):
        self.reply("application/octet-stream", self.device.answer(self.rfile.read(int(self.headers["Content-Length"]))))

    def log_message(self, *words):
        pass


if __name__ == "__main__":
    Handler.device = Device(sys.argv[2])
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
