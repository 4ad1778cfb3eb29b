// A PKCS#11 module for tests: forwards every call to a real module and injects faults that a script names, so that the
// habits of real tokens can be had whenever a test wants them. Nothing links it: it is loaded by its path.
//
// The environment variable SCRIPTED_PKCS11 names the script, which is read again whenever it has changed. One
// instruction a line; what follows a "#" is ignored.
//
//     module PATH             the real module, required; read once
//     log PATH                appends a line to PATH for each call: its name, what it returned, the process
//     syslog PATH             what the process writes to syslog is appended to PATH, from C_Initialize on, and so is its
//                             standard error; begins with a line that says so
//     uses PATH               the token's own log of key uses: appends a line of JSON for each C_DeriveKey, C_SignInit and
//                             C_DecryptInit that a key whose CKA_ID is a publicKeyHash has taken, whoever called it
//     slot-offset N           slots have numbers N higher than the real module's
//     session-limit N         C_OpenSession returns CKR_SESSION_COUNT while N are open
//     token-flags N           C_GetTokenInfo has these flags besides
//     refuse-null-kdf         CKM_ECDH1_DERIVE with CKD_NULL returns CKR_MECHANISM_PARAM_INVALID
//     one-step-kdf            CKM_ECDH1_DERIVE knows CKD_SHA256_KDF_SP800
//     five-field-gcm          CKM_AES_GCM takes CK_GCM_PARAMS without ulIvBits, and no other
//     error CALL CKR          what CALL returns where it fails, whatever the real module returned
//     template CALL CKA BYTE  a private key's template is passed on with this attribute as this one byte, whatever it
//                             said: a token that does not do what it was asked for (C_CreateObject, C_GenerateKeyPair,
//                             C_CopyObject). Of C_GetAttributeValue: what it says of a stored object's attribute of one byte
//     refuse-mechanism CALL CKM  CALL with this mechanism returns CKR_MECHANISM_INVALID (C_SignInit)
//     refuse-attribute CALL CKA  CALL whose template has this attribute returns CKR_ATTRIBUTE_READ_ONLY (C_CopyObject,
//                             C_SetAttributeValue); C_GetAttributeValue returns CKR_ATTRIBUTE_TYPE_INVALID
//     false-signatures        C_Sign changes a bit of what the real module signed
//     keys-not-local          CKA_LOCAL of every stored key is false: it was not made in the token
//     fault CALL WHEN WHAT [once]
//
// CALL is a function's name, or * for all. WHEN is always, nth=N (the Nth call since the script was read), every=N,
// from=N (the Nth and all later), or random=N (one in N, the same ones in every run). WHAT is return=CKR (the call is
// not forwarded), answer=CKR (it is, and then returns this), delay=MILLISECONDS, hang, crash (SIGKILL before the call),
// logout (C_Logout first), close-sessions (all of the token's first), leak=BYTES, or what a library has no reason to do: exec (/bin/true), fork,
// connect (a local socket that is not there), each of which leaves a line in the log with its errno. With "once" a fault happens once,
// however many processes read the script: it leaves the file SCRIPT.fired-LINE behind. Numbers may be hexadecimal.
#ifndef SCRIPTED_PKCS11_H
#define SCRIPTED_PKCS11_H

#include <p11-kit-1/p11-kit/pkcs11.h>

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list);

#endif
