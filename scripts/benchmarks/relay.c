/* A relay between a program and a server that makes the server appear farther away.
 *
 *   relay LISTEN TARGET MICROSECONDS
 *
 * Accepts connections on the Unix socket LISTEN, which it makes. Forwards the bytes of each end to the other, in order and with this
 * delay, so a round trip takes twice the delay longer. Prints "ready" when it listens, and ends with its parent. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The maximum number of connections, which is more than a daemon opens. */
#define CONNECTIONS 64
#define PIECE 65536

struct piece {
    struct piece *next;
    long long due; /* in nanoseconds of CLOCK_MONOTONIC */
    size_t size, sent;
    char bytes[];
};

/* One direction of a connection. */
struct direction {
    int from, to;
    int ended; /* no more data comes */
    struct piece *first, *last;
};

struct connection {
    int is_open;
    struct direction ways[2];
};

static struct connection connections[CONNECTIONS];
static long long delay;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static struct sockaddr_un address(const char *path) {
    struct sockaddr_un made = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof made.sun_path) {
        fprintf(stderr, "%s: too long for a socket\n", path);
        exit(1);
    }
    strcpy(made.sun_path, path);
    return made;
}

static void take(int listener, const char *target) {
    int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) return;
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un place = address(target);
    if (server < 0 || connect(server, (struct sockaddr *)&place, sizeof place) != 0) {
        if (server >= 0) close(server);
        close(client);
        return;
    }
    for (struct connection *free_one = connections; free_one < connections + CONNECTIONS; free_one++) {
        if (free_one->is_open) continue;
        *free_one = (struct connection){1, {{client, server, 0, NULL, NULL}, {server, client, 0, NULL, NULL}}};
        return;
    }
    fprintf(stderr, "relay: more than %d connections\n", CONNECTIONS);
    exit(1);
}

/* Reads the bytes that have arrived. Returns 0 if the connection is broken. */
static int receive(struct direction *way) {
    struct piece *piece = malloc(sizeof *piece + PIECE);
    if (piece == NULL) abort();
    ssize_t count = recv(way->from, piece->bytes, PIECE, MSG_DONTWAIT);
    if (count < 0) {
        free(piece);
        return errno == EAGAIN || errno == EINTR;
    }
    if (count == 0) {
        way->ended = 1;
        free(piece);
        return 1;
    }
    piece = realloc(piece, sizeof *piece + (size_t)count);
    if (piece == NULL) abort();
    piece->next = NULL;
    piece->due = now() + delay;
    piece->size = (size_t)count;
    piece->sent = 0;
    if (way->last == NULL) way->first = piece; else way->last->next = piece;
    way->last = piece;
    return 1;
}

/* Sends the bytes that are due. Returns 0 if the connection is broken or has ended. */
static int pass(struct direction *way) {
    while (way->first != NULL && way->first->due <= now()) {
        struct piece *piece = way->first;
        ssize_t count = send(way->to, piece->bytes + piece->sent, piece->size - piece->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0) return errno == EAGAIN || errno == EINTR;
        piece->sent += (size_t)count;
        if (piece->sent < piece->size) return 1;
        way->first = piece->next;
        if (way->first == NULL) way->last = NULL;
        free(piece);
    }
    /* PostgreSQL's client and server close both directions at once. */
    return way->first != NULL || !way->ended;
}

static void end(struct connection *connection) {
    for (int way = 0; way < 2; way++) {
        while (connection->ways[way].first != NULL) {
            struct piece *piece = connection->ways[way].first;
            connection->ways[way].first = piece->next;
            free(piece);
        }
        close(connection->ways[way].from);
    }
    connection->is_open = 0;
}

int main(int count, char **arguments) {
    if (count != 4) return 64;
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) return 1;
    /* By default, the kernel wakes a program up to 50 microseconds late. */
    prctl(PR_SET_TIMERSLACK, 1UL);
    delay = atoll(arguments[3]) * 1000;
    struct sockaddr_un place = address(arguments[1]);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&place, sizeof place) != 0 || listen(listener, 16) != 0)
        fail(arguments[1]);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct pollfd watched[1 + 2 * CONNECTIONS] = {{listener, POLLIN, 0}};
        struct direction *ways[1 + 2 * CONNECTIONS];
        nfds_t many = 1;
        long long next = -1, present = now();
        for (struct connection *each = connections; each < connections + CONNECTIONS; each++) {
            if (!each->is_open) continue;
            for (int number = 0; number < 2; number++) {
                struct direction *way = &each->ways[number], *other = &each->ways[1 - number];
                /* Data that is due and was not sent waits until the other end accepts it. */
                int is_full = other->first != NULL && other->first->due <= present;
                watched[many] = (struct pollfd){way->from, (short)((way->ended ? 0 : POLLIN) | (is_full ? POLLOUT : 0)), 0};
                ways[many++] = way;
                if (way->first != NULL && way->first->due > present && (next < 0 || way->first->due < next))
                    next = way->first->due;
            }
        }
        long long wait = next < 0 ? 0 : next - present;
        struct timespec time = {wait / 1000000000, wait % 1000000000};
        if (ppoll(watched, many, next < 0 ? NULL : &time, NULL) < 0 && errno != EINTR) fail("ppoll");
        for (nfds_t number = 1; number < many; number++)
            if (watched[number].revents & (POLLIN | POLLHUP | POLLERR) && !ways[number]->ended && !receive(ways[number]))
                ways[number]->ended = 1;
        for (struct connection *each = connections; each < connections + CONNECTIONS; each++)
            if (each->is_open && (!pass(&each->ways[0]) || !pass(&each->ways[1]))) end(each);
        if (watched[0].revents & POLLIN) take(listener, arguments[2]);
    }
}
