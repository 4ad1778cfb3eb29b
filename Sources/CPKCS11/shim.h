// p11-kit's PKCS#11 header with the standard's own names (CRYPTOKI_GNU stays undefined).
#include <p11-kit/pkcs11.h>
