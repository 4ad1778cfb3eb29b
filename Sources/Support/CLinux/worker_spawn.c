#define _GNU_SOURCE
#include "worker_spawn.h"

#include "process_start.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int paytokend_open_executable(const char *path) {
    int descriptor = open(path, O_PATH | O_CLOEXEC);
    return descriptor < 0 ? -errno : descriptor;
}

static int prepare(posix_spawn_file_actions_t *actions, int executable, int socket, int errors) {
    int error;
    if ((error = posix_spawn_file_actions_adddup2(actions, socket, 0)) != 0) return error;
    if ((error = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0)) != 0) return error;
    if (errors >= 0 && (error = posix_spawn_file_actions_adddup2(actions, errors, 2)) != 0) return error;
    // The kernel finds the executable through /proc/self/fd/3, so it must be open as 3. It remains open, and the
    // started program closes it.
    if ((error = posix_spawn_file_actions_adddup2(actions, executable, 3)) != 0) return error;
    return posix_spawn_file_actions_addclosefrom_np(actions, 4);
}

static int run(
    int executable, int socket, int errors, char *const arguments[], char *const environment[], pid_t *process) {
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) return error;
    error = prepare(&actions, executable, socket, errors);
    if (error == 0) error = paytokend_start("/proc/self/fd/3", &actions, arguments, environment, process);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int paytokend_spawn(
    int executable, char *const arguments[], char *const environment[], pid_t *process, int *socket, int *errors) {
    int pair[2], lines[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return errno;
    int error = 0, high_socket = -1, high_executable = -1, high_errors = -1;
    if (errors != NULL && pipe2(lines, O_CLOEXEC) != 0) error = errno;
    if (error == 0 && errors != NULL && (high_errors = fcntl(lines[1], F_DUPFD_CLOEXEC, 10)) < 0) error = errno;
    if (error == 0 && fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0) error = errno;
    // All descriptors are higher than those that the file actions write to, so that none overwrites another.
    if (error == 0 && (high_socket = fcntl(pair[1], F_DUPFD_CLOEXEC, 10)) < 0) error = errno;
    if (error == 0 && (high_executable = fcntl(executable, F_DUPFD_CLOEXEC, 10)) < 0) error = errno;
    if (error == 0) error = run(high_executable, high_socket, high_errors, arguments, environment, process);
    if (high_executable >= 0) close(high_executable);
    if (high_socket >= 0) close(high_socket);
    if (high_errors >= 0) close(high_errors);
    if (lines[1] >= 0) close(lines[1]);
    close(pair[1]);
    if (error != 0) {
        if (lines[0] >= 0) close(lines[0]);
        close(pair[0]);
        return error;
    }
    *socket = pair[0];
    if (errors != NULL) *errors = lines[0];
    return 0;
}

int paytokend_await_end(pid_t process) {
    siginfo_t information;
    while (waitid(P_PID, (id_t)process, &information, WEXITED | WNOWAIT) != 0) {
        if (errno != EINTR) return errno;
    }
    return 0;
}

int paytokend_has_ended(pid_t process) {
    siginfo_t information;
    information.si_pid = 0;
    return waitid(P_PID, (id_t)process, &information, WEXITED | WNOHANG | WNOWAIT) != 0 || information.si_pid != 0;
}

int paytokend_reap(pid_t process, int *status) {
    while (waitpid(process, status, 0) < 0) {
        if (errno != EINTR) return errno;
    }
    return 0;
}
