#define _GNU_SOURCE
#include "command_spawn.h"

#include "process_start.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int paytokend_open_place(int directory, const char *name) {
    int descriptor = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return descriptor < 0 ? -errno : descriptor;
}

static int prepare(posix_spawn_file_actions_t *actions, int executable, int output, int errors) {
    int error;
    if ((error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0)) != 0) return error;
    if ((error = posix_spawn_file_actions_adddup2(actions, output, 1)) != 0) return error;
    if ((error = posix_spawn_file_actions_adddup2(actions, errors, 2)) != 0) return error;
    // The kernel finds the executable through /proc/self/fd/3, so it must be open as 3. A script must stay open,
    // because its interpreter reads it from there.
    if ((error = posix_spawn_file_actions_adddup2(actions, executable, 3)) != 0) return error;
    if ((error = posix_spawn_file_actions_addclosefrom_np(actions, 4)) != 0) return error;
    return posix_spawn_file_actions_addchdir_np(actions, "/");
}

static int run(
    int executable, char *const arguments[], char *const environment[], int output, int errors, pid_t *process) {
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) return error;
    error = prepare(&actions, executable, output, errors);
    if (error == 0) error = paytokend_start("/proc/self/fd/3", &actions, arguments, environment, process);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int paytokend_spawn_command(
    int executable, char *const arguments[], char *const environment[], pid_t *process, int *output, int *errors) {
    int first[2], second[2];
    if (pipe2(first, O_CLOEXEC) != 0) return errno;
    if (pipe2(second, O_CLOEXEC) != 0) {
        int error = errno;
        close(first[0]);
        close(first[1]);
        return error;
    }
    // Both descriptors are higher than those that the file actions write to, so that none overwrites another.
    int high_output = fcntl(first[1], F_DUPFD_CLOEXEC, 10), high_errors = fcntl(second[1], F_DUPFD_CLOEXEC, 10);
    int high_executable = fcntl(executable, F_DUPFD_CLOEXEC, 10);
    int error = high_output < 0 || high_errors < 0 || high_executable < 0 ? errno : 0;
    if (error == 0) error = run(high_executable, arguments, environment, high_output, high_errors, process);
    if (high_executable >= 0) close(high_executable);
    if (high_output >= 0) close(high_output);
    if (high_errors >= 0) close(high_errors);
    close(first[1]);
    close(second[1]);
    if (error != 0) {
        close(first[0]);
        close(second[0]);
        return error;
    }
    *output = first[0];
    *errors = second[0];
    return 0;
}
