"""What a TLS client signs with its certificate's key: a TLS 1.3 client's CertificateVerify, and a TLS 1.2 handshake with one of
Apple's hosts."""
import os
import ssl

HOST = b"apple-pay-gateway.apple.com"
# The daemon's name of each algorithm, and openssl's options to verify it.
ALGORITHMS = {"rsa_pss_rsae_sha256": ("-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32"), "rsa_pkcs1_sha256": ()}


def tls13():
    """RFC 8446 §4.4.3. TLS 1.3 permits PSS alone."""
    return b" " * 64 + b"TLS 1.3, client CertificateVerify\0" + os.urandom(32)


def tls12(certificate):
    """All messages before the client's CertificateVerify (RFC 5246 §7.4.8). certificate: the client's, as PEM."""
    def vector(size, content):
        return len(content).to_bytes(size, "big") + content
    own = vector(3, vector(3, ssl.PEM_cert_to_DER_cert(certificate)))
    server_name = b"\0\0" + vector(2, vector(2, b"\0" + vector(2, HOST)))
    # ClientHello, ServerHello, Certificate, ServerKeyExchange, CertificateRequest with both algorithms, ServerHelloDone, Certificate,
    # ClientKeyExchange.
    messages = {1: b"\3\3" + os.urandom(32) + b"\0" + vector(2, b"\xc0\x2f") + b"\1\0" + vector(2, server_name),
                2: b"\3\3" + os.urandom(32) + b"\0\xc0\x2f\0", 11: own, 12: b"\3\0\x17" + vector(1, b"\4" + os.urandom(64)),
                13: vector(1, b"\1") + vector(2, b"\x08\x04\x04\x01") + vector(2, b""), 14: b""}
    last = {11: own, 16: vector(1, b"\4" + os.urandom(64))}
    return b"".join(bytes([kind]) + vector(3, body) for part in (messages, last) for kind, body in part.items())
