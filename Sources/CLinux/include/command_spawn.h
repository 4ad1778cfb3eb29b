#ifndef PAYTOKEND_COMMAND_SPAWN_H
#define PAYTOKEND_COMMAND_SPAWN_H

#include <sys/types.h>

// Runs a program by its path, arguments[0], in / and in a process group of its own: /dev/null as its descriptor 0, one end of
// a new pipe each as 1 and 2, nothing else; every signal at its default and unblocked. Both lists end in NULL. One call, since
// file actions with closefrom are a GNU extension that Swift cannot see.
// Returns 0, the process identifier and the ends to be read (close on exec), or an errno.
int paytokend_spawn_command(
    char *const arguments[], char *const environment[], pid_t *process, int *output, int *errors);

#endif
