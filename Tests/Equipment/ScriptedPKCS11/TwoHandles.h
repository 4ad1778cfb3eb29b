// An HSM token that shows each object under two handles.
#ifndef TWO_HANDLES_H
#define TWO_HANDLES_H

#include <p11-kit-1/p11-kit/pkcs11.h>

/// The second handle of an object is its first one with this bit set.
#define SECOND_HANDLE ((CK_OBJECT_HANDLE)1 << 40)

/// Returns a copy of the module's list, whose functions take either handle of an object.
CK_FUNCTION_LIST *taking_two_handles(const CK_FUNCTION_LIST *module);

#endif
