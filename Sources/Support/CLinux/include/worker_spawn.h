#ifndef PAYTOKEND_WORKER_SPAWN_H
#define PAYTOKEND_WORKER_SPAWN_H

#include <sys/types.h>

// Opens an executable so that it can be run later even when its path names another file by then (O_PATH, close on
// exec). Returns the descriptor or -errno. Swift cannot see O_PATH: it needs _GNU_SOURCE.
int paytokend_open_executable(const char *path);

// Runs the executable behind `executable` in a process of its own: one end of a new socket pair as its descriptor 0,
// /dev/null as 1, this process's 2, the executable as 3, nothing else; every signal at its default and unblocked; its
// own process group, so that a terminal's interrupt reaches only this process. Both lists end in NULL. One call, since
// file actions with closefrom are a GNU extension that Swift cannot see.
// Returns 0, the process identifier and the other end (non-blocking, close on exec), or an errno.
int paytokend_spawn(
    int executable, char *const arguments[], char *const environment[], pid_t *process, int *socket);

// Waits until the process has ended, and leaves it to be reaped: its identifier is not given to another one yet.
// Blocks. Returns 0 or an errno.
int paytokend_await_end(pid_t process);

// Tells without waiting whether the process has ended, and leaves it to be reaped. Returns 1 or 0.
int paytokend_has_ended(pid_t process);

// Reaps the ended process and gives its wait status. Returns 0 or an errno.
int paytokend_reap(pid_t process, int *status);

#endif
