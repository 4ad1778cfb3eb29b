/* What the HSM alone can do: C_DeriveKey (ECDH), C_GetAttributeValue and C_DestroyObject in a loop, the operations of
 * one EC_v1 token, with nothing around them. `scripts/soak throughput` compiles and runs it for comparison.
 *
 *   raw-loop MODULE LABEL PIN-FILE PUBLIC-KEY-HASH-HEX THREADS SECONDS
 *
 * Prints two rates a second: with the token's key, and with a session copy of it (CKA_TOKEN false), which spares
 * SoftHSM its file locking; then the processor time of one operation of each, in microseconds. */
#include <p11-kit/pkcs11.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/resource.h>
#include <unistd.h>

/* P-256's generator: any point on the curve costs the token the same. */
static CK_BYTE point[65] = {
    0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2,
    0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f,
    0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce,
    0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5};

static CK_FUNCTION_LIST_PTR hsm;
static CK_SLOT_ID slot;
static CK_OBJECT_HANDLE key;
static double until;

static void check(CK_RV value, const char *call) {
    if (value == CKR_OK) return;
    fprintf(stderr, "raw-loop: %s: 0x%lx\n", call, value);
    _exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static CK_SESSION_HANDLE open_session(void) {
    CK_SESSION_HANDLE session;
    check(hsm->C_OpenSession(slot, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, &session), "C_OpenSession");
    return session;
}

static void *work(void *count) {
    CK_SESSION_HANDLE session = open_session();
    CK_ECDH1_DERIVE_PARAMS parameters = {CKD_NULL, 0, NULL, sizeof point, point};
    CK_MECHANISM mechanism = {CKM_ECDH1_DERIVE, &parameters, sizeof parameters};
    CK_OBJECT_CLASS class = CKO_SECRET_KEY;
    CK_KEY_TYPE type = CKK_GENERIC_SECRET;
    CK_BBOOL yes = CK_TRUE, no = CK_FALSE;
    CK_BYTE secret[32];
    CK_ATTRIBUTE template[] = {
        {CKA_CLASS, &class, sizeof class},   {CKA_KEY_TYPE, &type, sizeof type},     {CKA_TOKEN, &no, sizeof no},
        {CKA_SENSITIVE, &no, sizeof no},     {CKA_EXTRACTABLE, &yes, sizeof yes}};
    while (now() < until) {
        CK_OBJECT_HANDLE derived;
        CK_ATTRIBUTE value = {CKA_VALUE, secret, sizeof secret};
        check(hsm->C_DeriveKey(session, &mechanism, key, template, 5, &derived), "C_DeriveKey");
        check(hsm->C_GetAttributeValue(session, derived, &value, 1), "C_GetAttributeValue");
        check(hsm->C_DestroyObject(session, derived), "C_DestroyObject");
        *(unsigned long *)count += 1;
    }
    return NULL;
}

static double processor_time(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* Operations a second; `each` gets the processor time of one in microseconds. */
static double rate(int threads, double seconds, double *each) {
    pthread_t running[64];
    unsigned long counts[64][8] = {0}; /* a cache line each */
    unsigned long sum = 0;
    double began = now(), spent = processor_time();
    until = began + seconds;
    for (int i = 0; i < threads; i++) pthread_create(&running[i], NULL, work, counts[i]);
    for (int i = 0; i < threads; i++) {
        pthread_join(running[i], NULL);
        sum += counts[i][0];
    }
    *each = sum == 0 ? 0 : (processor_time() - spent) * 1e6 / (double)sum;
    return (double)sum / (now() - began);
}

static int has_label(CK_SLOT_ID candidate, const char *label) {
    CK_TOKEN_INFO info;
    char padded[sizeof info.label];
    memset(padded, ' ', sizeof padded);
    memcpy(padded, label, strnlen(label, sizeof padded));
    return hsm->C_GetTokenInfo(candidate, &info) == CKR_OK && memcmp(info.label, padded, sizeof padded) == 0;
}

int main(int count, char **arguments) {
    if (count != 7) return 64;
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
    if (file == NULL || fgets(pin, sizeof pin, file) == NULL) return 66;
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

    int threads = atoi(arguments[5]);
    if (threads < 1 || threads > 64) return 64;
    double each[2];
    double first = rate(threads, atof(arguments[6]), &each[0]);
    CK_BBOOL no = CK_FALSE;
    CK_ATTRIBUTE change = {CKA_TOKEN, &no, sizeof no};
    check(hsm->C_CopyObject(session, key, &change, 1, &key), "C_CopyObject");
    double second = rate(threads, atof(arguments[6]), &each[1]);
    printf("%.0f %.0f %.2f %.2f\n", first, second, each[0], each[1]);
    fflush(stdout);
    _exit(0); /* SoftHSM's destructors are not to be relied on. */
}
