#ifndef PAYTOKEND_UNIX_SOCKET_H
#define PAYTOKEND_UNIX_SOCKET_H

#include <stdint.h>

/// The peer's credentials, which the kernel fixed at connect (unix(7), SO_PEERCRED). Swift cannot import struct ucred,
/// which needs _GNU_SOURCE.
struct paytokend_peer {
    uint32_t uid;
    uint32_t gid;
    int32_t pid;
};

/// Fills peer from the connected socket fd. Returns 0 or an errno.
int paytokend_peer_credentials(int fd, struct paytokend_peer *peer);

/// The origin of a connection. For a Unix socket it is peer, and address_length is 0. Otherwise it is an IP address in
/// network byte order, of 4 or 16 bytes.
struct paytokend_arrival {
    struct paytokend_peer peer;
    uint8_t address_length;
    uint8_t address[16];
};

/// Accepts a connection of a non-blocking Unix or TCP socket, sets non-blocking and close on exec (TCP_NODELAY too for
/// a TCP socket), and fills arrival. Returns the descriptor, -EAGAIN if no connection waits, or another negative
/// errno. -EPIPE means that the peer has already closed the connection; this end is then closed too.
int paytokend_accept(int listening, struct paytokend_arrival *arrival);

/// Returns true if the peer has closed its end completely (POLLHUP), not if it has only finished sending.
int paytokend_peer_has_left(int fd);

/// Gets the peer's supplementary groups at connect (SO_PEERGROUPS). capacity and *count are numbers of groups; after
/// ERANGE, *count is the number needed. Returns 0 or an errno.
int paytokend_peer_groups(int fd, uint32_t *groups, uint32_t capacity, uint32_t *count);

/// Opens a descriptor of the process that connected, close on exec (SO_PEERPIDFD, Linux 6.5). It refers to that
/// process only, even after its number has been reused. Returns 0, ENOPROTOOPT for an older kernel, or another errno;
/// most of these mean that the process has been reaped.
int paytokend_peer_pidfd(int fd, int *pidfd);

/// Returns 1 if the process of a pidfd runs, 0 if it has ended (reaped or not), or a negative errno.
int paytokend_pidfd_runs(int pidfd);

/// Call bind(2) and connect(2) with a path, since sockaddr_un's fixed array is a tuple of 108 members in Swift. They
/// return 0 or an errno: ENAMETOOLONG if path and its NUL exceed 108 bytes.
int paytokend_unix_bind(int fd, const char *path);
int paytokend_unix_connect(int fd, const char *path);

/// The longest address of paytokend_listening_stream with its NUL: sockaddr_un's path and one more byte.
#define PAYTOKEND_ADDRESS_SIZE 110

/// Gets the address of a listening stream socket. Returns AF_UNIX, AF_INET or AF_INET6; 0 if fd is not a listening
/// stream socket of these families; or a negative errno. address gets the path, the IP address as text, or "" for a
/// Unix socket without a file (in the abstract namespace, or without a name). port is 0 for a Unix socket.
int paytokend_listening_stream(int fd, char address[PAYTOKEND_ADDRESS_SIZE], uint16_t *port);

/// Sends one datagram to a Unix socket. Its address is a path, or "@" and a name in the abstract namespace (unix(7)),
/// as in systemd's NOTIFY_SOCKET. Returns 0 or an errno.
int paytokend_unix_send(const char *address, const char *text);

/// O_PATH and AT_EMPTY_PATH (open(2), fchownat(2)), which need _GNU_SOURCE.
extern const int paytokend_o_path;
extern const int paytokend_at_empty_path;

#endif
