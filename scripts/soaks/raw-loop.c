/* Measures what the HSM alone can do: the PKCS#11 calls of one payment token in a loop, and nothing else. For a P-256 key these are
 * C_DeriveKey (ECDH), C_GetAttributeValue and C_DestroyObject; for an RSA key C_DecryptInit and C_Decrypt with CKM_RSA_X_509, as
 * the worker uses SoftHSM; for an RSA key that does not decrypt, a merchant's identity key, C_SignInit and C_Sign with
 * CKM_RSA_PKCS_PSS. scripts/soaks/raw.py runs it for comparison.
 *
 *   raw-loop MODULE LABEL PIN-FILE PUBLIC-KEY-HASH-HEX
 *
 * For each line "object|copy THREADS SECONDS" of standard input it prints a line in the format of samples.h. "object" uses the HSM
 * token's key. "copy" uses a session copy of it (CKA_TOKEN false), which the worker also uses, because it saves SoftHSM's file
 * locking. */
#include <p11-kit/pkcs11.h>

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "samples.h"

/* The generator of P-256. The HSM token takes the same time for any point on the curve. */
static CK_BYTE point[65] = {
    0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2,
    0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f,
    0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce,
    0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5};

static CK_FUNCTION_LIST_PTR hsm;
static CK_SLOT_ID slot;
static CK_OBJECT_HANDLE key;
static CK_KEY_TYPE key_type;
static CK_BBOOL decrypts = CK_TRUE;
/* The modulus of an RSA key, and a value of the same length below it. The operation's time does not depend on the value. */
static CK_ULONG modulus_size;
static CK_BYTE block[1024];
static double until;

static void check(CK_RV value, const char *call) {
    if (value == CKR_OK) return;
    fprintf(stderr, "raw-loop: %s: 0x%lx\n", call, value);
    _exit(1);
}

static CK_SESSION_HANDLE open_session(void) {
    CK_SESSION_HANDLE session;
    check(hsm->C_OpenSession(slot, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, &session), "C_OpenSession");
    return session;
}

static void derive(CK_SESSION_HANDLE session) {
    CK_ECDH1_DERIVE_PARAMS parameters = {CKD_NULL, 0, NULL, sizeof point, point};
    CK_MECHANISM mechanism = {CKM_ECDH1_DERIVE, &parameters, sizeof parameters};
    CK_OBJECT_CLASS class = CKO_SECRET_KEY;
    CK_KEY_TYPE type = CKK_GENERIC_SECRET;
    CK_BBOOL yes = CK_TRUE, no = CK_FALSE;
    CK_BYTE secret[32];
    CK_ATTRIBUTE template[] = {
        {CKA_CLASS, &class, sizeof class},   {CKA_KEY_TYPE, &type, sizeof type},     {CKA_TOKEN, &no, sizeof no},
        {CKA_SENSITIVE, &no, sizeof no},     {CKA_EXTRACTABLE, &yes, sizeof yes}};
    CK_OBJECT_HANDLE derived;
    CK_ATTRIBUTE value = {CKA_VALUE, secret, sizeof secret};
    check(hsm->C_DeriveKey(session, &mechanism, key, template, 5, &derived), "C_DeriveKey");
    check(hsm->C_GetAttributeValue(session, derived, &value, 1), "C_GetAttributeValue");
    check(hsm->C_DestroyObject(session, derived), "C_DestroyObject");
}

static void decrypt(CK_SESSION_HANDLE session) {
    CK_MECHANISM mechanism = {CKM_RSA_X_509, NULL, 0};
    CK_BYTE opened[sizeof block];
    CK_ULONG count = sizeof opened;
    check(hsm->C_DecryptInit(session, &mechanism, key), "C_DecryptInit");
    check(hsm->C_Decrypt(session, block, modulus_size, opened, &count), "C_Decrypt");
}

/* Signs once. Digest and salt have the length of SHA-256, as in TLS (RFC 8446 §4.2.3). */
static void sign(CK_SESSION_HANDLE session) {
    CK_RSA_PKCS_PSS_PARAMS parameters = {CKM_SHA256, CKG_MGF1_SHA256, 32};
    CK_MECHANISM mechanism = {CKM_RSA_PKCS_PSS, &parameters, sizeof parameters};
    CK_BYTE signature[sizeof block];
    CK_ULONG count = sizeof signature;
    check(hsm->C_SignInit(session, &mechanism, key), "C_SignInit");
    check(hsm->C_Sign(session, block, 32, signature, &count), "C_Sign");
}

static void *work(void *samples) {
    CK_SESSION_HANDLE session = open_session();
    double before = now();
    while (before < until) {
        if (key_type != CKK_RSA) derive(session);
        else if (decrypts) decrypt(session);
        else sign(session);
        double after = now();
        sample(samples, after - before);
        before = after;
    }
    check(hsm->C_CloseSession(session), "C_CloseSession");
    return NULL;
}

static void measure(int threads, double seconds) {
    pthread_t running[64];
    struct samples each[64] = {0}, all = {0};
    double began = now(), spent = processor_time();
    until = began + seconds;
    for (int i = 0; i < threads; i++) pthread_create(&running[i], NULL, work, &each[i]);
    for (int i = 0; i < threads; i++) pthread_join(running[i], NULL);
    double took = now() - began, used = processor_time() - spent;
    for (int i = 0; i < threads; i++) merge(&all, &each[i]);
    report(&all, took, used);
}

static int has_label(CK_SLOT_ID candidate, const char *label) {
    CK_TOKEN_INFO info;
    char padded[sizeof info.label];
    memset(padded, ' ', sizeof padded);
    memcpy(padded, label, strnlen(label, sizeof padded));
    return hsm->C_GetTokenInfo(candidate, &info) == CKR_OK && memcmp(info.label, padded, sizeof padded) == 0;
}

int main(int count, char **arguments) {
    if (count != 5) return 64;
    void *library = dlopen(arguments[1], RTLD_NOW);
    CK_C_GetFunctionList list = library ? (CK_C_GetFunctionList)dlsym(library, "C_GetFunctionList") : NULL;
    if (list == NULL) return 69;
    check(list(&hsm), "C_GetFunctionList");
    CK_C_INITIALIZE_ARGS initialize = {.flags = CKF_OS_LOCKING_OK};
    check(hsm->C_Initialize(&initialize), "C_Initialize");

    CK_SLOT_ID slots[64];
    CK_ULONG number = 64, found = 0;
    check(hsm->C_GetSlotList(CK_TRUE, slots, &number), "C_GetSlotList");
    while (found < number && !has_label(slots[found], arguments[2])) found++;
    if (found == number) return 69;
    slot = slots[found];

    char pin[256] = "";
    FILE *file = fopen(arguments[3], "r");
    if (file == NULL) return 66;
    char *line = fgets(pin, sizeof pin, file);
    fclose(file);
    if (line == NULL) return 66;
    pin[strcspn(pin, "\n")] = 0;
    CK_SESSION_HANDLE session = open_session();
    check(hsm->C_Login(session, CKU_USER, (CK_UTF8CHAR_PTR)pin, strlen(pin)), "C_Login");

    CK_BYTE identifier[32];
    for (int i = 0; i < 32; i++) sscanf(arguments[4] + 2 * i, "%2hhx", &identifier[i]);
    CK_OBJECT_CLASS class = CKO_PRIVATE_KEY;
    CK_ATTRIBUTE wanted[] = {{CKA_CLASS, &class, sizeof class}, {CKA_ID, identifier, sizeof identifier}};
    check(hsm->C_FindObjectsInit(session, wanted, 2), "C_FindObjectsInit");
    check(hsm->C_FindObjects(session, &key, 1, &number), "C_FindObjects");
    check(hsm->C_FindObjectsFinal(session), "C_FindObjectsFinal");
    if (number != 1) return 66;

    CK_ATTRIBUTE type = {CKA_KEY_TYPE, &key_type, sizeof key_type};
    check(hsm->C_GetAttributeValue(session, key, &type, 1), "C_GetAttributeValue");
    if (key_type == CKK_RSA) {
        CK_ATTRIBUTE modulus = {CKA_MODULUS, NULL, 0};
        CK_ATTRIBUTE right = {CKA_DECRYPT, &decrypts, sizeof decrypts};
        check(hsm->C_GetAttributeValue(session, key, &modulus, 1), "C_GetAttributeValue");
        check(hsm->C_GetAttributeValue(session, key, &right, 1), "C_GetAttributeValue");
        if (modulus.ulValueLen > sizeof block) return 66;
        modulus_size = modulus.ulValueLen;
        memset(block + 1, 0x5a, modulus_size - 1);
    }
    CK_OBJECT_HANDLE object = key, copy = 0;

    char kind[8];
    int threads;
    double seconds;
    while (scanf("%7s %d %lf", kind, &threads, &seconds) == 3) {
        if (threads < 1 || threads > 64) return 64;
        key = object;
        if (strcmp(kind, "copy") == 0) {
            CK_BBOOL no = CK_FALSE;
            CK_ATTRIBUTE change = {CKA_TOKEN, &no, sizeof no};
            if (copy == 0) check(hsm->C_CopyObject(session, object, &change, 1, &copy), "C_CopyObject");
            key = copy;
        } else if (strcmp(kind, "object") != 0) {
            return 64;
        }
        measure(threads, seconds);
    }
    _exit(0); /* SoftHSM's destructors may crash. */
}
