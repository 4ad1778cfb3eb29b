#ifndef PAYTOKEND_WORKER_SPAWN_H
#define PAYTOKEND_WORKER_SPAWN_H

#include <sys/types.h>

// Opens an executable so that it can be run later, even if its path then names another file (O_PATH, close on exec).
// Returns the descriptor or -errno. Swift cannot import O_PATH, which needs _GNU_SOURCE.
int paytokend_open_executable(const char *path);

// Runs the program that is open as `executable` in its own process. Its descriptor 0 is one end of a new socket pair, 1
// is /dev/null, 2 is one end of a new pipe (this process's 2 if `errors` is NULL), and 3 is the executable. No others
// are open. All signals have their default action and are unblocked. The process has its own process group, so that a
// terminal's interrupt reaches only this process. `arguments` and `environment` end in NULL. The function is written in
// C because file actions with closefrom are a GNU extension that Swift cannot import. Returns 0 with the process
// identifier, the socket's other end (non-blocking, close on exec) and the pipe's read end (close on exec), or an errno.
int paytokend_spawn(
    int executable, char *const arguments[], char *const environment[], pid_t *process, int *socket, int *errors);

// Waits until the process has ended, without reaping it, so that its identifier is not reused yet. Blocks. Returns 0
// or an errno.
int paytokend_await_end(pid_t process);

// Returns 1 if the process has ended, otherwise 0. It does not wait or reap the process.
int paytokend_has_ended(pid_t process);

// Reaps the ended process and gets its wait status. Returns 0 or an errno.
int paytokend_reap(pid_t process, int *status);

#endif
