// The instruction `forget-identifiers`. A process keeps a new public key's CKA_ID only until it ends, unless it also sets
// the CKA_ID with C_SetAttributeValue. The library of the YubiHSM 2 does so.
#ifndef FORGOTTEN_IDENTIFIERS_H
#define FORGOTTEN_IDENTIFIERS_H

#include <p11-kit-1/p11-kit/pkcs11.h>

/// Notes that this process has created a stored public key, whose CKA_ID ends with the process.
void note_identifier(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object);

/// Notes that the object's CKA_ID was set, so that it is kept.
void keep_identifier(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object);

/// Shortens the CKA_ID of each stored public key that another process has noted. Call it after a login.
void forget_identifiers(CK_SESSION_HANDLE session);

#endif
