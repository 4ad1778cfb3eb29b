// OpenSSL 3.0 deprecated RSA_padding_check_PKCS1_OAEP_mgf1 in favour of whole RSA decryptions. These cannot be used
// here, because the RSA operation takes place in the HSM token.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "CLibcrypto.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>

int clibcrypto_oaep_sha256_decode(
    const unsigned char *block, size_t block_count, unsigned char *message, size_t message_capacity) {
    if (block_count > INT_MAX || message_capacity > INT_MAX) {
        return -1;
    }
    // `flen` = `num` = the modulus's size: the block has all its leading zeros. OpenSSL's right-alignment, the only
    // step that depends on the length, is therefore always the same. The first byte is checked with the rest of the
    // padding.
    int count = RSA_padding_check_PKCS1_OAEP_mgf1(
        message, (int)message_capacity, block, (int)block_count, (int)block_count, NULL, 0, EVP_sha256(),
        EVP_sha256());
    ERR_clear_error();
    return count;
}

int clibcrypto_sha256(
    const unsigned char *first, size_t first_count, const unsigned char *second, size_t second_count,
    const unsigned char *third, size_t third_count, unsigned char *digest) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int done = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1
        && EVP_DigestUpdate(context, first, first_count) == 1 && EVP_DigestUpdate(context, second, second_count) == 1
        && EVP_DigestUpdate(context, third, third_count) == 1 && EVP_DigestFinal_ex(context, digest, NULL) == 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return done;
}

int clibcrypto_aes_gcm_open(
    const unsigned char *key, size_t key_count, const unsigned char *iv, size_t iv_count,
    const unsigned char *ciphertext, size_t ciphertext_count, const unsigned char *tag, unsigned char *plaintext) {
    const EVP_CIPHER *cipher = key_count == 16 ? EVP_aes_128_gcm() : key_count == 32 ? EVP_aes_256_gcm() : NULL;
    if (cipher == NULL || iv_count == 0 || iv_count > 16 || ciphertext_count > INT_MAX) {
        return 0;
    }
    int written = 0;
    unsigned char rest[16];
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int opened = context != NULL && EVP_DecryptInit_ex(context, cipher, NULL, NULL, NULL) == 1
        && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, (int)iv_count, NULL) == 1
        && EVP_DecryptInit_ex(context, NULL, NULL, key, iv) == 1
        && (ciphertext_count == 0
            || EVP_DecryptUpdate(context, plaintext, &written, ciphertext, (int)ciphertext_count) == 1)
        && written == (int)ciphertext_count
        && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, (void *)tag) == 1
        && EVP_DecryptFinal_ex(context, rest, &written) == 1;
    EVP_CIPHER_CTX_free(context);
    ERR_clear_error();
    if (!opened) {
        OPENSSL_cleanse(plaintext, ciphertext_count);
    }
    return opened;
}

int clibcrypto_hmac_sha256(
    const unsigned char *key, size_t key_count, const unsigned char *data, size_t data_count, unsigned char *tag) {
    unsigned int written = 0;
    int done = key_count <= INT_MAX && HMAC(EVP_sha256(), key, (int)key_count, data, data_count, tag, &written) != NULL
        && written == 32;
    ERR_clear_error();
    return done;
}

int clibcrypto_equal(const unsigned char *first, const unsigned char *second, size_t count) {
    return CRYPTO_memcmp(first, second, count) == 0;
}

int clibcrypto_aes_256_ctr(
    const unsigned char *key, const unsigned char *counter_block, const unsigned char *input, size_t input_count,
    unsigned char *output) {
    if (input_count > INT_MAX) {
        return 0;
    }
    int written = 0;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int done = context != NULL && EVP_DecryptInit_ex(context, EVP_aes_256_ctr(), NULL, key, counter_block) == 1
        && (input_count == 0 || EVP_DecryptUpdate(context, output, &written, input, (int)input_count) == 1)
        && written == (int)input_count;
    EVP_CIPHER_CTX_free(context);
    ERR_clear_error();
    if (!done) {
        OPENSSL_cleanse(output, input_count);
    }
    return done;
}
