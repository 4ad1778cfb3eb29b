// The few libcrypto calls that swift-crypto lacks, or makes without wiping their memory. OpenSSL's types stay inside
// libcrypto.c, and callers see only bytes and lengths. Every function returns 1 or 0 (or a length), and leaves
// OpenSSL's error queue empty.
#ifndef CLIBCRYPTO_H
#define CLIBCRYPTO_H

#include "pkcs12.h"
#include "private_key.h"
#include "wiped_memory.h"

#include <stddef.h>

/// Decodes EME-OAEP (RFC 8017 §7.1.2 step 3) in constant time, with SHA-256 as hash and in MGF1, and the empty label.
/// `block` is the raw RSA result with its leading zeros; `block_count` must equal the modulus's size in bytes.
/// `message` has space for `message_capacity` bytes. Returns the message's length, or -1 for every fault alike.
int clibcrypto_oaep_sha256_decode(
    const unsigned char *block, size_t block_count, unsigned char *message, size_t message_capacity);

/// Computes SHA-256 over three pieces in order; `digest` gets 32 bytes. The hash's internal state is wiped when it is
/// freed, which swift-crypto does not guarantee.
int clibcrypto_sha256(
    const unsigned char *first, size_t first_count, const unsigned char *second, size_t second_count,
    const unsigned char *third, size_t third_count, unsigned char *digest);

/// Decrypts AES-GCM (SP 800-38D §7.2) with a key of 16 or 32 bytes, a 16-byte tag and no associated data. `plaintext`
/// has space for `ciphertext_count` bytes; it is wiped if the tag is wrong. The key schedule is wiped when it is
/// freed, unlike in swift-crypto.
int clibcrypto_aes_gcm_open(
    const unsigned char *key, size_t key_count, const unsigned char *iv, size_t iv_count,
    const unsigned char *ciphertext, size_t ciphertext_count, const unsigned char *tag, unsigned char *plaintext);

/// Computes HMAC-SHA256 (RFC 2104); `tag` gets 32 bytes. The key's copies are wiped when they are freed.
int clibcrypto_hmac_sha256(
    const unsigned char *key, size_t key_count, const unsigned char *data, size_t data_count, unsigned char *tag);

/// Returns 1 if both have the same bytes. The time depends on `count` alone.
int clibcrypto_equal(const unsigned char *first, const unsigned char *second, size_t count);

/// Encrypts or decrypts AES-256-CTR (SP 800-38A §6.5) with a key of 32 bytes and a first counter block of 16. `output`
/// has space for `input_count` bytes. The key schedule is wiped when it is freed.
int clibcrypto_aes_256_ctr(
    const unsigned char *key, const unsigned char *counter_block, const unsigned char *input, size_t input_count,
    unsigned char *output);

#endif
