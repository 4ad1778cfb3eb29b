#!/usr/bin/env python3
"""Simulates Apple's host for merchant sessions, for scripts/demo. It requires a merchant's TLS certificate, and answers with a
session.

    simulated_apple.py CERTIFICATE KEY CLIENT-AUTHORITIES PORT-FILE

It listens on a free port of the loopback address, writes that to PORT-FILE, and serves until it is ended. A merchant whose
certificate does not belong to the merchant identifier in the body gets 417, as from Apple.
"""

import http.server
import json
import os
import ssl
import sys
import time


class JSONRequests(http.server.BaseHTTPRequestHandler):
    """Answers with JSON, and logs nothing."""
    protocol_version = "HTTP/1.1"

    def answer(self, status, members):
        content = json.dumps(members).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Sessions(JSONRequests):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        subject = dict(pair for name in self.connection.getpeercert()["subject"] for pair in name)
        fits = self.path == "/paymentservices/paymentSession" and subject.get("userId") == body["merchantIdentifier"]
        if not fits:
            return self.answer(417, {"statusMessage": "not this merchant's"})
        now = int(time.time() * 1000)
        self.answer(200, {
            "epochTimestamp": now,
            "expiresAt": now + 300_000,
            "merchantSessionIdentifier": "SSH" + os.urandom(16).hex().upper(),
            "nonce": os.urandom(4).hex(),
            "merchantIdentifier": body["merchantIdentifier"],
            "domainName": body["initiativeContext"],
            "displayName": body["displayName"],
            "signature": "308006092a864886f70d010702a0803080",
        })


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    certificate, key, authorities, port_file = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authorities)
    context.verify_mode = ssl.CERT_REQUIRED
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sessions)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with open(port_file + ".new", "w", encoding="ascii") as file:
        file.write(str(server.server_address[1]))
    os.rename(port_file + ".new", port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
