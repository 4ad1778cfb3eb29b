#ifndef PAYTOKEND_UNIX_SOCKET_H
#define PAYTOKEND_UNIX_SOCKET_H

#include <stdint.h>

/// What the kernel fixed at connect (unix(7), SO_PEERCRED). struct ucred hides behind _GNU_SOURCE, so Swift cannot
/// see it.
struct paytokend_peer {
    uint32_t uid;
    uint32_t gid;
    int32_t pid;
};

/// Fills peer from the connected socket fd. Returns 0 or an errno.
int paytokend_peer_credentials(int fd, struct paytokend_peer *peer);

/// Where a connection comes from: peer for a Unix socket, whose address_length is 0; else an IP address in network byte order,
/// of 4 or 16 bytes.
struct paytokend_arrival {
    struct paytokend_peer peer;
    uint8_t address_length;
    uint8_t address[16];
};

/// Accepts a connection of a non-blocking Unix or TCP socket, non-blocking and close on exec, a TCP socket with TCP_NODELAY, and
/// fills arrival. Returns the descriptor, -EAGAIN when no connection waits, -EPIPE for one whose peer has closed it already (it
/// is closed here too), or another negative errno.
int paytokend_accept(int listening, struct paytokend_arrival *arrival);

/// Whether the peer has closed its end altogether (POLLHUP); not when it has only finished sending.
int paytokend_peer_has_left(int fd);

/// SO_PEERGROUPS: the peer's supplementary groups at connect. capacity and *count are numbers of groups; ERANGE means
/// that *count are needed. Returns 0 or an errno.
int paytokend_peer_groups(int fd, uint32_t *groups, uint32_t capacity, uint32_t *count);

/// SO_PEERPIDFD (Linux 6.5): a descriptor of the process that connected, close on exec, which names it and no other even
/// after its number has been given to another one. Returns 0, ENOPROTOOPT where the kernel is older, or another errno,
/// of which most say that the process has been reaped.
int paytokend_peer_pidfd(int fd, int *pidfd);

/// Whether the process behind a pidfd runs: 1, 0 once it has ended (reaped or not), or a negative errno.
int paytokend_pidfd_runs(int pidfd);

/// bind(2) and connect(2) with a path: sockaddr_un's fixed array is a tuple of 108 members in Swift. Returns 0 or an
/// errno; ENAMETOOLONG when path and its NUL exceed 108 bytes.
int paytokend_unix_bind(int fd, const char *path);
int paytokend_unix_connect(int fd, const char *path);

/// The longest address of paytokend_listening_stream with its NUL: sockaddr_un's path and one more byte.
#define PAYTOKEND_ADDRESS_SIZE 110

/// What a listening stream socket is bound to. Returns AF_UNIX, AF_INET or AF_INET6; 0 when fd is no listening stream socket of
/// these families; or a negative errno.
/// address: the path, "" for a Unix socket without a file (of the abstract namespace, or without a name), or the IP address
/// in text. port: 0 for a Unix socket.
int paytokend_listening_stream(int fd, char address[PAYTOKEND_ADDRESS_SIZE], uint16_t *port);

/// Sends one datagram to a Unix socket: its path, or "@" and its name in the abstract namespace (unix(7)), as systemd's
/// NOTIFY_SOCKET has it. Returns 0 or an errno.
int paytokend_unix_send(const char *address, const char *text);

/// O_PATH and AT_EMPTY_PATH (open(2), fchownat(2)), which hide behind _GNU_SOURCE.
extern const int paytokend_o_path;
extern const int paytokend_at_empty_path;

#endif
