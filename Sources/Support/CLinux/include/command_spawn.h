#ifndef PAYTOKEND_COMMAND_SPAWN_H
#define PAYTOKEND_COMMAND_SPAWN_H

#include <sys/types.h>

// Runs the program that is open as `executable`, in / and in its own process group. Its descriptor 0 is /dev/null, 1
// and 2 are each one end of a new pipe, 3 is its own executable, and no others are open. All signals have their default
// action and are unblocked. A script's interpreter gets the script as /proc/self/fd/3. `arguments` and `environment`
// end in NULL. The function is written in C because file actions with closefrom are a GNU extension that Swift cannot
// import. Returns 0 with the process identifier and the read ends (close on exec), or an errno.
int paytokend_spawn_command(
    int executable, char *const arguments[], char *const environment[], pid_t *process, int *output, int *errors);

// Opens the component `name` of a path in `directory` (or AT_FDCWD), with O_PATH and close on exec. A symbolic link is
// not followed: the descriptor refers to the link. Returns the descriptor or -errno. Swift cannot import O_PATH, which
// needs _GNU_SOURCE.
int paytokend_open_place(int directory, const char *name);

#endif
