#ifndef PROGRAM_START_H
#define PROGRAM_START_H

#include <sys/types.h>

// Starts a program in its own process group. Its descriptors 0, 1 and 2 are the named files, which exist; no others are
// open. `directory` is its working directory, or NULL for the caller's. Both lists end in NULL. Returns 0 or an errno.
int program_start(
    const char *path, char *const arguments[], char *const environment[], const char *directory, const char *input,
    const char *output, const char *errors, pid_t *process);

#endif
