/* Measures the operations that every release needs, each by itself on one thread.
 *
 *   primitives verify SECONDS                 libcrypto's ECDSA verification on P-256 of a SHA-256 digest
 *   primitives sync SECONDS DIRECTORY         4 KiB appended to a file there, and fdatasync(2)
 *   primitives round-trip SECONDS SERVER      the smallest query of a PostgreSQL server, and its answer
 *   primitives commit SECONDS SERVER          one row inserted in a transaction of its own, and its answer
 *
 * SERVER is a URL of a database with a table `primitive (row bytea)`. Prints a line in the format of samples.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <libpq-fe.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <unistd.h>

#include "samples.h"

static EVP_PKEY_CTX *verifying;
static unsigned char signature[80], digest[32];
static size_t signature_size = sizeof signature;
static int file, commits;
static PGconn *connection;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void prepare_verification(void) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    EVP_PKEY_CTX *signing = key ? EVP_PKEY_CTX_new(key, NULL) : NULL;
    memset(digest, 0x5a, sizeof digest);
    if (signing == NULL || EVP_PKEY_sign_init(signing) != 1 ||
        EVP_PKEY_sign(signing, signature, &signature_size, digest, sizeof digest) != 1)
        fail("EVP_PKEY_sign");
    verifying = EVP_PKEY_CTX_new(key, NULL);
    if (verifying == NULL || EVP_PKEY_verify_init(verifying) != 1) fail("EVP_PKEY_verify_init");
}

static void verify(void) {
    if (EVP_PKEY_verify(verifying, signature, signature_size, digest, sizeof digest) != 1) fail("EVP_PKEY_verify");
}

/* Opens an unnamed file, which the kernel removes when the process ends. */
static void prepare_file(const char *directory) {
    file = open(directory, O_TMPFILE | O_WRONLY | O_APPEND, 0600);
    if (file < 0) fail(directory);
}

static void append(void) {
    static char page[4096];
    if (write(file, page, sizeof page) != (ssize_t)sizeof page || fdatasync(file) != 0) fail("fdatasync");
}

static void check(int succeeded) {
    if (succeeded) return;
    fputs(PQerrorMessage(connection), stderr);
    exit(1);
}

static void prepare_statement(const char *server) {
    connection = PQconnectdb(server);
    check(PQstatus(connection) == CONNECTION_OK);
    const char *sql = commits ? "INSERT INTO primitive VALUES (decode(repeat('5a', 500), 'hex'))" : "SELECT";
    check(PQresultStatus(PQprepare(connection, "statement", sql, 0, NULL)) == PGRES_COMMAND_OK);
}

static void execute(void) {
    PGresult *result = PQexecPrepared(connection, "statement", 0, NULL, NULL, NULL, 1);
    check(PQresultStatus(result) == (commits ? PGRES_COMMAND_OK : PGRES_TUPLES_OK));
    PQclear(result);
}

int main(int count, char **arguments) {
    if (count < 3) return 64;
    void (*operation)(void) = NULL;
    commits = strcmp(arguments[1], "commit") == 0;
    if (strcmp(arguments[1], "verify") == 0) {
        prepare_verification();
        operation = verify;
    } else if (strcmp(arguments[1], "sync") == 0 && count == 4) {
        prepare_file(arguments[3]);
        operation = append;
    } else if ((commits || strcmp(arguments[1], "round-trip") == 0) && count == 4) {
        prepare_statement(arguments[3]);
        operation = execute;
    } else {
        return 64;
    }
    repeat(operation, atof(arguments[2]));
    return 0;
}
