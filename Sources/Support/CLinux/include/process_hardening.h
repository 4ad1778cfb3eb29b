#ifndef PAYTOKEND_PROCESS_HARDENING_H
#define PAYTOKEND_PROCESS_HARDENING_H

// prctl is variadic, which Swift cannot call.

// No program that this one starts gains privileges (PR_SET_NO_NEW_PRIVS). Returns 0 or an errno.
int paytokend_forbid_new_privileges(void);

// No core dump, also to a piped handler, and no ptrace or /proc/PID/mem by others of the same uid
// (PR_SET_DUMPABLE 0, RLIMIT_CORE 0), and none of the Swift runtime's crash reports on standard error. Returns 0 or an errno.
int paytokend_forbid_dumps(void);

// The name that ps and the kernel's log show, at most 15 bytes: a program run through /proc/self/fd would be "3".
void paytokend_set_process_name(const char *name);

// Closes every descriptor from `first` on.
void paytokend_close_from(int first);

#endif
