#define _GNU_SOURCE
#include "unix_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

// glibc 2.36 (Debian 12) does not define this option. Its number is the same on x86-64 and AArch64.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

const int paytokend_o_path = O_PATH;
const int paytokend_at_empty_path = AT_EMPTY_PATH;

int paytokend_peer_credentials(int fd, struct paytokend_peer *peer) {
    struct ucred credentials;
    socklen_t length = sizeof credentials;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return errno;
    if (length != sizeof credentials) return EPROTO;
    peer->uid = credentials.uid;
    peer->gid = credentials.gid;
    peer->pid = credentials.pid;
    return 0;
}

int paytokend_peer_has_left(int fd) {
    struct pollfd connection = {.fd = fd, .events = 0};
    return poll(&connection, 1, 0) == 1 && (connection.revents & POLLHUP) != 0;
}

int paytokend_accept(int listening, struct paytokend_arrival *arrival) {
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } from;
    socklen_t length = sizeof from;
    int fd = accept4(listening, &from.any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return -errno;
    int result = paytokend_peer_has_left(fd) ? EPIPE : 0;
    const int without_delay = 1;
    memset(arrival, 0, sizeof *arrival);
    if (result == 0) switch (from.any.sa_family) {
        case AF_UNIX: result = paytokend_peer_credentials(fd, &arrival->peer); break;
        case AF_INET:
            arrival->address_length = sizeof from.ipv4.sin_addr;
            memcpy(arrival->address, &from.ipv4.sin_addr, sizeof from.ipv4.sin_addr);
            break;
        case AF_INET6:
            arrival->address_length = sizeof from.ipv6.sin6_addr;
            memcpy(arrival->address, &from.ipv6.sin6_addr, sizeof from.ipv6.sin6_addr);
            break;
        default: result = EPROTO;
        }
    // A failure to set TCP_NODELAY is ignored, since the connection works without it.
    if (result == 0 && arrival->address_length > 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &without_delay, sizeof without_delay);
    if (result == 0) return fd;
    close(fd);
    return -result;
}

int paytokend_peer_groups(int fd, uint32_t *groups, uint32_t capacity, uint32_t *count) {
    _Static_assert(sizeof(gid_t) == sizeof(uint32_t), "gid_t is 32 bits on Linux");
    socklen_t length = capacity * (socklen_t)sizeof(gid_t);
    int result = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &length);
    *count = length / (uint32_t)sizeof(gid_t);
    return result == 0 ? 0 : errno;
}

int paytokend_peer_pidfd(int fd, int *pidfd) {
    socklen_t length = sizeof *pidfd;
    return getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, pidfd, &length) == 0 ? 0 : errno;
}

int paytokend_pidfd_runs(int pidfd) {
    struct pollfd process = {.fd = pidfd, .events = POLLIN};
    int ready;
    do {
        ready = poll(&process, 1, 0);
    } while (ready < 0 && errno == EINTR);
    if (ready < 0) return -errno;
    return ready == 0;
}

static int unix_address(const char *path, struct sockaddr_un *address, socklen_t *length) {
    size_t bytes = strlen(path) + 1;
    if (bytes > sizeof address->sun_path) return ENAMETOOLONG;
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, bytes);
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
    return 0;
}

int paytokend_unix_bind(int fd, const char *path) {
    struct sockaddr_un address;
    socklen_t length;
    int error = unix_address(path, &address, &length);
    if (error != 0) return error;
    return bind(fd, (struct sockaddr *)&address, length) == 0 ? 0 : errno;
}

int paytokend_unix_connect(int fd, const char *path) {
    struct sockaddr_un address;
    socklen_t length;
    int error = unix_address(path, &address, &length);
    if (error != 0) return error;
    return connect(fd, (struct sockaddr *)&address, length) == 0 ? 0 : errno;
}

int paytokend_unix_send(const char *address, const char *text) {
    struct sockaddr_un to;
    socklen_t length;
    int error = unix_address(address, &to, &length);
    if (error != 0) return error;
    if (to.sun_path[0] == '@') {
        // In the abstract namespace the first byte is NUL and the length ends the name.
        to.sun_path[0] = 0;
        length--;
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to, length) < 0) error = errno;
    close(fd);
    return error;
}

static int socket_option(int fd, int option, int *value) {
    socklen_t length = sizeof *value;
    return getsockopt(fd, SOL_SOCKET, option, value, &length) == 0 ? 0 : errno;
}

int paytokend_listening_stream(int fd, char address[PAYTOKEND_ADDRESS_SIZE], uint16_t *port) {
    int type = 0, listening = 0;
    int error = socket_option(fd, SO_TYPE, &type);
    if (error == 0) error = socket_option(fd, SO_ACCEPTCONN, &listening);
    if (error != 0) return -error;
    if (type != SOCK_STREAM || listening == 0) return 0;
    // One zero byte more than the kernel fills: a path of 108 bytes has no NUL.
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
        char bytes[sizeof(struct sockaddr_un) + 1];
    } name;
    memset(&name, 0, sizeof name);
    socklen_t length = sizeof(struct sockaddr_un);
    if (getsockname(fd, &name.any, &length) != 0) return -errno;
    *port = 0;
    switch (name.any.sa_family) {
    case AF_UNIX:
        // In the abstract namespace the first byte is NUL.
        memcpy(address, name.local.sun_path, sizeof name.local.sun_path);
        address[sizeof name.local.sun_path] = 0;
        return AF_UNIX;
    case AF_INET:
        *port = ntohs(name.ipv4.sin_port);
        return inet_ntop(AF_INET, &name.ipv4.sin_addr, address, PAYTOKEND_ADDRESS_SIZE) ? AF_INET : -errno;
    case AF_INET6:
        *port = ntohs(name.ipv6.sin6_port);
        return inet_ntop(AF_INET6, &name.ipv6.sin6_addr, address, PAYTOKEND_ADDRESS_SIZE) ? AF_INET6 : -errno;
    default: return 0;
    }
}
