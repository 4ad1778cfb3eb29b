#include "pkcs12.h"
#include "password_work.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pkcs12.h>
#include <openssl/pkcs12err.h>
#include <openssl/provider.h>
#include <openssl/x509.h>
#include <stdint.h>

// The limits exceed the numbers of any real bundle.
enum { maximum_safes = 16, maximum_bags = 256, maximum_depth = 4 };

struct opening {
    OSSL_LIB_CTX *library;
    OSSL_PROVIDER *modern, *legacy;
    const char *password;
    int password_count;
    uint64_t iterations_left;
    int bags_left;
    // True if any encrypted part was decrypted with this password.
    int opened_any;
    struct clibcrypto_pkcs12_contents *contents;
    size_t pkcs8_capacity, certificates_capacity;
};

static enum clibcrypto_pkcs12_result spend(struct opening *o, uint64_t iterations) {
    if (iterations > o->iterations_left) return CLIBCRYPTO_PKCS12_EXCESSIVE;
    o->iterations_left -= iterations;
    return CLIBCRYPTO_PKCS12_OPENED;
}

static void describe(struct opening *o, const ASN1_OBJECT *algorithm) {
    OBJ_obj2txt(o->contents->description, sizeof o->contents->description, algorithm, 0);
}

/// Checks that the cipher is available, from the legacy provider if necessary.
static enum clibcrypto_pkcs12_result require_cipher(struct opening *o, int cipher, const ASN1_OBJECT *algorithm) {
    for (;;) {
        EVP_CIPHER *found =
            cipher == NID_undef ? NULL : EVP_CIPHER_fetch(o->library, OBJ_nid2sn(cipher), NULL);
        if (found != NULL) {
            EVP_CIPHER_free(found);
            return CLIBCRYPTO_PKCS12_OPENED;
        }
        describe(o, algorithm);
        if (o->legacy != NULL || cipher == NID_undef) return CLIBCRYPTO_PKCS12_UNSUPPORTED;
        o->legacy = OSSL_PROVIDER_load(o->library, "legacy");
        if (o->legacy == NULL) return CLIBCRYPTO_PKCS12_LEGACY_MISSING;
        o->contents->description[0] = 0;
    }
}

/// Checks an encryption before it is tried: its cipher must be available, and its work within the limit.
static enum clibcrypto_pkcs12_result admit(struct opening *o, const X509_ALGOR *encryption) {
    const ASN1_OBJECT *algorithm;
    int type;
    const void *parameter;
    X509_ALGOR_get0(&algorithm, &type, &parameter, encryption);
    if (type != V_ASN1_SEQUENCE) return CLIBCRYPTO_PKCS12_MALFORMED;
    enum clibcrypto_pkcs12_result result;
    if (OBJ_obj2nid(algorithm) == NID_pbes2) {
        PBE2PARAM *pbes2 = ASN1_item_unpack(parameter, ASN1_ITEM_rptr(PBE2PARAM));
        if (pbes2 == NULL) return CLIBCRYPTO_PKCS12_MALFORMED;
        const ASN1_OBJECT *cipher;
        X509_ALGOR_get0(&cipher, NULL, NULL, pbes2->encryption);
        result = require_cipher(o, OBJ_obj2nid(cipher), cipher);
        PBE2PARAM_free(pbes2);
    } else {
        int cipher = NID_undef;
        if (!EVP_PBE_find(EVP_PBE_TYPE_OUTER, OBJ_obj2nid(algorithm), &cipher, NULL, NULL)) cipher = NID_undef;
        result = require_cipher(o, cipher, algorithm);
    }
    if (result != CLIBCRYPTO_PKCS12_OPENED) return result;
    uint64_t iterations;
    switch (password_work(encryption, &iterations, o->contents->description, sizeof o->contents->description)) {
    case PASSWORD_WORK_KNOWN: return spend(o, iterations);
    case PASSWORD_WORK_UNKNOWN: return CLIBCRYPTO_PKCS12_UNSUPPORTED;
    default: return CLIBCRYPTO_PKCS12_MALFORMED;
    }
}

static enum clibcrypto_pkcs12_result take_key(struct opening *o, const PKCS8_PRIV_KEY_INFO *info) {
    struct clibcrypto_pkcs12_contents *contents = o->contents;
    if (contents->key_count++ > 0) return CLIBCRYPTO_PKCS12_OPENED;
    int count = i2d_PKCS8_PRIV_KEY_INFO(info, NULL);
    if (count <= 0 || (size_t)count > o->pkcs8_capacity) return CLIBCRYPTO_PKCS12_FAILED;
    unsigned char *output = contents->pkcs8;
    contents->pkcs8_count = (size_t)i2d_PKCS8_PRIV_KEY_INFO(info, &output);
    return CLIBCRYPTO_PKCS12_OPENED;
}

static enum clibcrypto_pkcs12_result take_shrouded_key(struct opening *o, const X509_SIG *shrouded) {
    const X509_ALGOR *encryption;
    X509_SIG_get0(shrouded, &encryption, NULL);
    enum clibcrypto_pkcs12_result result = admit(o, encryption);
    if (result != CLIBCRYPTO_PKCS12_OPENED) return result;
    PKCS8_PRIV_KEY_INFO *info = PKCS8_decrypt_ex(shrouded, o->password, o->password_count, o->library, NULL);
    if (info == NULL) return CLIBCRYPTO_PKCS12_WRONG_PASSWORD;
    o->opened_any = 1;
    result = take_key(o, info);
    PKCS8_PRIV_KEY_INFO_free(info);
    return result;
}

static enum clibcrypto_pkcs12_result take_certificate(struct opening *o, const PKCS12_SAFEBAG *bag) {
    // SDSI certificates, which are not in use, are skipped.
    if (PKCS12_SAFEBAG_get_bag_nid(bag) != NID_x509Certificate) return CLIBCRYPTO_PKCS12_OPENED;
    X509 *certificate = PKCS12_SAFEBAG_get1_cert(bag);
    if (certificate == NULL) return CLIBCRYPTO_PKCS12_MALFORMED;
    enum clibcrypto_pkcs12_result result = CLIBCRYPTO_PKCS12_FAILED;
    struct clibcrypto_pkcs12_contents *contents = o->contents;
    int count = i2d_X509(certificate, NULL);
    if (count > 0 && (size_t)count <= o->certificates_capacity - contents->certificates_count) {
        unsigned char *output = contents->certificates + contents->certificates_count;
        contents->certificates_count += (size_t)i2d_X509(certificate, &output);
        result = CLIBCRYPTO_PKCS12_OPENED;
    }
    X509_free(certificate);
    return result;
}

static enum clibcrypto_pkcs12_result take_bags(
    struct opening *o, const STACK_OF(PKCS12_SAFEBAG) *bags, int depth) {
    if (depth > maximum_depth) return CLIBCRYPTO_PKCS12_EXCESSIVE;
    enum clibcrypto_pkcs12_result result = CLIBCRYPTO_PKCS12_OPENED;
    for (int index = 0; index < sk_PKCS12_SAFEBAG_num(bags) && result == CLIBCRYPTO_PKCS12_OPENED; index++) {
        if (o->bags_left-- == 0) return CLIBCRYPTO_PKCS12_EXCESSIVE;
        const PKCS12_SAFEBAG *bag = sk_PKCS12_SAFEBAG_value(bags, index);
        switch (PKCS12_SAFEBAG_get_nid(bag)) {
        case NID_keyBag: result = take_key(o, PKCS12_SAFEBAG_get0_p8inf(bag)); break;
        case NID_pkcs8ShroudedKeyBag: result = take_shrouded_key(o, PKCS12_SAFEBAG_get0_pkcs8(bag)); break;
        case NID_certBag: result = take_certificate(o, bag); break;
        case NID_safeContentsBag: result = take_bags(o, PKCS12_SAFEBAG_get0_safes(bag), depth + 1); break;
        default: break;
        }
    }
    return result;
}

static enum clibcrypto_pkcs12_result take_safe(struct opening *o, PKCS7 *safe) {
    STACK_OF(PKCS12_SAFEBAG) *bags = NULL;
    if (PKCS7_type_is_data(safe)) {
        bags = PKCS12_unpack_p7data(safe);
        if (bags == NULL) return CLIBCRYPTO_PKCS12_MALFORMED;
    } else if (PKCS7_type_is_encrypted(safe)) {
        if (safe->d.encrypted == NULL || safe->d.encrypted->enc_data == NULL) return CLIBCRYPTO_PKCS12_MALFORMED;
        enum clibcrypto_pkcs12_result result = admit(o, safe->d.encrypted->enc_data->algorithm);
        if (result != CLIBCRYPTO_PKCS12_OPENED) return result;
        bags = PKCS12_unpack_p7encdata(safe, o->password, o->password_count);
        if (bags == NULL) return CLIBCRYPTO_PKCS12_WRONG_PASSWORD;
        o->opened_any = 1;
    } else {
        return CLIBCRYPTO_PKCS12_PUBLIC_KEY_MODE;
    }
    enum clibcrypto_pkcs12_result result = take_bags(o, bags, 0);
    sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free);
    return result;
}

static enum clibcrypto_pkcs12_result take_all(
    struct opening *o, const STACK_OF(PKCS7) *safes, const char *password, int password_count) {
    o->password = password;
    o->password_count = password_count;
    o->bags_left = maximum_bags;
    o->opened_any = 0;
    o->contents->key_count = o->contents->pkcs8_count = o->contents->certificates_count = 0;
    enum clibcrypto_pkcs12_result result = CLIBCRYPTO_PKCS12_OPENED;
    for (int index = 0; index < sk_PKCS7_num(safes) && result == CLIBCRYPTO_PKCS12_OPENED; index++) {
        result = take_safe(o, sk_PKCS7_value(safes, index));
    }
    return result;
}

/// Verifies the MAC with one password (RFC 7292 section 4). Returns OPENED, WRONG_PASSWORD, or the reason why it
/// cannot be verified.
static enum clibcrypto_pkcs12_result verify_mac(
    struct opening *o, PKCS12 *bundle, const char *password, int password_count) {
    const X509_ALGOR *algorithm;
    const ASN1_INTEGER *iterations;
    PKCS12_get0_mac(NULL, &algorithm, NULL, &iterations, bundle);
    const ASN1_OBJECT *digest;
    X509_ALGOR_get0(&digest, NULL, NULL, algorithm);
    int name = OBJ_obj2nid(digest);
    EVP_MD *found = name == NID_undef ? NULL : EVP_MD_fetch(o->library, OBJ_nid2sn(name), NULL);
    if (found == NULL) {
        describe(o, digest);
        return CLIBCRYPTO_PKCS12_UNSUPPORTED;
    }
    EVP_MD_free(found);
    enum clibcrypto_pkcs12_result result = spend(o, password_iterations(iterations));
    if (result != CLIBCRYPTO_PKCS12_OPENED) return result;
    return PKCS12_verify_mac(bundle, password, password_count) ? CLIBCRYPTO_PKCS12_OPENED
                                                               : CLIBCRYPTO_PKCS12_WRONG_PASSWORD;
}

static enum clibcrypto_pkcs12_result open_with(
    struct opening *o, PKCS12 *bundle, const STACK_OF(PKCS7) *safes, const char *password, int password_count) {
    enum clibcrypto_pkcs12_result mac =
        PKCS12_mac_present(bundle) ? verify_mac(o, bundle, password, password_count) : CLIBCRYPTO_PKCS12_OPENED;
    if (mac != CLIBCRYPTO_PKCS12_OPENED && mac != CLIBCRYPTO_PKCS12_WRONG_PASSWORD) return mac;
    enum clibcrypto_pkcs12_result contents = take_all(o, safes, password, password_count);
    if (mac == CLIBCRYPTO_PKCS12_OPENED) {
        // The MAC has verified the password. A part that it does not decrypt is damaged, or has another password.
        return contents;
    }
    return o->opened_any ? CLIBCRYPTO_PKCS12_MAC_MISMATCH : CLIBCRYPTO_PKCS12_WRONG_PASSWORD;
}

static enum clibcrypto_pkcs12_result open_bundle(
    struct opening *o, PKCS12 *bundle, const char *password, int password_count) {
    STACK_OF(PKCS7) *safes = PKCS12_unpack_authsafes(bundle);
    if (safes == NULL) {
        return ERR_GET_REASON(ERR_peek_last_error()) == PKCS12_R_CONTENT_TYPE_NOT_DATA
            ? CLIBCRYPTO_PKCS12_PUBLIC_KEY_MODE
            : CLIBCRYPTO_PKCS12_MALFORMED;
    }
    enum clibcrypto_pkcs12_result result = CLIBCRYPTO_PKCS12_EXCESSIVE;
    if (sk_PKCS7_num(safes) <= maximum_safes) {
        if (password_count > 0) {
            result = open_with(o, bundle, safes, password, password_count);
        } else {
            result = open_with(o, bundle, safes, NULL, 0);
            // An empty password has two forms, none and "". PBES2 does not distinguish them, but the MAC does, so both
            // are tried.
            if (result == CLIBCRYPTO_PKCS12_WRONG_PASSWORD || result == CLIBCRYPTO_PKCS12_MAC_MISMATCH) {
                result = open_with(o, bundle, safes, "", 0);
            }
        }
    }
    sk_PKCS7_pop_free(safes, PKCS7_free);
    return result;
}

enum clibcrypto_pkcs12_result clibcrypto_pkcs12_open(
    const unsigned char *der, size_t der_count, const char *password, size_t password_count,
    unsigned long maximum_iterations, struct clibcrypto_pkcs12_contents *contents) {
    struct opening o = {
        .contents = contents,
        .iterations_left = maximum_iterations,
        .pkcs8_capacity = contents->pkcs8_count,
        .certificates_capacity = contents->certificates_count,
    };
    contents->key_count = contents->pkcs8_count = contents->certificates_count = 0;
    contents->description[0] = 0;
    if (der_count > INT_MAX || password_count > INT_MAX) return CLIBCRYPTO_PKCS12_FAILED;
    ERR_set_mark();
    enum clibcrypto_pkcs12_result result = CLIBCRYPTO_PKCS12_FAILED;
    o.library = OSSL_LIB_CTX_new();
    o.modern = o.library == NULL ? NULL : OSSL_PROVIDER_load(o.library, "default");
    // The decoder takes the library context from the bundle that it fills, so an empty bundle is made first.
    PKCS12 *bundle = o.modern == NULL ? NULL : PKCS12_init_ex(NID_pkcs7_data, o.library, NULL);
    if (bundle != NULL) {
        const unsigned char *position = der;
        // On failure the decoder frees the bundle.
        bundle = d2i_PKCS12(&bundle, &position, (long)der_count);
        result = bundle == NULL || position != der + der_count
            ? CLIBCRYPTO_PKCS12_MALFORMED
            : open_bundle(&o, bundle, password, (int)password_count);
    }
    PKCS12_free(bundle);
    if (o.legacy != NULL) OSSL_PROVIDER_unload(o.legacy);
    if (o.modern != NULL) OSSL_PROVIDER_unload(o.modern);
    OSSL_LIB_CTX_free(o.library);
    ERR_pop_to_mark();
    if (result != CLIBCRYPTO_PKCS12_OPENED) {
        OPENSSL_cleanse(contents->pkcs8, o.pkcs8_capacity);
        contents->pkcs8_count = contents->certificates_count = contents->key_count = 0;
    }
    return result;
}
