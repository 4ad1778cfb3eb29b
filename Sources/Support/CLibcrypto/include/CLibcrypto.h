// The few libcrypto calls that swift-crypto lacks, or does without wiping what it leaves behind. OpenSSL's types stay
// inside libcrypto.c: callers see bytes and lengths only. Every function returns 1 or 0 (or a length) and leaves
// nothing in OpenSSL's error queue.
#ifndef CLIBCRYPTO_H
#define CLIBCRYPTO_H

#include "pkcs12.h"
#include "private_key.h"
#include "wiped_memory.h"

#include <stddef.h>

/// EME-OAEP decoding (RFC 8017 §7.1.2 step 3) with SHA-256 as hash and in MGF1 and the empty label, in constant time.
/// `block` is the raw RSA result with its leading zeros, exactly `block_count` = the modulus's size in bytes.
/// `message` has room for `message_capacity` bytes. Returns the message's length, or -1 for every defect alike.
int clibcrypto_oaep_sha256_decode(
    const unsigned char *block, size_t block_count, unsigned char *message, size_t message_capacity);

/// SHA-256 over three pieces in order, 32 bytes to `digest`. The hash's inner state is wiped when it is freed, which
/// swift-crypto does not promise.
int clibcrypto_sha256(
    const unsigned char *first, size_t first_count, const unsigned char *second, size_t second_count,
    const unsigned char *third, size_t third_count, unsigned char *digest);

/// AES-GCM decryption (SP 800-38D §7.2) with a key of 16 or 32 bytes, a 16-byte tag and no associated data.
/// `plaintext` has room for `ciphertext_count` bytes; it is wiped when the tag is wrong. The key schedule is wiped when
/// it is freed, which swift-crypto does not do.
int clibcrypto_aes_gcm_open(
    const unsigned char *key, size_t key_count, const unsigned char *iv, size_t iv_count,
    const unsigned char *ciphertext, size_t ciphertext_count, const unsigned char *tag, unsigned char *plaintext);

#endif
