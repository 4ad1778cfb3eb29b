// The real module, to which calls are forwarded.
#ifndef REAL_MODULE_H
#define REAL_MODULE_H

#include <p11-kit-1/p11-kit/pkcs11.h>

/// Returns the functions of the module, which is loaded at the first call. A failure ends the process with a message.
CK_FUNCTION_LIST *real_module(void);

/// Returns an open session, in which the script can log out or close sessions; 0 if there is none.
CK_SESSION_HANDLE any_session(void);

#endif
