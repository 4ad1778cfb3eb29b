#ifndef PAYTOKEND_PROCESS_HARDENING_H
#define PAYTOKEND_PROCESS_HARDENING_H

// prctl is variadic, so Swift cannot call it.

// Prevents programs started by this process from gaining privileges (PR_SET_NO_NEW_PRIVS). Returns 0 or an errno.
int paytokend_forbid_new_privileges(void);

// Prevents core dumps, also to a piped handler, and ptrace or /proc/PID/mem by others with the same uid
// (PR_SET_DUMPABLE 0, RLIMIT_CORE 0). It also prevents the Swift runtime's crash reports on standard error. Returns 0
// or an errno.
int paytokend_forbid_dumps(void);

// Sets the name in ps and in the kernel's log, at most 15 bytes: without it, a program run through /proc/self/fd would
// be "3".
void paytokend_set_process_name(const char *name);

// Closes all descriptors from `first` on.
void paytokend_close_from(int first);

#endif
