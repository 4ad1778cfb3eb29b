// Imports libpq, PostgreSQL's client library. pkg-config supplies the path of its header.
#ifndef CLIBPQ_SHIM_H
#define CLIBPQ_SHIM_H

#include <libpq-fe.h>

// Swift does not import these macros, because their values are character constants.
enum {
    clibpq_field_sqlstate = PG_DIAG_SQLSTATE,
    clibpq_field_severity = PG_DIAG_SEVERITY_NONLOCALIZED,
};

#endif
