#include "wiped_memory.h"

#include <malloc.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

static void *lend(size_t count, const char *file, int line) {
    (void)file, (void)line;
    return malloc(count);
}

static void wipe_and_free(void *block, const char *file, int line) {
    (void)file, (void)line;
    if (block == NULL) return;
    explicit_bzero(block, malloc_usable_size(block));
    free(block);
}

/// Allocates a new block, never in place: realloc may move the block and leave its content in the old memory.
static void *move(void *block, size_t count, const char *file, int line) {
    if (block == NULL) return malloc(count);
    if (count == 0) {
        wipe_and_free(block, file, line);
        return NULL;
    }
    void *moved = malloc(count);
    if (moved == NULL) return NULL;
    size_t held = malloc_usable_size(block);
    memcpy(moved, block, held < count ? held : count);
    wipe_and_free(block, file, line);
    return moved;
}

int clibcrypto_wipe_freed_memory(void) { return CRYPTO_set_mem_functions(lend, move, wipe_and_free); }
