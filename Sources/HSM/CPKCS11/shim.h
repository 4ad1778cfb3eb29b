// p11-kit's PKCS#11 header with the standard's own names (CRYPTOKI_GNU stays undefined). Its CK_GCM_PARAMS has the six
// fields of PKCS#11 v2.40 errata 01 (with ulIvBits), which SoftHSM and NSS read. The path is the whole one under
// /usr/include: p11-kit's library is not used.
#ifndef CPKCS11_SHIM_H
#define CPKCS11_SHIM_H

#include <p11-kit-1/p11-kit/pkcs11.h>

// PKCS#11 v3.0 §2.3.1 (EC KDFs): p11-kit 0.24.1's header lacks the SP 800-56A one-step KDFs.
#ifndef CKD_SHA256_KDF_SP800
#define CKD_SHA256_KDF_SP800 (0x00000010UL)
#endif

// The first form of CK_GCM_PARAMS in PKCS#11 v2.40 (current mechanisms §2.12.3), which some HSM tokens still want.
struct cpkcs11_gcm_params_without_vector_bits {
    CK_BYTE_PTR pIv;
    CK_ULONG ulIvLen;
    CK_BYTE_PTR pAAD;
    CK_ULONG ulAADLen;
    CK_ULONG ulTagBits;
};

// NSS's softoken reads its parameter string from a member between `flags` and `pReserved` that the standard's
// CK_C_INITIALIZE_ARGS does not have (NSS, lib/util/pkcs11t.h, member LibraryParameters).
struct cpkcs11_initialize_args_with_parameters {
    CK_CREATEMUTEX CreateMutex;
    CK_DESTROYMUTEX DestroyMutex;
    CK_LOCKMUTEX LockMutex;
    CK_UNLOCKMUTEX UnlockMutex;
    CK_FLAGS flags;
    char *LibraryParameters;
    void *pReserved;
};

#endif
