#include "ForgottenIdentifiers.h"
#include "RealModule.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LONGEST_IDENTIFIER 64
#define MOST_OBJECTS 64

/// Reads an object's CKA_ID, and writes the path of the file that notes it: the script's path and the CKA_ID in
/// hexadecimal. The file has the number of the process.
static bool read_identifier(
    CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object, CK_BYTE identifier[LONGEST_IDENTIFIER], CK_ULONG *size,
    char path[4400]) {
    CK_ATTRIBUTE attribute = {CKA_ID, identifier, LONGEST_IDENTIFIER};
    if (real_module()->C_GetAttributeValue(session, object, &attribute, 1) != CKR_OK || attribute.ulValueLen == 0) {
        return false;
    }
    *size = attribute.ulValueLen;
    int end = snprintf(path, 4200, "%s.forgets-", getenv("SCRIPTED_PKCS11"));
    for (CK_ULONG index = 0; index < *size; index++) {
        end += snprintf(path + end, 3, "%02x", identifier[index]);
    }
    return true;
}

void note_identifier(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object) {
    CK_BYTE identifier[LONGEST_IDENTIFIER];
    CK_ULONG size;
    char path[4400];
    FILE *file = read_identifier(session, object, identifier, &size, path) ? fopen(path, "we") : NULL;
    if (file != NULL) {
        fprintf(file, "%d", (int)getpid());
        fclose(file);
    }
}

void keep_identifier(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object) {
    CK_BYTE identifier[LONGEST_IDENTIFIER];
    CK_ULONG size;
    char path[4400];
    if (read_identifier(session, object, identifier, &size, path)) {
        unlink(path);
    }
}

/// Returns true if another process has noted the CKA_ID.
static bool was_noted(const char *path) {
    FILE *file = fopen(path, "re");
    int process = 0;
    bool is_noted = file != NULL && fscanf(file, "%d", &process) == 1 && process != (int)getpid();
    if (file != NULL) {
        fclose(file);
    }
    return is_noted;
}

void forget_identifiers(CK_SESSION_HANDLE session) {
    CK_FUNCTION_LIST *real = real_module();
    CK_SESSION_INFO info;
    CK_SESSION_HANDLE own;
    // The session of the login may be read-only.
    if (real->C_GetSessionInfo(session, &info) != CKR_OK
        || real->C_OpenSession(info.slotID, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, &own) != CKR_OK) {
        return;
    }
    CK_OBJECT_CLASS class = CKO_PUBLIC_KEY;
    CK_BBOOL is_token = CK_TRUE;
    CK_ATTRIBUTE search[] = {{CKA_CLASS, &class, sizeof class}, {CKA_TOKEN, &is_token, sizeof is_token}};
    CK_OBJECT_HANDLE objects[MOST_OBJECTS];
    CK_ULONG count = 0;
    if (real->C_FindObjectsInit(own, search, 2) == CKR_OK) {
        real->C_FindObjects(own, objects, MOST_OBJECTS, &count);
        real->C_FindObjectsFinal(own);
    }
    for (CK_ULONG index = 0; index < count; index++) {
        CK_BYTE identifier[LONGEST_IDENTIFIER];
        CK_ULONG size;
        char path[4400];
        if (read_identifier(own, objects[index], identifier, &size, path) && was_noted(path)) {
            CK_ATTRIBUTE shorter = {CKA_ID, identifier, size - 1};
            real->C_SetAttributeValue(own, objects[index], &shorter, 1);
            unlink(path);
        }
    }
    real->C_CloseSession(own);
}
