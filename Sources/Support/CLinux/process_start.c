#define _GNU_SOURCE
#include "process_start.h"

#include <signal.h>

static int prepare(posix_spawnattr_t *attributes) {
    int error;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    if ((error = posix_spawnattr_setsigmask(attributes, &none)) != 0) return error;
    if ((error = posix_spawnattr_setsigdefault(attributes, &all)) != 0) return error;
    if ((error = posix_spawnattr_setpgroup(attributes, 0)) != 0) return error;
    return posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

int paytokend_start(
    const char *path, const posix_spawn_file_actions_t *actions, char *const arguments[], char *const environment[],
    pid_t *process) {
    posix_spawnattr_t attributes;
    int error = posix_spawnattr_init(&attributes);
    if (error != 0) return error;
    error = prepare(&attributes);
    if (error == 0) error = posix_spawn(process, path, actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    return error;
}
