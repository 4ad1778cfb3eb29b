#include "OneStepKDF.h"
#include "RealModule.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>

#define SECRET_SIZE 32
#define MOST_ATTRIBUTES 32

/// Returns the x coordinate of the ECDH result, which the real module computes.
static CK_RV shared_secret(
    CK_SESSION_HANDLE session, const CK_ECDH1_DERIVE_PARAMS *parameters, CK_OBJECT_HANDLE base_key,
    unsigned char secret[SECRET_SIZE]) {
    CK_FUNCTION_LIST *real = real_module();
    CK_ECDH1_DERIVE_PARAMS bare = *parameters;
    bare.kdf = CKD_NULL;
    bare.ulSharedDataLen = 0;
    bare.pSharedData = NULL;
    CK_MECHANISM mechanism = {CKM_ECDH1_DERIVE, &bare, sizeof bare};
    CK_OBJECT_CLASS class = CKO_SECRET_KEY;
    CK_KEY_TYPE type = CKK_GENERIC_SECRET;
    CK_BBOOL yes = CK_TRUE, no = CK_FALSE;
    CK_ULONG size = SECRET_SIZE;
    CK_ATTRIBUTE template[] = {
        {CKA_CLASS, &class, sizeof class}, {CKA_KEY_TYPE, &type, sizeof type}, {CKA_TOKEN, &no, sizeof no},
        {CKA_PRIVATE, &yes, sizeof yes},   {CKA_SENSITIVE, &no, sizeof no},    {CKA_EXTRACTABLE, &yes, sizeof yes},
        {CKA_VALUE_LEN, &size, sizeof size},
    };
    CK_OBJECT_HANDLE object = 0;
    CK_RV result =
        real->C_DeriveKey(session, &mechanism, base_key, template, sizeof template / sizeof template[0], &object);
    if (result != CKR_OK) {
        return result;
    }
    CK_ATTRIBUTE value = {CKA_VALUE, secret, SECRET_SIZE};
    result = real->C_GetAttributeValue(session, object, &value, 1);
    real->C_DestroyObject(session, object);
    return result == CKR_OK && value.ulValueLen != SECRET_SIZE ? CKR_GENERAL_ERROR : result;
}

/// Computes SHA-256(00000001 ‖ secret ‖ shared data).
static bool hash(
    const unsigned char secret[SECRET_SIZE], const CK_ECDH1_DERIVE_PARAMS *parameters,
    unsigned char digest[SECRET_SIZE]) {
    static const unsigned char counter[] = {0, 0, 0, 1};
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool done = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1
        && EVP_DigestUpdate(context, counter, sizeof counter) == 1
        && EVP_DigestUpdate(context, secret, SECRET_SIZE) == 1
        && EVP_DigestUpdate(context, parameters->pSharedData, parameters->ulSharedDataLen) == 1
        && EVP_DigestFinal_ex(context, digest, NULL) == 1;
    EVP_MD_CTX_free(context);
    return done;
}

CK_RV derive_with_one_step_kdf(
    CK_SESSION_HANDLE session, const CK_ECDH1_DERIVE_PARAMS *parameters, CK_OBJECT_HANDLE base_key,
    CK_ATTRIBUTE *template, CK_ULONG count, CK_OBJECT_HANDLE *key) {
    unsigned char secret[SECRET_SIZE], derived[SECRET_SIZE];
    CK_ATTRIBUTE with_value[MOST_ATTRIBUTES + 1];
    CK_ULONG size = SECRET_SIZE, used = 0;
    if (count > MOST_ATTRIBUTES) {
        return CKR_TEMPLATE_INCONSISTENT;
    }
    for (CK_ULONG index = 0; index < count; index++) {
        // C_CreateObject takes the length from the value, so CKA_VALUE_LEN must not be in the template.
        if (template[index].type != CKA_VALUE_LEN) {
            with_value[used++] = template[index];
        } else if (template[index].ulValueLen == sizeof size) {
            memcpy(&size, template[index].pValue, sizeof size);
        }
    }
    if (size > SECRET_SIZE) {
        return CKR_KEY_SIZE_RANGE;
    }
    CK_RV result = shared_secret(session, parameters, base_key, secret);
    if (result == CKR_OK) {
        result = hash(secret, parameters, derived) ? CKR_OK : CKR_FUNCTION_FAILED;
    }
    if (result == CKR_OK) {
        with_value[used++] = (CK_ATTRIBUTE){CKA_VALUE, derived, size};
        result = real_module()->C_CreateObject(session, with_value, used, key);
    }
    OPENSSL_cleanse(secret, sizeof secret);
    OPENSSL_cleanse(derived, sizeof derived);
    return result;
}
