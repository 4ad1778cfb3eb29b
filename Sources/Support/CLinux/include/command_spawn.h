#ifndef PAYTOKEND_COMMAND_SPAWN_H
#define PAYTOKEND_COMMAND_SPAWN_H

#include <sys/types.h>

// Runs the program that is open as `executable`, in / and in a process group of its own: /dev/null as its descriptor 0, one end
// of a new pipe each as 1 and 2, its own file as 3, nothing else; every signal at its default and unblocked. A script's
// interpreter gets it as /proc/self/fd/3. Both lists end in NULL. One call, since file actions with closefrom are a GNU
// extension that Swift cannot see.
// Returns 0, the process identifier and the ends to be read (close on exec), or an errno.
int paytokend_spawn_command(
    int executable, char *const arguments[], char *const environment[], pid_t *process, int *output, int *errors);

// Opens a path's next component in `directory` (or AT_FDCWD), or the link itself where it is one: O_PATH, close on exec.
// Returns the descriptor or -errno. Swift cannot see O_PATH: it needs _GNU_SOURCE.
int paytokend_open_place(int directory, const char *name);

#endif
