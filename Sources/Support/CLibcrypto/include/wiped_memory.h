// Wiping of the memory that libcrypto frees.
#ifndef CLIBCRYPTO_WIPED_MEMORY_H
#define CLIBCRYPTO_WIPED_MEMORY_H

/// Makes libcrypto wipe every block of memory that it frees or moves, until the process ends. Otherwise its decoders
/// of keys and PKCS#12 bundles free some buffers without wiping them. The call must come before libcrypto's first
/// allocation. Returns 1 on success, and 0 if it came too late and changed nothing.
int clibcrypto_wipe_freed_memory(void);

#endif
