// libpq, PostgreSQL's own client library. pkg-config says where Debian keeps its header.
#ifndef CLIBPQ_SHIM_H
#define CLIBPQ_SHIM_H

#include <libpq-fe.h>

// Character constants, which Swift does not import.
enum {
    clibpq_field_sqlstate = PG_DIAG_SQLSTATE,
    clibpq_field_severity = PG_DIAG_SEVERITY_NONLOCALIZED,
};

#endif
