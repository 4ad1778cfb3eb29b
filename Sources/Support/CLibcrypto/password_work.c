#include "password_work.h"

#include <openssl/asn1t.h>
#include <openssl/objects.h>

uint64_t password_iterations(const ASN1_INTEGER *number) {
    uint64_t count = 1;
    if (number != NULL && !ASN1_INTEGER_get_uint64(&count, number)) return UINT64_MAX;
    return count;
}

/// Computes the iterations of PBES2's PBKDF2 or scrypt (RFC 8018 appendix A, RFC 7914 section 7).
static enum password_work_result derivation_work(
    const X509_ALGOR *function, uint64_t *iterations, char *description, size_t description_capacity) {
    const ASN1_OBJECT *algorithm;
    int type;
    const void *parameter;
    X509_ALGOR_get0(&algorithm, &type, &parameter, function);
    if (type != V_ASN1_SEQUENCE) return PASSWORD_WORK_MALFORMED;
    if (OBJ_obj2nid(algorithm) == NID_id_pbkdf2) {
        PBKDF2PARAM *pbkdf2 = ASN1_item_unpack(parameter, ASN1_ITEM_rptr(PBKDF2PARAM));
        if (pbkdf2 == NULL) return PASSWORD_WORK_MALFORMED;
        *iterations = password_iterations(pbkdf2->iter);
        PBKDF2PARAM_free(pbkdf2);
        return PASSWORD_WORK_KNOWN;
    }
#ifndef OPENSSL_NO_SCRYPT
    if (OBJ_obj2nid(algorithm) == NID_id_scrypt) {
        SCRYPT_PARAMS *scrypt = ASN1_item_unpack(parameter, ASN1_ITEM_rptr(SCRYPT_PARAMS));
        if (scrypt == NULL) return PASSWORD_WORK_MALFORMED;
        const ASN1_INTEGER *factors[] = {
            scrypt->costParameter, scrypt->blockSize, scrypt->parallelizationParameter};
        *iterations = 1;
        for (size_t index = 0; index < 3; index++) {
            uint64_t factor = password_iterations(factors[index]);
            *iterations = factor != 0 && *iterations > UINT64_MAX / factor ? UINT64_MAX : *iterations * factor;
        }
        SCRYPT_PARAMS_free(scrypt);
        return PASSWORD_WORK_KNOWN;
    }
#endif
    OBJ_obj2txt(description, (int)description_capacity, algorithm, 0);
    return PASSWORD_WORK_UNKNOWN;
}

enum password_work_result password_work(
    const X509_ALGOR *encryption, uint64_t *iterations, char *description, size_t description_capacity) {
    const ASN1_OBJECT *algorithm;
    int type;
    const void *parameter;
    X509_ALGOR_get0(&algorithm, &type, &parameter, encryption);
    if (type != V_ASN1_SEQUENCE) return PASSWORD_WORK_MALFORMED;
    if (OBJ_obj2nid(algorithm) == NID_pbes2) {
        PBE2PARAM *pbes2 = ASN1_item_unpack(parameter, ASN1_ITEM_rptr(PBE2PARAM));
        if (pbes2 == NULL) return PASSWORD_WORK_MALFORMED;
        enum password_work_result result =
            derivation_work(pbes2->keyfunc, iterations, description, description_capacity);
        PBE2PARAM_free(pbes2);
        return result;
    }
    PBEPARAM *pbe = ASN1_item_unpack(parameter, ASN1_ITEM_rptr(PBEPARAM));
    if (pbe == NULL) return PASSWORD_WORK_MALFORMED;
    uint64_t count = password_iterations(pbe->iter);
    PBEPARAM_free(pbe);
    // PKCS#12 derives key and initialisation vector one after the other (RFC 7292 appendix B.2).
    *iterations = count > UINT64_MAX / 2 ? UINT64_MAX : 2 * count;
    return PASSWORD_WORK_KNOWN;
}
