// Private keys of whatever form in, PKCS#8 out.
#ifndef CLIBCRYPTO_PRIVATE_KEY_H
#define CLIBCRYPTO_PRIVATE_KEY_H

#include <stddef.h>

enum clibcrypto_private_key_result {
    CLIBCRYPTO_PRIVATE_KEY_EC_P256 = 1,
    CLIBCRYPTO_PRIVATE_KEY_RSA_2048 = 2,
    // Not one whole, well-formed private key.
    CLIBCRYPTO_PRIVATE_KEY_MALFORMED = 3,
    // The encryption does not open: another password, or a cipher that libcrypto does not offer by default.
    CLIBCRYPTO_PRIVATE_KEY_NOT_OPENED = 4,
    // A key of another type, curve or length; `description` says which.
    CLIBCRYPTO_PRIVATE_KEY_OTHER_KIND = 5,
    // Its numbers contradict each other.
    CLIBCRYPTO_PRIVATE_KEY_INCONSISTENT = 6,
    // libcrypto failed by itself, or `pkcs8` is too small.
    CLIBCRYPTO_PRIVATE_KEY_FAILED = 7,
    // Its password's derivation would take more than `maximum_iterations`.
    CLIBCRYPTO_PRIVATE_KEY_EXCESSIVE = 8,
};

enum clibcrypto_private_key_form {
    // PrivateKeyInfo (RFC 5958), ECPrivateKey (RFC 5915) or RSAPrivateKey (RFC 8017 A.1.2).
    CLIBCRYPTO_PRIVATE_KEY_PLAIN = 0,
    // EncryptedPrivateKeyInfo (RFC 5958 section 3).
    CLIBCRYPTO_PRIVATE_KEY_ENCRYPTED = 1,
};

/// Reads one private key in DER, checks that its parts belong together, and writes it as PrivateKeyInfo in DER: an EC
/// key with its curve by name and its public key as an uncompressed point, whatever the file had.
///
/// `description` gets a short name of the key's type for people, such as "EC secp384r1" or "RSA 4096", with a zero at
/// its end. `password` may be NULL when the key is not encrypted. Nothing stays in OpenSSL's error queue.
///
/// libcrypto wipes the numbers of a key when it frees it. Its decoders of version 3.0 free some of their buffers
/// without wiping them: for a short-lived program without core dumps, not for a daemon.
enum clibcrypto_private_key_result clibcrypto_private_key_to_pkcs8(
    enum clibcrypto_private_key_form form, const unsigned char *der, size_t der_count, const char *password,
    size_t password_count, unsigned long maximum_iterations, unsigned char *pkcs8, size_t *pkcs8_count,
    char *description, size_t description_capacity);

/// Whether a certificate in DER is for the public half of a private key in DER, as the function above writes it: 1 or 0.
/// The same holds of memory and of the error queue.
int clibcrypto_private_key_fits_certificate(
    const unsigned char *pkcs8, size_t pkcs8_count, const unsigned char *certificate, size_t certificate_count);

#endif
