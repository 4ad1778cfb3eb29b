#define _GNU_SOURCE
#include "process_hardening.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

int paytokend_forbid_new_privileges(void) {
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno;
}

int paytokend_forbid_dumps(void) {
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
