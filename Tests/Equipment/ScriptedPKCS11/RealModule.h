// The module that receives the forwarded calls.
#ifndef REAL_MODULE_H
#define REAL_MODULE_H

#include <p11-kit-1/p11-kit/pkcs11.h>

/// Loads the module at the first call; ends the process with a message on failure.
CK_FUNCTION_LIST *real_module(void);

/// An open session, for the script's own actions on an HSM token; 0 if there is none.
CK_SESSION_HANDLE any_session(void);

#endif
