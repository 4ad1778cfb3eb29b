// The amount of work that the password of an encrypted key or bundle needs, computed before the work is done.
#ifndef PASSWORD_WORK_H
#define PASSWORD_WORK_H

#include <openssl/x509.h>
#include <stdint.h>

enum password_work_result { PASSWORD_WORK_KNOWN, PASSWORD_WORK_MALFORMED, PASSWORD_WORK_UNKNOWN };

/// Returns the number of iterations. A negative or unreadable number counts as more than any limit; a missing number
/// is one (RFC 7292 appendix C).
uint64_t password_iterations(const ASN1_INTEGER *number);

/// Computes the iterations of the password derivation of an encryption (PBES2, PBES1 or PKCS#12's). If the derivation
/// is unknown, `description` gets its name.
enum password_work_result password_work(
    const X509_ALGOR *encryption, uint64_t *iterations, char *description, size_t description_capacity);

#endif
