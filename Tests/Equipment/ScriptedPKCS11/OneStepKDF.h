// A mechanism that many HSM tokens have and the real module lacks.
#ifndef ONE_STEP_KDF_H
#define ONE_STEP_KDF_H

#include <p11-kit-1/p11-kit/pkcs11.h>

/// Implements C_DeriveKey with CKM_ECDH1_DERIVE and CKD_SHA256_KDF_SP800 (PKCS#11 v3.0 §2.3.1, SP 800-56A §5.8.2.1) for
/// keys of at most 32 bytes. The real module computes ECDH, and this function the KDF.
CK_RV derive_with_one_step_kdf(
    CK_SESSION_HANDLE session, const CK_ECDH1_DERIVE_PARAMS *parameters, CK_OBJECT_HANDLE base_key,
    CK_ATTRIBUTE *template, CK_ULONG count, CK_OBJECT_HANDLE *key);

#endif
