// PKCS#12 bundles (RFC 7292): one private key and its certificates, encrypted under a password.
#ifndef CLIBCRYPTO_PKCS12_H
#define CLIBCRYPTO_PKCS12_H

#include <stddef.h>

enum clibcrypto_pkcs12_result {
    // The bundle was opened; it may have no key or no certificate.
    CLIBCRYPTO_PKCS12_OPENED = 1,
    // The input is not exactly one well-formed bundle.
    CLIBCRYPTO_PKCS12_MALFORMED = 2,
    // Neither the MAC nor the encryption opens with this password.
    CLIBCRYPTO_PKCS12_WRONG_PASSWORD = 3,
    // The encryption opens with this password, but the MAC does not match: the file was changed after its creation.
    CLIBCRYPTO_PKCS12_MAC_MISMATCH = 4,
    // The bundle is signed or encrypted with public keys instead of a password (RFC 7292 section 3.1).
    CLIBCRYPTO_PKCS12_PUBLIC_KEY_MODE = 5,
    // None of libcrypto's providers has this algorithm; `description` names it.
    CLIBCRYPTO_PKCS12_UNSUPPORTED = 6,
    // Only libcrypto's legacy provider has this algorithm, named by `description`, and the provider is not installed.
    CLIBCRYPTO_PKCS12_LEGACY_MISSING = 7,
    // The password derivation needs more iterations than `maximum_iterations`, or the bundle has more parts than any
    // real one.
    CLIBCRYPTO_PKCS12_EXCESSIVE = 8,
    // libcrypto itself failed, or an output is too small.
    CLIBCRYPTO_PKCS12_FAILED = 9,
};

struct clibcrypto_pkcs12_contents {
    // The number of private keys found; the first one's bytes are in `pkcs8`.
    size_t key_count;
    // PrivateKeyInfo in DER (RFC 5958), as in the bundle, not checked.
    unsigned char *pkcs8;
    // Input: the space at `pkcs8`. Output: the key's length, 0 without a key.
    size_t pkcs8_count;
    // All certificates in DER, one after the other.
    unsigned char *certificates;
    // Input: the space at `certificates`. Output: their total length.
    size_t certificates_count;
    // A short readable name of an algorithm, ending with NUL.
    char description[80];
};

/// Opens a bundle in DER or BER.
///
/// An empty password is tried in both forms that programs use: as no password, and as an empty one. The amount of work
/// is checked before it starts: `maximum_iterations` applies to all derivations together.
///
/// OpenSSL's legacy provider has the old ciphers (RC2, RC4, single DES). It is loaded when a bundle needs it, into a
/// separate library context, so that no other code in the process gets them. OpenSSL's error queue is left empty.
enum clibcrypto_pkcs12_result clibcrypto_pkcs12_open(
    const unsigned char *der, size_t der_count, const char *password, size_t password_count,
    unsigned long maximum_iterations, struct clibcrypto_pkcs12_contents *contents);

#endif
