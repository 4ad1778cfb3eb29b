#define _GNU_SOURCE
#include "ProgramStart.h"

#include <fcntl.h>
#include <process_start.h>
#include <spawn.h>

static int prepare(
    posix_spawn_file_actions_t *actions, const char *directory, const char *input, const char *output,
    const char *errors) {
    int error;
    if ((error = posix_spawn_file_actions_addopen(actions, 0, input, O_RDONLY, 0)) != 0) return error;
    if ((error = posix_spawn_file_actions_addopen(actions, 1, output, O_WRONLY, 0)) != 0) return error;
    if ((error = posix_spawn_file_actions_addopen(actions, 2, errors, O_WRONLY, 0)) != 0) return error;
    if ((error = posix_spawn_file_actions_addclosefrom_np(actions, 3)) != 0) return error;
    return directory == NULL ? 0 : posix_spawn_file_actions_addchdir_np(actions, directory);
}

int program_start(
    const char *path, char *const arguments[], char *const environment[], const char *directory, const char *input,
    const char *output, const char *errors, pid_t *process) {
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) return error;
    error = prepare(&actions, directory, input, output, errors);
    if (error == 0) error = paytokend_start(path, &actions, arguments, environment, process);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}
