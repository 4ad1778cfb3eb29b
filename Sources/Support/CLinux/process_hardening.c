#define _GNU_SOURCE
#include "process_hardening.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

int paytokend_forbid_new_privileges(void) {
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno;
}

int paytokend_forbid_dumps(void) {
    // Before main, Swift's runtime installs handlers for these signals. Its crash report shows the memory that the
    // registers point to, which may contain secrets.
    const int crashes[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGSEGV, SIGTRAP};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        if (signal(crashes[i], SIG_DFL) == SIG_ERR) return errno;
    }
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0) return errno;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : errno;
}

void paytokend_set_process_name(const char *name) {
    prctl(PR_SET_NAME, name, 0, 0, 0);
}

void paytokend_close_from(int first) {
    closefrom(first);
}
