#ifndef PAYTOKEND_PROCESS_START_H
#define PAYTOKEND_PROCESS_START_H

#include <spawn.h>
#include <sys/types.h>

// Starts the program at `path` with these file actions, in its own process group. All signals have their default action
// and are unblocked. `arguments` and `environment` end in NULL. Returns 0 or an errno.
int paytokend_start(
    const char *path, const posix_spawn_file_actions_t *actions, char *const arguments[], char *const environment[],
    pid_t *process);

#endif
