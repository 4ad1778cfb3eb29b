/* Simulates Apple's host for merchant sessions as fast as OpenSSL can. It requires a client's TLS certificate, and returns the same
 * session to every client. scripts/soaks/sessions.py measures gateways with it.
 *
 *   session-peer CERTIFICATE KEY CLIENT-AUTHORITIES close|keep
 *
 * It listens on a free port of the loopback address, prints that port, and has a thread for each connection. "close" ends a
 * connection after its answer, so that each session costs a handshake; "keep" leaves that to the client. TLS sessions are never
 * resumed. For each line of standard input it prints the number of handshakes and of answers so far. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static SSL_CTX *context;
static int closes;
static atomic_ulong handshakes, answers;

static void fail(const char *what) {
    perror(what);
    ERR_print_errors_fp(stderr);
    _exit(1);
}

/* Reads a request to its end. Returns 0 if the connection has ended. */
static int read_request(SSL *tls) {
    char text[8192];
    size_t count = 0;
    for (;;) {
        int read = SSL_read(tls, text + count, (int)(sizeof text - 1 - count));
        if (read <= 0) return 0;
        count += (size_t)read;
        text[count] = 0;
        char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\r\ncontent-length:");
        if (end == NULL) continue;
        size_t body = length != NULL && length < end ? strtoul(length + 17, NULL, 10) : 0;
        if (count >= (size_t)(end + 4 - text) + body) return 1;
    }
}

static void *serve(void *argument) {
    static const char body[] = "{\"epochTimestamp\":1,\"merchantSessionIdentifier\":\"SSH\",\"signature\":\"308006092a\"}";
    char answer[512];
    int count = snprintf(answer, sizeof answer,
                         "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n%s",
                         sizeof body - 1, closes ? "Connection: close\r\n" : "", body);
    int descriptor = (int)(long)argument;
    SSL *tls = SSL_new(context);
    if (tls != NULL && SSL_set_fd(tls, descriptor) == 1 && SSL_accept(tls) == 1) {
        handshakes++;
        while (read_request(tls)) {
            answers++;
            if (SSL_write(tls, answer, count) != count || closes) break;
        }
        SSL_shutdown(tls);
    }
    SSL_free(tls);
    close(descriptor);
    return NULL;
}

static void *report(void *unused) {
    (void)unused;
    char line[16];
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("%lu %lu\n", atomic_load(&handshakes), atomic_load(&answers));
        fflush(stdout);
    }
    _exit(0);
}

int main(int count, char **arguments) {
    if (count != 5) return 64;
    signal(SIGPIPE, SIG_IGN);
    closes = strcmp(arguments[4], "close") == 0;
    context = SSL_CTX_new(TLS_server_method());
    if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_use_certificate_chain_file(context, arguments[1]) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, arguments[2], SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_load_verify_locations(context, arguments[3], NULL) != 1)
        fail("session-peer");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);

    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 512) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        fail("listen");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);

    pthread_t thread;
    pthread_create(&thread, NULL, report, NULL);
    for (;;) {
        int descriptor = accept(listener, NULL, NULL);
        if (descriptor < 0) continue;
        if (pthread_create(&thread, NULL, serve, (void *)(long)descriptor) != 0) close(descriptor);
        else pthread_detach(thread);
    }
}
