#include "private_key.h"
#include "password_work.h"

#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/encoder.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pkcs12.h>
#include <openssl/x509.h>
#include <string.h>

static EVP_PKEY *decode_plain(const unsigned char *der, size_t der_count) {
    const unsigned char *position = der;
    EVP_PKEY *key = d2i_AutoPrivateKey(NULL, &position, (long)der_count);
    if (key != NULL && position != der + der_count) {
        EVP_PKEY_free(key);
        return NULL;
    }
    return key;
}

static EVP_PKEY *decode_encrypted(
    const unsigned char *der, size_t der_count, const char *password, size_t password_count,
    unsigned long maximum_iterations, enum clibcrypto_private_key_result *failure) {
    *failure = CLIBCRYPTO_PRIVATE_KEY_MALFORMED;
    const unsigned char *position = der;
    X509_SIG *encrypted = d2i_X509_SIG(NULL, &position, (long)der_count);
    if (encrypted == NULL) return NULL;
    EVP_PKEY *key = NULL;
    const X509_ALGOR *encryption;
    X509_SIG_get0(encrypted, &encryption, NULL);
    uint64_t iterations = 0;
    char derivation[80];
    // An unknown derivation needs no limit: the decryption fails before it does any work.
    if (position == der + der_count &&
        password_work(encryption, &iterations, derivation, sizeof derivation) == PASSWORD_WORK_KNOWN &&
        iterations > maximum_iterations) {
        *failure = CLIBCRYPTO_PRIVATE_KEY_EXCESSIVE;
    } else if (position == der + der_count) {
        PKCS8_PRIV_KEY_INFO *info = PKCS8_decrypt(encrypted, password, (int)password_count);
        if (info == NULL) {
            *failure = CLIBCRYPTO_PRIVATE_KEY_NOT_OPENED;
        } else {
            key = EVP_PKCS82PKEY(info);
            PKCS8_PRIV_KEY_INFO_free(info);
        }
    }
    X509_SIG_free(encrypted);
    return key;
}

/// Returns the kind of the key, or OTHER_KIND.
static enum clibcrypto_private_key_result kind_of(EVP_PKEY *key, char *description, size_t capacity) {
    const char *type = EVP_PKEY_get0_type_name(key);
    if (EVP_PKEY_is_a(key, "EC")) {
        char curve[64] = "";
        size_t length = 0;
        if (!EVP_PKEY_get_group_name(key, curve, sizeof curve, &length)) strcpy(curve, "on an unnamed curve");
        BIO_snprintf(description, capacity, "EC %s", curve);
        return strcmp(curve, "prime256v1") == 0 ? CLIBCRYPTO_PRIVATE_KEY_EC_P256 : CLIBCRYPTO_PRIVATE_KEY_OTHER_KIND;
    }
    int bits = EVP_PKEY_get_bits(key);
    if (EVP_PKEY_is_a(key, "RSA")) {
        BIO_snprintf(description, capacity, "RSA %d", bits);
        return bits == 2048 ? CLIBCRYPTO_PRIVATE_KEY_RSA_2048 : CLIBCRYPTO_PRIVATE_KEY_OTHER_KIND;
    }
    BIO_snprintf(description, capacity, "%s", type != NULL ? type : "of an unknown type");
    return CLIBCRYPTO_PRIVATE_KEY_OTHER_KIND;
}

static int is_consistent(EVP_PKEY *key) {
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    int result = context != NULL && EVP_PKEY_check(context) == 1;
    EVP_PKEY_CTX_free(context);
    return result;
}

/// Selects the curve by name and the uncompressed point for output. A file may contain the curve's parameters, or a
/// compressed point.
static int spell_plainly(EVP_PKEY *key) {
    return EVP_PKEY_set_utf8_string_param(key, OSSL_PKEY_PARAM_EC_ENCODING, OSSL_PKEY_EC_ENCODING_GROUP) == 1 &&
           EVP_PKEY_set_utf8_string_param(
               key, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, OSSL_PKEY_EC_POINT_CONVERSION_FORMAT_UNCOMPRESSED) ==
               1 &&
           EVP_PKEY_set_int_param(key, OSSL_PKEY_PARAM_EC_INCLUDE_PUBLIC, 1) == 1;
}

/// Uses the encoder and not EVP_PKEY2PKCS8, which frees an intermediate copy without wiping it. The encoder's own
/// memory BIO is wiped.
static int encode(EVP_PKEY *key, unsigned char *pkcs8, size_t *pkcs8_count) {
    OSSL_ENCODER_CTX *context =
        OSSL_ENCODER_CTX_new_for_pkey(key, OSSL_KEYMGMT_SELECT_ALL, "DER", "PrivateKeyInfo", NULL);
    size_t left = *pkcs8_count;
    unsigned char *output = pkcs8;
    int result = context != NULL && OSSL_ENCODER_to_data(context, &output, &left);
    if (result) *pkcs8_count -= left;
    OSSL_ENCODER_CTX_free(context);
    return result;
}

enum clibcrypto_private_key_result clibcrypto_private_key_to_pkcs8(
    enum clibcrypto_private_key_form form, const unsigned char *der, size_t der_count, const char *password,
    size_t password_count, unsigned long maximum_iterations, unsigned char *pkcs8, size_t *pkcs8_count,
    char *description, size_t description_capacity) {
    if (description_capacity > 0) description[0] = 0;
    if (der_count > INT_MAX || password_count > INT_MAX) return CLIBCRYPTO_PRIVATE_KEY_FAILED;
    ERR_set_mark();
    enum clibcrypto_private_key_result result = CLIBCRYPTO_PRIVATE_KEY_MALFORMED;
    EVP_PKEY *key = form == CLIBCRYPTO_PRIVATE_KEY_ENCRYPTED
                        ? decode_encrypted(der, der_count, password, password_count, maximum_iterations, &result)
                        : decode_plain(der, der_count);
    if (key != NULL) {
        result = kind_of(key, description, description_capacity);
        if (result != CLIBCRYPTO_PRIVATE_KEY_OTHER_KIND) {
            if (!is_consistent(key)) {
                result = CLIBCRYPTO_PRIVATE_KEY_INCONSISTENT;
            } else if (
                (result == CLIBCRYPTO_PRIVATE_KEY_EC_P256 && !spell_plainly(key)) ||
                !encode(key, pkcs8, pkcs8_count)) {
                result = CLIBCRYPTO_PRIVATE_KEY_FAILED;
            }
        }
    }
    EVP_PKEY_free(key);
    ERR_pop_to_mark();
    return result;
}

int clibcrypto_private_key_fits_certificate(
    const unsigned char *pkcs8, size_t pkcs8_count, const unsigned char *certificate, size_t certificate_count) {
    if (pkcs8_count > INT_MAX || certificate_count > INT_MAX) return 0;
    ERR_set_mark();
    EVP_PKEY *key = decode_plain(pkcs8, pkcs8_count);
    const unsigned char *position = certificate;
    X509 *parsed = d2i_X509(NULL, &position, (long)certificate_count);
    int result = key != NULL && parsed != NULL && X509_check_private_key(parsed, key) == 1;
    X509_free(parsed);
    EVP_PKEY_free(key);
    ERR_pop_to_mark();
    return result;
}

int clibcrypto_private_key_public_key(
    const unsigned char *pkcs8, size_t pkcs8_count, unsigned char *public_key, size_t *public_key_count) {
    if (pkcs8_count > INT_MAX) return 0;
    ERR_set_mark();
    EVP_PKEY *key = decode_plain(pkcs8, pkcs8_count);
    int count = key == NULL ? 0 : i2d_PUBKEY(key, NULL);
    int result = count > 0 && (size_t)count <= *public_key_count;
    if (result) {
        unsigned char *position = public_key;
        *public_key_count = (size_t)i2d_PUBKEY(key, &position);
    }
    EVP_PKEY_free(key);
    ERR_pop_to_mark();
    return result;
}
