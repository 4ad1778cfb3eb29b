#ifndef PAYTOKEND_SYSTEM_CALL_FILTER_H
#define PAYTOKEND_SYSTEM_CALL_FILTER_H

#include <stddef.h>

// The names that can be denied, NULL at the end; a name may stand for several calls that do the same. A closed set of
// what a PKCS#11 library may well be forbidden: nothing that Swift's or C's own runtime needs is in it.
const char *paytokend_deniable_system_call(size_t index);

// Denies system calls to this process, all threads that it has and will have, and all programs that it starts, for
// good (seccomp(2), SECCOMP_SET_MODE_FILTER). They fail with EPERM. Wants PR_SET_NO_NEW_PRIVS to be set.
//
// EPERM and not the end of the process: a list that is stricter than the library can bear then shows as that library's
// error, with the call's name, and not as a worker that dies again and again for no reason given.
//
// `names` are of paytokend_deniable_system_call. Returns 0, EINVAL for another name, ENOTSUP for another processor than
// x86-64 and AArch64, or the kernel's errno.
int paytokend_deny_system_calls(const char *const *names, size_t count);

#endif
