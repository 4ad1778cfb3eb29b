// A PKCS#11 module for tests. It forwards every call to a real module and injects the faults that a script names, so
// that tests can produce the peculiarities of real HSM tokens at any time. No program links it: it is loaded by path.
//
// The environment variable SCRIPTED_PKCS11 names the script, which is read again whenever it has changed. One
// instruction a line; text after a "#" is ignored.
//
//     module PATH             the real module, required; read once
//     log PATH                appends a line to PATH for each call: its name, its return value, the process
//     syslog PATH             appends the process's syslog output to PATH, from C_Initialize on, and its standard
//                             error; begins with a line that announces this
//     uses PATH               the HSM token's own log of key uses: appends a line of JSON for each successful
//                             C_DeriveKey, C_SignInit and C_DecryptInit with a key whose CKA_ID is a publicKeyHash, by
//                             any caller
//     slot-offset N           slots have numbers N higher than the real module's
//     session-limit N         C_OpenSession returns CKR_SESSION_COUNT while N are open
//     token-flags N           C_GetTokenInfo returns these flags in addition
//     refuse-null-kdf         CKM_ECDH1_DERIVE with CKD_NULL returns CKR_MECHANISM_PARAM_INVALID
//     one-step-kdf            CKM_ECDH1_DERIVE supports CKD_SHA256_KDF_SP800
//     five-field-gcm          CKM_AES_GCM takes CK_GCM_PARAMS without ulIvBits, and no other
//     error CALL CKR          CALL returns CKR if it fails, instead of the real module's value
//     template CALL CKA BYTE  a private key's template is passed on with this attribute as this one byte, instead of
//                             its own value: an HSM token that does not do what it was asked for (C_CreateObject,
//                             C_GenerateKeyPair, C_CopyObject). For C_GetAttributeValue: the reported value of a
//                             stored object's attribute of one byte
//     refuse-mechanism CALL CKM  CALL with this mechanism returns CKR_MECHANISM_INVALID (C_SignInit)
//     refuse-attribute CALL CKA  CALL whose template has this attribute returns CKR_ATTRIBUTE_READ_ONLY (C_CopyObject,
//                             C_SetAttributeValue); C_GetAttributeValue returns CKR_ATTRIBUTE_TYPE_INVALID
//     false-signatures        C_Sign changes a bit of the real module's signature
//     keys-not-local          CKA_LOCAL of every stored key is false: it was not made in the HSM token
//     fault CALL WHEN WHAT [once]
//
// CALL is a function's name, or * for all. WHEN is always, nth=N (the Nth call since the script was read), every=N,
// from=N (the Nth and all later), or random=N (one in N, the same ones in every run). WHAT is return=CKR (the call is
// not forwarded), answer=CKR (it is forwarded, and then returns this), delay=MILLISECONDS, hang, crash (SIGKILL before
// the call), logout (C_Logout first), close-sessions (all of the HSM token's first), leak=BYTES, or an action that a
// library has no reason for: exec (/bin/true), fork, connect (a local socket that does not exist). Each such action
// leaves a line in the log with its errno. With "once" a fault happens once, however many processes read the script: it
// leaves the file SCRIPT.fired-LINE. Numbers may be hexadecimal.
#ifndef SCRIPTED_PKCS11_H
#define SCRIPTED_PKCS11_H

#include <p11-kit-1/p11-kit/pkcs11.h>

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list);

#endif
