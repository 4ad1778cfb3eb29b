#include "TwoHandles.h"

static CK_FUNCTION_LIST real;
static CK_FUNCTION_LIST changed;

static CK_OBJECT_HANDLE first(CK_OBJECT_HANDLE object) { return object & ~SECOND_HANDLE; }

#define TAKES_BOTH(name, parameters, arguments)                                                                        \
    static CK_RV name##_of_both parameters { return real.name arguments; }

#define SESSION CK_SESSION_HANDLE session
#define MECHANISM CK_MECHANISM *mechanism
#define OBJECT CK_OBJECT_HANDLE object
#define TEMPLATE CK_ATTRIBUTE *template, CK_ULONG count

TAKES_BOTH(C_DestroyObject, (SESSION, OBJECT), (session, first(object)))
TAKES_BOTH(
    C_CopyObject, (SESSION, OBJECT, TEMPLATE, CK_OBJECT_HANDLE *copy), (session, first(object), template, count, copy))
TAKES_BOTH(C_GetAttributeValue, (SESSION, OBJECT, TEMPLATE), (session, first(object), template, count))
TAKES_BOTH(C_SetAttributeValue, (SESSION, OBJECT, TEMPLATE), (session, first(object), template, count))
TAKES_BOTH(C_DecryptInit, (SESSION, MECHANISM, OBJECT), (session, mechanism, first(object)))
TAKES_BOTH(C_SignInit, (SESSION, MECHANISM, OBJECT), (session, mechanism, first(object)))
TAKES_BOTH(C_VerifyInit, (SESSION, MECHANISM, OBJECT), (session, mechanism, first(object)))
TAKES_BOTH(
    C_UnwrapKey,
    (SESSION, MECHANISM, OBJECT, CK_BYTE *wrapped, CK_ULONG wrapped_count, TEMPLATE, CK_OBJECT_HANDLE *key),
    (session, mechanism, first(object), wrapped, wrapped_count, template, count, key))
TAKES_BOTH(
    C_DeriveKey, (SESSION, MECHANISM, OBJECT, TEMPLATE, CK_OBJECT_HANDLE *key),
    (session, mechanism, first(object), template, count, key))

CK_FUNCTION_LIST *taking_two_handles(const CK_FUNCTION_LIST *module) {
    real = changed = *module;
#define CHANGE(name) changed.name = name##_of_both
    CHANGE(C_DestroyObject), CHANGE(C_CopyObject), CHANGE(C_GetAttributeValue), CHANGE(C_SetAttributeValue),
        CHANGE(C_DecryptInit), CHANGE(C_SignInit), CHANGE(C_VerifyInit), CHANGE(C_UnwrapKey), CHANGE(C_DeriveKey);
    return &changed;
}
