/* What a ledger on a PostgreSQL server cannot do without, each by itself on one connection.
 *
 *   server round-trip SECONDS CONNECTION      the least that can be asked, and its answer
 *   server commit SECONDS CONNECTION          one row inserted in a transaction of its own, and its answer
 *
 * CONNECTION is a URL of a database with a table `primitive (row bytea)`. Prints a line as samples.h says. */
#include <libpq-fe.h>

#include "samples.h"

static PGconn *connection;

static int commits;

static void check(PGresult *result, ExecStatusType wanted) {
    if (PQresultStatus(result) != wanted) {
        fputs(PQerrorMessage(connection), stderr);
        exit(1);
    }
    PQclear(result);
}

static void execute(void) {
    check(PQexecPrepared(connection, "statement", 0, NULL, NULL, NULL, 1), commits ? PGRES_COMMAND_OK : PGRES_TUPLES_OK);
}

int main(int count, char **arguments) {
    if (count != 4) return 64;
    commits = strcmp(arguments[1], "commit") == 0;
    if (!commits && strcmp(arguments[1], "round-trip") != 0) return 64;
    connection = PQconnectdb(arguments[3]);
    if (PQstatus(connection) != CONNECTION_OK) {
        fputs(PQerrorMessage(connection), stderr);
        return 1;
    }
    const char *sql = commits ? "INSERT INTO primitive VALUES (decode(repeat('5a', 500), 'hex'))" : "SELECT";
    check(PQprepare(connection, "statement", sql, 0, NULL), PGRES_COMMAND_OK);
    repeat(execute, atof(arguments[2]));
    PQfinish(connection);
    return 0;
}
