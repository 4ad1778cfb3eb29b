#ifndef PAYTOKEND_SYSTEM_CALL_FILTER_H
#define PAYTOKEND_SYSTEM_CALL_FILTER_H

#include <stddef.h>

// Returns the name at `index` in the list of system calls that can be denied, or NULL after the last name. One name can
// mean several calls with the same effect. The set is closed. It contains only calls that a PKCS#11 library can be
// denied, and none that Swift's or C's runtime needs.
const char *paytokend_deniable_system_call(size_t index);

// Denies system calls permanently to this process, to all its present and future threads, and to all programs that it
// starts (seccomp(2), SECCOMP_SET_MODE_FILTER). The calls fail with EPERM. PR_SET_NO_NEW_PRIVS must be set.
//
// A denied call fails with EPERM and does not end the process. If the list is too strict for the library, the operator
// then sees the library's error with the name of its function. A worker that ended again and again would show no
// reason.
//
// `names` come from paytokend_deniable_system_call. Returns 0, EINVAL for another name, ENOTSUP for a processor other
// than x86-64 and AArch64, or the kernel's errno.
int paytokend_deny_system_calls(const char *const *names, size_t count);

#endif
