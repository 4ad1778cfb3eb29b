// Conversion of private keys in any supported format to PKCS#8.
#ifndef CLIBCRYPTO_PRIVATE_KEY_H
#define CLIBCRYPTO_PRIVATE_KEY_H

#include <stddef.h>

enum clibcrypto_private_key_result {
    CLIBCRYPTO_PRIVATE_KEY_EC_P256 = 1,
    CLIBCRYPTO_PRIVATE_KEY_RSA_2048 = 2,
    // The input is not exactly one well-formed private key.
    CLIBCRYPTO_PRIVATE_KEY_MALFORMED = 3,
    // The key cannot be decrypted: the password is wrong, or libcrypto does not offer the cipher by default.
    CLIBCRYPTO_PRIVATE_KEY_NOT_OPENED = 4,
    // A key of another type, curve or length; `description` names it.
    CLIBCRYPTO_PRIVATE_KEY_OTHER_KIND = 5,
    // The key's numbers contradict each other.
    CLIBCRYPTO_PRIVATE_KEY_INCONSISTENT = 6,
    // libcrypto itself failed, or `pkcs8` is too small.
    CLIBCRYPTO_PRIVATE_KEY_FAILED = 7,
    // The password derivation needs more than `maximum_iterations`.
    CLIBCRYPTO_PRIVATE_KEY_EXCESSIVE = 8,
};

enum clibcrypto_private_key_form {
    // PrivateKeyInfo (RFC 5958), ECPrivateKey (RFC 5915) or RSAPrivateKey (RFC 8017 A.1.2).
    CLIBCRYPTO_PRIVATE_KEY_PLAIN = 0,
    // EncryptedPrivateKeyInfo (RFC 5958 section 3).
    CLIBCRYPTO_PRIVATE_KEY_ENCRYPTED = 1,
};

/// Reads one private key in DER, checks that its parts match, and writes it as PrivateKeyInfo in DER. An EC key is
/// written with its curve by name and its public key as an uncompressed point, regardless of their form in the file.
///
/// `description` gets a short readable name of the key's type, such as "EC secp384r1" or "RSA 4096", ending with NUL.
/// `password` may be NULL if the key is not encrypted. OpenSSL's error queue is left empty.
///
/// libcrypto wipes a key's numbers when it frees the key. The decoders of version 3.0 free some of their buffers
/// without wiping them. Use this function only in a short-lived program without core dumps, not in a daemon.
enum clibcrypto_private_key_result clibcrypto_private_key_to_pkcs8(
    enum clibcrypto_private_key_form form, const unsigned char *der, size_t der_count, const char *password,
    size_t password_count, unsigned long maximum_iterations, unsigned char *pkcs8, size_t *pkcs8_count,
    char *description, size_t description_capacity);

/// Returns 1 if a certificate in DER is for the public half of a private key, otherwise 0. The key must be in the form
/// that the function above writes. The notes above on memory and the error queue apply here too.
int clibcrypto_private_key_fits_certificate(
    const unsigned char *pkcs8, size_t pkcs8_count, const unsigned char *certificate, size_t certificate_count);

/// Writes the SubjectPublicKeyInfo in DER (RFC 5280 §4.1) of a private key in the form that
/// `clibcrypto_private_key_to_pkcs8` writes. `*public_key_count` is the capacity of `public_key`, and then the number of
/// bytes written. Returns 1, or 0 if the key cannot be decoded or the capacity is too small.
int clibcrypto_private_key_public_key(
    const unsigned char *pkcs8, size_t pkcs8_count, unsigned char *public_key, size_t *public_key_count);

#endif
