// PKCS#12 bundles (RFC 7292): one private key and its certificates under a password.
#ifndef CLIBCRYPTO_PKCS12_H
#define CLIBCRYPTO_PKCS12_H

#include <stddef.h>

enum clibcrypto_pkcs12_result {
    // Opened; there may be no key or no certificate in it.
    CLIBCRYPTO_PKCS12_OPENED = 1,
    // Not one whole, well-formed bundle.
    CLIBCRYPTO_PKCS12_MALFORMED = 2,
    // Neither the MAC nor the encryption opens with this password.
    CLIBCRYPTO_PKCS12_WRONG_PASSWORD = 3,
    // The encryption opens with this password, but the MAC is another's: the file was changed after it was made.
    CLIBCRYPTO_PKCS12_MAC_MISMATCH = 4,
    // Signed or encrypted with public keys instead of a password (RFC 7292 section 3.1).
    CLIBCRYPTO_PKCS12_PUBLIC_KEY_MODE = 5,
    // An algorithm that libcrypto has in none of its providers; `description` names it.
    CLIBCRYPTO_PKCS12_UNSUPPORTED = 6,
    // An algorithm, named by `description`, of libcrypto's legacy provider, which is not installed.
    CLIBCRYPTO_PKCS12_LEGACY_MISSING = 7,
    // More iterations of the password's derivation than `maximum_iterations`, or more parts than any real bundle.
    CLIBCRYPTO_PKCS12_EXCESSIVE = 8,
    // libcrypto failed by itself, or an output is too small.
    CLIBCRYPTO_PKCS12_FAILED = 9,
};

struct clibcrypto_pkcs12_contents {
    // All private keys that were found; the first one's bytes are in `pkcs8`.
    size_t key_count;
    // PrivateKeyInfo in DER (RFC 5958), as the bundle has it: not judged.
    unsigned char *pkcs8;
    // In: the room at `pkcs8`; out: the key's length, 0 without one.
    size_t pkcs8_count;
    // All certificates in DER, one after the other.
    unsigned char *certificates;
    // In: the room at `certificates`; out: their length together.
    size_t certificates_count;
    // A short name of an algorithm for people, with a zero at its end.
    char description[80];
};

/// Opens a bundle in DER or BER.
///
/// A password of no bytes is tried in both of the ways in which programs spell it: as no password, and as an empty one.
/// The work is bounded before it is begun: `maximum_iterations` is for all derivations together.
///
/// The old ciphers (RC2, RC4, single DES) are taken from OpenSSL's legacy provider, loaded when a bundle needs it into
/// a library context of its own, so that nothing else in the process gets them. Nothing stays in OpenSSL's error queue.
enum clibcrypto_pkcs12_result clibcrypto_pkcs12_open(
    const unsigned char *der, size_t der_count, const char *password, size_t password_count,
    unsigned long maximum_iterations, struct clibcrypto_pkcs12_contents *contents);

#endif
