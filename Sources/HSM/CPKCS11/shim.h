// p11-kit's PKCS#11 header. CRYPTOKI_GNU stays undefined, so the names are the standard's. CK_GCM_PARAMS has the six
// fields of PKCS#11 v2.40 errata 01, with ulIvBits, as SoftHSM and NSS expect. The include path begins at /usr/include
// because only the header is used: p11-kit's library is not linked.
#ifndef CPKCS11_SHIM_H
#define CPKCS11_SHIM_H

#include <p11-kit-1/p11-kit/pkcs11.h>

// The SP 800-56A one-step KDFs (PKCS#11 v3.0 §2.3.1), which p11-kit 0.24.1's header lacks.
#ifndef CKD_SHA256_KDF_SP800
#define CKD_SHA256_KDF_SP800 (0x00000010UL)
#endif

// The first form of CK_GCM_PARAMS in PKCS#11 v2.40 (current mechanisms §2.12.3), which some HSM tokens still require.
struct cpkcs11_gcm_params_without_vector_bits {
    CK_BYTE_PTR pIv;
    CK_ULONG ulIvLen;
    CK_BYTE_PTR pAAD;
    CK_ULONG ulAADLen;
    CK_ULONG ulTagBits;
};

// CKM_HKDF_DERIVE and its parameters (PKCS#11 v3.0 §2.60), which p11-kit 0.24.1's header lacks.
#ifndef CKM_HKDF_DERIVE
#define CKM_HKDF_DERIVE (0x0000402AUL)
#define CKF_HKDF_SALT_NULL (0x00000001UL)
#endif

struct cpkcs11_hkdf_params {
    CK_BBOOL bExtract;
    CK_BBOOL bExpand;
    CK_MECHANISM_TYPE prfHashMechanism;
    CK_ULONG ulSaltType;
    CK_BYTE_PTR pSalt;
    CK_ULONG ulSaltLen;
    CK_OBJECT_HANDLE hSaltKey;
    CK_BYTE_PTR pInfo;
    CK_ULONG ulInfoLen;
};

// The initialisation arguments of NSS's softoken (NSS, lib/util/pkcs11t.h, LibraryParameters). Unlike the standard's
// CK_C_INITIALIZE_ARGS they have a parameter string between `flags` and `pReserved`.
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
