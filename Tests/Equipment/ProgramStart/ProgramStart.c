#define _GNU_SOURCE
#include "ProgramStart.h"

#include <fcntl.h>
#include <signal.h>
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

static int start(
    const char *path, const posix_spawn_file_actions_t *actions, char *const arguments[], char *const environment[],
    pid_t *process) {
    posix_spawnattr_t attributes;
    int error = posix_spawnattr_init(&attributes);
    if (error != 0) return error;
    // The threads of libdispatch block all signals, and a child would inherit that.
    sigset_t none, broken_pipe;
    sigemptyset(&none);
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    error = posix_spawnattr_setsigmask(&attributes, &none);
    if (error == 0) error = posix_spawnattr_setsigdefault(&attributes, &broken_pipe);
    // The group of a new attribute object is 0: the program leads its own.
    if (error == 0)
        error = posix_spawnattr_setflags(
            &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (error == 0) error = posix_spawn(process, path, actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    return error;
}

int program_start(
    const char *path, char *const arguments[], char *const environment[], const char *directory, const char *input,
    const char *output, const char *errors, pid_t *process) {
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) return error;
    error = prepare(&actions, directory, input, output, errors);
    if (error == 0) error = start(path, &actions, arguments, environment, process);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}
