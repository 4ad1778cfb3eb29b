"""Checks signatures with OpenSSL's library in this process, for verify-audit, which otherwise starts an openssl process for each."""
import base64, ctypes, ctypes.util, functools, pathlib

try:
    LIBRARY = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
    for name in ("d2i_PUBKEY", "EVP_MD_CTX_new", "EVP_sha256"): getattr(LIBRARY, name).restype = ctypes.c_void_p
    EVP_DigestVerifyInit, EVP_DigestVerify = LIBRARY.EVP_DigestVerifyInit, LIBRARY.EVP_DigestVerify
except (AttributeError, OSError): raise ImportError("OpenSSL's library was not found") from None

@functools.cache
def loaded(path: pathlib.Path) -> ctypes.c_void_p:
    der = base64.b64decode(b"".join(path.read_bytes().split(b"-----")[2].split()))
    return ctypes.c_void_p(LIBRARY.d2i_PUBKEY(None, ctypes.byref(ctypes.c_char_p(der)), ctypes.c_long(len(der))))

def is_signed(path, options, signature, signed):
    """Returns true if the key in a PEM file made the signature; false also if the library cannot tell, so that openssl has to decide.
    The options are those of openssl dgst."""
    key, parameters, digest = loaded(path), ctypes.c_void_p(), ctypes.c_void_p(LIBRARY.EVP_sha256())
    context = ctypes.c_void_p(LIBRARY.EVP_MD_CTX_new())
    try:
        return bool(key and context and EVP_DigestVerifyInit(context, ctypes.byref(parameters), digest, None, key) == 1
                    and all(LIBRARY.EVP_PKEY_CTX_ctrl_str(parameters, *option.encode().split(b":")) == 1 for option in options[1::2])
                    and EVP_DigestVerify(context, signature, ctypes.c_size_t(len(signature)), signed, ctypes.c_size_t(len(signed))) == 1)
    finally: LIBRARY.EVP_MD_CTX_free(context)
