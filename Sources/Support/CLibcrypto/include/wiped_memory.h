// Memory that libcrypto frees is wiped first.
#ifndef CLIBCRYPTO_WIPED_MEMORY_H
#define CLIBCRYPTO_WIPED_MEMORY_H

/// Makes libcrypto wipe every block of memory that it frees or moves, for the process's life: its decoders of keys and
/// PKCS#12 bundles free some buffers without wiping them. Works only before libcrypto's first allocation; returns 1 when
/// it does, and 0 when it came too late and nothing was changed.
int clibcrypto_wipe_freed_memory(void);

#endif
