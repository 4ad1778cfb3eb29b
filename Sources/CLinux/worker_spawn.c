#define _GNU_SOURCE
#include "worker_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int paytokend_open_executable(const char *path) {
    int descriptor = open(path, O_PATH | O_CLOEXEC);
    return descriptor < 0 ? -errno : descriptor;
}

static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, int executable, int socket) {
    int error;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    if ((error = posix_spawn_file_actions_adddup2(actions, socket, 0)) != 0) return error;
    if ((error = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0)) != 0) return error;
    // The executable has to be open while it is looked up in /proc: it stays as 3, the program closes it.
    if ((error = posix_spawn_file_actions_adddup2(actions, executable, 3)) != 0) return error;
    if ((error = posix_spawn_file_actions_addclosefrom_np(actions, 4)) != 0) return error;
    if ((error = posix_spawnattr_setsigmask(attributes, &none)) != 0) return error;
    if ((error = posix_spawnattr_setsigdefault(attributes, &all)) != 0) return error;
    if ((error = posix_spawnattr_setpgroup(attributes, 0)) != 0) return error;
    return posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

static int run(int executable, int socket, char *const arguments[], char *const environment[], pid_t *process) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = prepare(&actions, &attributes, executable, socket);
        if (error == 0) error = posix_spawn(process, "/proc/self/fd/3", &actions, &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int paytokend_spawn(
    int executable, char *const arguments[], char *const environment[], pid_t *process, int *socket) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return errno;
    int error = 0, high_socket = -1, high_executable = -1;
    if (fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0) error = errno;
    // Both above the descriptors that the file actions write to, so that none overwrites another.
    if (error == 0 && (high_socket = fcntl(pair[1], F_DUPFD_CLOEXEC, 10)) < 0) error = errno;
    if (error == 0 && (high_executable = fcntl(executable, F_DUPFD_CLOEXEC, 10)) < 0) error = errno;
    if (error == 0) error = run(high_executable, high_socket, arguments, environment, process);
    if (high_executable >= 0) close(high_executable);
    if (high_socket >= 0) close(high_socket);
    close(pair[1]);
    if (error != 0) {
        close(pair[0]);
        return error;
    }
    *socket = pair[0];
    return 0;
}

int paytokend_await_end(pid_t process) {
    siginfo_t information;
    while (waitid(P_PID, (id_t)process, &information, WEXITED | WNOWAIT) != 0) {
        if (errno != EINTR) return errno;
    }
    return 0;
}

int paytokend_reap(pid_t process, int *status) {
    while (waitpid(process, status, 0) < 0) {
        if (errno != EINTR) return errno;
    }
    return 0;
}
