// The module behind this one.
#ifndef REAL_MODULE_H
#define REAL_MODULE_H

#include <p11-kit-1/p11-kit/pkcs11.h>

/// Loads it at the first call; ends the process with a message when that fails.
CK_FUNCTION_LIST *real_module(void);

/// A session that is open, for what the script does to a token by itself; 0 when there is none.
CK_SESSION_HANDLE any_session(void);

#endif
