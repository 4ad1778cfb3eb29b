// A PKCS#11 module for tests. It forwards every call to a real module and injects the faults of a script, so that tests
// can reproduce the peculiarities of HSM tokens. Programs load it by its path and do not link it.
//
// The environment variable SCRIPTED_PKCS11 names the script. The module reads it again whenever it has changed. Each
// line has one instruction; text after a "#" is ignored.
//
//     module PATH             the real module, required; read once
//     log PATH                appends a line to PATH for each call: its name, its return value, the process
//     syslog PATH             from C_Initialize on, appends the process's syslog output and standard error to PATH,
//                             after a line that announces this
//     uses PATH               an HSM token's log of key uses: appends a line of JSON for each successful C_DeriveKey,
//                             C_SignInit and C_DecryptInit of any caller, if the key's CKA_ID is a publicKeyHash
//     slot-offset N           slots have numbers N higher than the real module's
//     session-limit N         C_OpenSession returns CKR_SESSION_COUNT while N are open
//     token-flags N           C_GetTokenInfo returns these flags in addition to the real ones
//     identifier-limit N      only the first N bytes of a CKA_ID count, in new objects, changes and searches
//     refuse-null-kdf         CKM_ECDH1_DERIVE with CKD_NULL returns CKR_MECHANISM_PARAM_INVALID
//     one-step-kdf            CKM_ECDH1_DERIVE supports CKD_SHA256_KDF_SP800
//     five-field-gcm          CKM_AES_GCM accepts only CK_GCM_PARAMS without ulIvBits
//     error CALL CKR          CALL returns CKR instead of the real module's value if it fails
//     template CALL CKA BYTE  CALL receives a private key's template with this attribute set to this byte, as if the
//                             HSM token ignored the request (C_CreateObject, C_GenerateKeyPair, C_CopyObject).
//                             C_GetAttributeValue returns this byte as a stored object's attribute
//     refuse-mechanism CALL CKM  CALL with this mechanism returns CKR_MECHANISM_INVALID (C_SignInit,
//                             C_DecryptInit, C_GenerateKeyPair)
//     refuse-attribute CALL CKA  CALL whose template has this attribute returns CKR_ATTRIBUTE_READ_ONLY (C_CopyObject,
//                             C_SetAttributeValue); C_GetAttributeValue returns CKR_ATTRIBUTE_TYPE_INVALID;
//                             C_CreateObject returns CKR_ATTRIBUTE_VALUE_INVALID, and C_GenerateKeyPair, for the private
//                             key's template, CKR_TEMPLATE_INCONSISTENT
//     false-signatures        C_Sign changes a bit of the real module's signature
//     keys-not-local          CKA_LOCAL of every stored key is false, as if it was not made in the HSM token
//     lock-after-data         C_CreateObject refuses a data object, and every later call of the process hangs
//     stored-keys-only        C_CreateObject takes no key, and C_GenerateKeyPair makes no session objects, as with a TPM
//     private-key-first       C_CreateObject takes no public key before the process has stored a private one
//     repeat-objects          C_FindObjects returns each object twice
//     two-handles             C_FindObjects returns a second handle for each object, and all calls take it; read once
//     forget-identifiers      a process forgets, when it ends, the CKA_ID that it gave a stored public key with
//                             C_CreateObject, unless C_SetAttributeValue set it too. Other processes then see the
//                             CKA_ID without its last byte
//     fault CALL WHEN WHAT [once]
//
// CALL is a function's name, or * for all. WHEN is always, nth=N (the Nth call since the script was read), every=N,
// from=N (the Nth and all later calls), or random=N (one in N calls, the same ones in every run). WHAT is return=CKR
// (the call is not forwarded), answer=CKR (the call is forwarded and then returns this), delay=MILLISECONDS, hang,
// crash (SIGKILL before the call), logout (C_Logout before the call), close-sessions (all sessions with the HSM token,
// before the call), leak=BYTES, or an action that a worker's sandbox must refuse: exec (/bin/true), fork, connect (a
// local socket that does not exist). Each such action writes a line with its errno to the log. With "once" the fault
// happens once, even if several processes read the script, because it creates the file SCRIPT.fired-LINE. Numbers may
// be hexadecimal.
#ifndef SCRIPTED_PKCS11_H
#define SCRIPTED_PKCS11_H

#include <p11-kit-1/p11-kit/pkcs11.h>

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list);

#endif
