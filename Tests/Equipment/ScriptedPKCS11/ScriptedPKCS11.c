// The functions that obey the script. All other functions are those of the real module.
#define _GNU_SOURCE
#include "ScriptedPKCS11.h"

#include "ForgottenIdentifiers.h"
#include "OneStepKDF.h"
#include "RealModule.h"
#include "Script.h"
#include "TwoHandles.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CKD_ONE_STEP_SHA256 0x00000010UL  // CKD_SHA256_KDF_SP800, PKCS#11 v3.0
#define SESSIONS 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CK_FUNCTION_LIST *real;
static CK_FUNCTION_LIST own;
static CK_SESSION_HANDLE sessions[SESSIONS];
static unsigned long session_count;

CK_FUNCTION_LIST *real_module(void) {
    pthread_mutex_lock(&lock);
    if (real == NULL) {
        void *library = dlopen(script_module(), RTLD_NOW | RTLD_LOCAL);
        CK_C_GetFunctionList get =
            library == NULL ? NULL : (CK_C_GetFunctionList)dlsym(library, "C_GetFunctionList");
        if (get == NULL || get(&real) != CKR_OK) {
            fprintf(stderr, "scripted PKCS#11 module: cannot load %s\n", script_module());
            abort();
        }
        if (script_setting(SCRIPT_TWO_HANDLES) != 0) {
            real = taking_two_handles(real);
        }
    }
    pthread_mutex_unlock(&lock);
    return real;
}

CK_SESSION_HANDLE any_session(void) {
    pthread_mutex_lock(&lock);
    CK_SESSION_HANDLE session = session_count == 0 ? 0 : sessions[0];
    pthread_mutex_unlock(&lock);
    return session;
}

static void add_session(CK_SESSION_HANDLE session) {
    pthread_mutex_lock(&lock);
    if (session_count < SESSIONS) {
        sessions[session_count++] = session;
    }
    pthread_mutex_unlock(&lock);
}

static void remove_session(CK_SESSION_HANDLE session) {
    pthread_mutex_lock(&lock);
    for (unsigned long index = 0; index < session_count; index++) {
        if (sessions[index] == session) {
            sessions[index] = sessions[--session_count];
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

static void remove_all_sessions(void) {
    pthread_mutex_lock(&lock);
    session_count = 0;
    pthread_mutex_unlock(&lock);
}

static bool session_limit_reached(void) {
    unsigned long limit = script_setting(SCRIPT_SESSION_LIMIT);
    pthread_mutex_lock(&lock);
    bool reached = limit != 0 && session_count >= limit;
    pthread_mutex_unlock(&lock);
    return reached;
}

static CK_SLOT_ID real_slot(CK_SLOT_ID slot) { return slot - script_setting(SCRIPT_SLOT_OFFSET); }

/// Logs out or closes all sessions if the script requires it before this call.
static void apply_session_faults(struct script_verdict verdict) {
    CK_SESSION_HANDLE session = any_session();
    if (session != 0 && verdict.logs_out) {
        real_module()->C_Logout(session);
    }
    CK_SESSION_INFO info;
    if (session != 0 && verdict.closes_sessions && real_module()->C_GetSessionInfo(session, &info) == CKR_OK) {
        real_module()->C_CloseAllSessions(info.slotID);
        remove_all_sessions();
    }
}

// Makes a call as the script requires. `result` is the value of `forwarded`, or the script's value instead.
#define SCRIPTED(name, forwarded)                                                                                      \
    struct script_verdict verdict = script_apply(name);                                                                \
    apply_session_faults(verdict);                                                                                                  \
    CK_RV result = verdict.replaces_call ? verdict.value : script_error(name, (forwarded));                            \
    if (verdict.replaces_answer) {                                                                                     \
        result = verdict.value;                                                                                        \
    }                                                                                                                  \
    script_log(name, result)

#define FORWARD(name, parameters, arguments)                                                                           \
    static CK_RV name##_scripted parameters {                                                                          \
        SCRIPTED(#name, real_module()->name arguments);                                                                \
        return result;                                                                                                 \
    }

#define SESSION CK_SESSION_HANDLE session
#define TEMPLATE CK_ATTRIBUTE *template, CK_ULONG count
#define MOST_ATTRIBUTES 32
#define BYTES(name) CK_BYTE *name, CK_ULONG name##_count
#define ROOM(name) CK_BYTE *name, CK_ULONG *name##_count

FORWARD(C_GetInfo, (CK_INFO * info), (info))
FORWARD(C_GetSlotInfo, (CK_SLOT_ID slot, CK_SLOT_INFO *info), (real_slot(slot), info))
FORWARD(
    C_GetMechanismList, (CK_SLOT_ID slot, CK_MECHANISM_TYPE *list, CK_ULONG *count), (real_slot(slot), list, count))
FORWARD(
    C_GetMechanismInfo, (CK_SLOT_ID slot, CK_MECHANISM_TYPE type, CK_MECHANISM_INFO *info),
    (real_slot(slot), type, info))
FORWARD(C_InitToken, (CK_SLOT_ID slot, BYTES(pin), CK_BYTE *label), (real_slot(slot), pin, pin_count, label))
FORWARD(C_InitPIN, (SESSION, BYTES(pin)), (session, pin, pin_count))

static CK_RV C_Login_scripted(SESSION, CK_USER_TYPE user, BYTES(pin)) {
    SCRIPTED("C_Login", real_module()->C_Login(session, user, pin, pin_count));
    if (result == CKR_OK && script_setting(SCRIPT_FORGET_IDENTIFIERS) != 0) {
        forget_identifiers(session);
    }
    return result;
}

FORWARD(C_Logout, (SESSION), (session))

/// Returns true if the script makes `function` refuse one of the template's attributes.
static bool refuses_template(const char *function, const CK_ATTRIBUTE *template, CK_ULONG count) {
    for (CK_ULONG index = 0; index < count; index++) {
        if (script_refuses(function, template[index].type)) {
            return true;
        }
    }
    return false;
}

/// Returns `template`, or a copy in `shortened` if `identifier-limit` shortens its CKA_ID.
static CK_ATTRIBUTE *shorten_identifier(
    CK_ATTRIBUTE *template, CK_ULONG count, CK_ATTRIBUTE shortened[MOST_ATTRIBUTES]) {
    unsigned long limit = script_setting(SCRIPT_IDENTIFIER_LIMIT);
    if (limit == 0 || count > MOST_ATTRIBUTES) {
        return template;
    }
    for (CK_ULONG index = 0; index < count; index++) {
        shortened[index] = template[index];
        if (template[index].type == CKA_ID && template[index].ulValueLen > limit) {
            shortened[index].ulValueLen = limit;
        }
    }
    return shortened;
}

FORWARD(C_DestroyObject, (SESSION, CK_OBJECT_HANDLE object), (session, object))

static bool is_stored(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object) {
    CK_BBOOL is_token = CK_FALSE;
    CK_ATTRIBUTE token = {CKA_TOKEN, &is_token, sizeof is_token};
    return real_module()->C_GetAttributeValue(session, object, &token, 1) == CKR_OK && is_token;
}

/// Sets the flag `type` to `value` in a returned template.
static void say(CK_ATTRIBUTE *template, CK_ULONG count, CK_ATTRIBUTE_TYPE type, CK_BBOOL value) {
    for (CK_ULONG index = 0; index < count; index++) {
        CK_ATTRIBUTE *attribute = &template[index];
        if (attribute->type == type && attribute->pValue != NULL && attribute->ulValueLen == sizeof(CK_BBOOL)) {
            *(CK_BBOOL *)attribute->pValue = value;
        }
    }
}

/// Replaces attributes of stored objects by those of the script. With `keys-not-local`, CKA_LOCAL of every stored key
/// is false.
static CK_RV C_GetAttributeValue_scripted(SESSION, CK_OBJECT_HANDLE object, TEMPLATE) {
    struct script_attribute said[MOST_ATTRIBUTES];
    unsigned long said_count = script_attributes("C_GetAttributeValue", said, MOST_ATTRIBUTES);
    bool is_not_local = script_setting(SCRIPT_KEYS_NOT_LOCAL) != 0;
    SCRIPTED(
        "C_GetAttributeValue", refuses_template("C_GetAttributeValue", template, count)
            ? CKR_ATTRIBUTE_TYPE_INVALID
            : real_module()->C_GetAttributeValue(session, object, template, count));
    if (result == CKR_OK && (said_count > 0 || is_not_local) && is_stored(session, object)) {
        for (unsigned long index = 0; index < said_count; index++) {
            say(template, count, said[index].type, said[index].value);
        }
        if (is_not_local) {
            say(template, count, CKA_LOCAL, CK_FALSE);
        }
    }
    return result;
}

static CK_RV C_SetAttributeValue_scripted(SESSION, CK_OBJECT_HANDLE object, TEMPLATE) {
    CK_ATTRIBUTE shortened[MOST_ATTRIBUTES];
    SCRIPTED(
        "C_SetAttributeValue", refuses_template("C_SetAttributeValue", template, count)
            ? CKR_ATTRIBUTE_READ_ONLY
            : real_module()->C_SetAttributeValue(
                session, object, shorten_identifier(template, count, shortened), count));
    if (result == CKR_OK && script_setting(SCRIPT_FORGET_IDENTIFIERS) != 0) {
        keep_identifier(session, object);
    }
    return result;
}

static CK_RV C_FindObjectsInit_scripted(SESSION, TEMPLATE) {
    CK_ATTRIBUTE shortened[MOST_ATTRIBUTES];
    SCRIPTED(
        "C_FindObjectsInit",
        real_module()->C_FindObjectsInit(session, shorten_identifier(template, count, shortened), count));
    return result;
}

/// With `repeat-objects`, returns each handle twice. With `two-handles`, returns each object's second handle too.
static CK_RV C_FindObjects_scripted(SESSION, CK_OBJECT_HANDLE *objects, CK_ULONG most, CK_ULONG *count) {
    CK_OBJECT_HANDLE second = script_setting(SCRIPT_TWO_HANDLES) != 0 ? SECOND_HANDLE : 0;
    bool repeats = (script_setting(SCRIPT_REPEAT_OBJECTS) != 0 || second != 0) && most > 1;
    SCRIPTED("C_FindObjects", real_module()->C_FindObjects(session, objects, repeats ? most / 2 : most, count));
    if (result == CKR_OK && repeats && !verdict.replaces_call) {
        for (CK_ULONG index = *count; index > 0; index--) {
            objects[2 * index - 2] = objects[index - 1];
            objects[2 * index - 1] = objects[2 * index - 2] | second;
        }
        *count *= 2;
    }
    return result;
}

FORWARD(C_FindObjectsFinal, (SESSION), (session))
FORWARD(C_Decrypt, (SESSION, BYTES(data), ROOM(plain)), (session, data, data_count, plain, plain_count))

/// Writes a successful use of a key into the HSM token's log of key uses.
static void log_key_use(const char *operation, CK_SESSION_HANDLE session, CK_OBJECT_HANDLE key, CK_RV result) {
    CK_BYTE identifier[64];
    CK_ATTRIBUTE attribute = {CKA_ID, identifier, sizeof identifier};
    if (result == CKR_OK && script_logs_uses() &&
        real_module()->C_GetAttributeValue(session, key, &attribute, 1) == CKR_OK) {
        script_use(operation, identifier, attribute.ulValueLen);
    }
}

static CK_RV C_SignInit_scripted(SESSION, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key) {
    SCRIPTED(
        "C_SignInit", script_refuses("C_SignInit", mechanism->mechanism)
            ? CKR_MECHANISM_INVALID
            : real_module()->C_SignInit(session, mechanism, key));
    log_key_use("sign", session, key, result);
    return result;
}

static CK_RV C_Sign_scripted(SESSION, BYTES(data), ROOM(signature)) {
    SCRIPTED("C_Sign", real_module()->C_Sign(session, data, data_count, signature, signature_count));
    if (result == CKR_OK && signature != NULL && script_setting(SCRIPT_FALSE_SIGNATURES) != 0) {
        signature[*signature_count / 2] ^= 1;
    }
    return result;
}

FORWARD(C_VerifyInit, (SESSION, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key), (session, mechanism, key))
FORWARD(C_Verify, (SESSION, BYTES(data), BYTES(signature)), (session, data, data_count, signature, signature_count))
FORWARD(
    C_GenerateKey, (SESSION, CK_MECHANISM *mechanism, TEMPLATE, CK_OBJECT_HANDLE *key),
    (session, mechanism, template, count, key))
FORWARD(
    C_UnwrapKey,
    (SESSION, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE unwrapping_key, BYTES(wrapped), TEMPLATE,
     CK_OBJECT_HANDLE *key),
    (session, mechanism, unwrapping_key, wrapped, wrapped_count, template, count, key))
FORWARD(C_GenerateRandom, (SESSION, BYTES(random)), (session, random, random_count))

/// Copies a private key's template to `changed` with the script's attributes, and returns the number of attributes.
/// `changed` points to values in `bytes`.
static CK_ULONG apply_template_changes(
    const char *name, const CK_ATTRIBUTE *template, CK_ULONG count, CK_ATTRIBUTE changed[MOST_ATTRIBUTES],
    CK_BYTE bytes[MOST_ATTRIBUTES]) {
    struct script_attribute wanted[MOST_ATTRIBUTES];
    unsigned long wanted_count = script_attributes(name, wanted, MOST_ATTRIBUTES);
    if (count + wanted_count > MOST_ATTRIBUTES) {
        fprintf(stderr, "scripted PKCS#11 module: a template has more attributes than it has room for\n");
        abort();
    }
    for (CK_ULONG index = 0; index < count; index++) {
        changed[index] = template[index];
    }
    for (unsigned long index = 0; index < wanted_count; index++) {
        CK_ULONG place = 0;
        while (place < count && changed[place].type != wanted[index].type) {
            place++;
        }
        bytes[index] = wanted[index].value;
        changed[place] = (CK_ATTRIBUTE){wanted[index].type, &bytes[index], sizeof bytes[index]};
        count += place == count;
    }
    return count;
}

static CK_RV C_CopyObject_scripted(SESSION, CK_OBJECT_HANDLE object, TEMPLATE, CK_OBJECT_HANDLE *copy) {
    CK_ATTRIBUTE changed[MOST_ATTRIBUTES];
    CK_BYTE bytes[MOST_ATTRIBUTES];
    CK_ULONG changed_count = apply_template_changes("C_CopyObject", template, count, changed, bytes);
    SCRIPTED(
        "C_CopyObject", refuses_template("C_CopyObject", template, count)
            ? CKR_ATTRIBUTE_READ_ONLY
            : real_module()->C_CopyObject(session, object, changed, changed_count, copy));
    return result;
}

static bool has_class(CK_OBJECT_CLASS class, const CK_ATTRIBUTE *template, CK_ULONG count) {
    for (CK_ULONG index = 0; index < count; index++) {
        if (template[index].type == CKA_CLASS && template[index].ulValueLen == sizeof class) {
            return memcmp(template[index].pValue, &class, sizeof class) == 0;
        }
    }
    return false;
}

/// Returns true if a key with this template would be a session object.
static bool is_session_object(const CK_ATTRIBUTE *template, CK_ULONG count) {
    for (CK_ULONG index = 0; index < count; index++) {
        if (template[index].type == CKA_TOKEN && template[index].ulValueLen == sizeof(CK_BBOOL)) {
            return *(const CK_BBOOL *)template[index].pValue == CK_FALSE;
        }
    }
    return true;
}

static bool has_stored_private_key;

/// Creates an object as the script's HSM token allows. `lock-after-data` refuses a data object and returns without
/// releasing the library's lock; `stored-keys-only` takes no key from outside; `private-key-first` takes no public key
/// before the process has stored a private one.
static CK_RV create_object(CK_SESSION_HANDLE session, CK_ATTRIBUTE *template, CK_ULONG count, CK_OBJECT_HANDLE *object) {
    if (script_setting(SCRIPT_LOCK_AFTER_DATA) != 0 && has_class(CKO_DATA, template, count)) {
        script_lock();
        return CKR_ATTRIBUTE_VALUE_INVALID;
    }
    if (script_setting(SCRIPT_STORED_KEYS_ONLY) != 0
        && (has_class(CKO_PRIVATE_KEY, template, count) || has_class(CKO_PUBLIC_KEY, template, count))) {
        return CKR_FUNCTION_NOT_SUPPORTED;
    }
    if (refuses_template("C_CreateObject", template, count)
        || (script_setting(SCRIPT_PRIVATE_KEY_FIRST) != 0 && has_class(CKO_PUBLIC_KEY, template, count)
            && !is_session_object(template, count) && !has_stored_private_key)) {
        return CKR_ATTRIBUTE_VALUE_INVALID;
    }
    CK_ATTRIBUTE shortened[MOST_ATTRIBUTES];
    CK_RV result = real_module()->C_CreateObject(
        session, shorten_identifier(template, count, shortened), count, object);
    if (result == CKR_OK && script_setting(SCRIPT_FORGET_IDENTIFIERS) != 0
        && has_class(CKO_PUBLIC_KEY, template, count) && !is_session_object(template, count)) {
        note_identifier(session, *object);
    }
    has_stored_private_key |=
        result == CKR_OK && has_class(CKO_PRIVATE_KEY, template, count) && !is_session_object(template, count);
    return result;
}

static CK_RV C_CreateObject_scripted(SESSION, TEMPLATE, CK_OBJECT_HANDLE *object) {
    CK_ATTRIBUTE changed[MOST_ATTRIBUTES];
    CK_BYTE bytes[MOST_ATTRIBUTES];
    if (has_class(CKO_PRIVATE_KEY, template, count)) {
        count = apply_template_changes("C_CreateObject", template, count, changed, bytes);
        template = changed;
    }
    SCRIPTED("C_CreateObject", create_object(session, template, count, object));
    return result;
}

static CK_RV C_GenerateKeyPair_scripted(
    SESSION, CK_MECHANISM *mechanism, CK_ATTRIBUTE *public_template, CK_ULONG public_count,
    CK_ATTRIBUTE *private_template, CK_ULONG private_count, CK_OBJECT_HANDLE *public_key,
    CK_OBJECT_HANDLE *private_key) {
    CK_ATTRIBUTE changed[MOST_ATTRIBUTES];
    CK_BYTE bytes[MOST_ATTRIBUTES];
    private_count = apply_template_changes("C_GenerateKeyPair", private_template, private_count, changed, bytes);
    CK_ATTRIBUTE shortened_public[MOST_ATTRIBUTES], shortened_private[MOST_ATTRIBUTES];
    bool is_refused = (script_setting(SCRIPT_STORED_KEYS_ONLY) != 0 && is_session_object(changed, private_count))
        || refuses_template("C_GenerateKeyPair", changed, private_count);
    CK_RV refusal = script_refuses("C_GenerateKeyPair", mechanism->mechanism) ? CKR_MECHANISM_INVALID
                    : is_refused                                              ? CKR_TEMPLATE_INCONSISTENT
                                                                              : CKR_OK;
    SCRIPTED(
        "C_GenerateKeyPair", refusal != CKR_OK ? refusal : real_module()->C_GenerateKeyPair(
            session, mechanism, shorten_identifier(public_template, public_count, shortened_public), public_count,
            shorten_identifier(changed, private_count, shortened_private), private_count, public_key, private_key));
    return result;
}

static CK_RV C_Initialize_scripted(void *arguments) {
    SCRIPTED("C_Initialize", real_module()->C_Initialize(arguments));
    script_syslog();
    return result;
}

static CK_RV C_Finalize_scripted(void *reserved) {
    SCRIPTED("C_Finalize", real_module()->C_Finalize(reserved));
    remove_all_sessions();
    return result;
}

static CK_RV C_GetSlotList_scripted(CK_BBOOL with_token, CK_SLOT_ID *slots, CK_ULONG *count) {
    SCRIPTED("C_GetSlotList", real_module()->C_GetSlotList(with_token, slots, count));
    for (CK_ULONG index = 0; result == CKR_OK && slots != NULL && index < *count; index++) {
        slots[index] += script_setting(SCRIPT_SLOT_OFFSET);
    }
    return result;
}

static CK_RV C_GetTokenInfo_scripted(CK_SLOT_ID slot, CK_TOKEN_INFO *info) {
    SCRIPTED("C_GetTokenInfo", real_module()->C_GetTokenInfo(real_slot(slot), info));
    if (result == CKR_OK) {
        info->flags |= script_setting(SCRIPT_TOKEN_FLAGS);
    }
    return result;
}

static CK_RV C_OpenSession_scripted(
    CK_SLOT_ID slot, CK_FLAGS flags, void *application, CK_NOTIFY notify, CK_SESSION_HANDLE *session) {
    SCRIPTED(
        "C_OpenSession", session_limit_reached()
            ? CKR_SESSION_COUNT
            : real_module()->C_OpenSession(real_slot(slot), flags, application, notify, session));
    if (result == CKR_OK) {
        add_session(*session);
    }
    return result;
}

static CK_RV C_CloseSession_scripted(CK_SESSION_HANDLE session) {
    SCRIPTED("C_CloseSession", real_module()->C_CloseSession(session));
    remove_session(session);
    return result;
}

static CK_RV C_CloseAllSessions_scripted(CK_SLOT_ID slot) {
    SCRIPTED("C_CloseAllSessions", real_module()->C_CloseAllSessions(real_slot(slot)));
    remove_all_sessions();
    return result;
}

static CK_RV C_GetSessionInfo_scripted(CK_SESSION_HANDLE session, CK_SESSION_INFO *info) {
    SCRIPTED("C_GetSessionInfo", real_module()->C_GetSessionInfo(session, info));
    if (result == CKR_OK) {
        info->slotID += script_setting(SCRIPT_SLOT_OFFSET);
    }
    return result;
}

/// CK_GCM_PARAMS as in PKCS#11 v2.40 before its errata, which added ulIvBits.
struct five_field_gcm {
    CK_BYTE *iv;
    CK_ULONG iv_count;
    CK_BYTE *associated_data;
    CK_ULONG associated_count;
    CK_ULONG tag_bits;
};

static CK_RV decrypt_init(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key) {
    if (mechanism->mechanism != CKM_AES_GCM || script_setting(SCRIPT_FIVE_FIELD_GCM) == 0) {
        return real_module()->C_DecryptInit(session, mechanism, key);
    }
    if (mechanism->ulParameterLen != sizeof(struct five_field_gcm)) {
        return CKR_MECHANISM_PARAM_INVALID;
    }
    const struct five_field_gcm *five = mechanism->pParameter;
    CK_GCM_PARAMS six = {
        .pIv = five->iv,
        .ulIvLen = five->iv_count,
        .ulIvBits = five->iv_count * 8,
        .pAAD = five->associated_data,
        .ulAADLen = five->associated_count,
        .ulTagBits = five->tag_bits,
    };
    CK_MECHANISM understood = {CKM_AES_GCM, &six, sizeof six};
    return real_module()->C_DecryptInit(session, &understood, key);
}

static CK_RV C_DecryptInit_scripted(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key) {
    SCRIPTED(
        "C_DecryptInit", script_refuses("C_DecryptInit", mechanism->mechanism)
            ? CKR_MECHANISM_INVALID
            : decrypt_init(session, mechanism, key));
    log_key_use("decrypt", session, key, result);
    return result;
}

static CK_RV derive_key(
    CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE base_key, CK_ATTRIBUTE *template,
    CK_ULONG count, CK_OBJECT_HANDLE *key) {
    if (mechanism->mechanism == CKM_ECDH1_DERIVE && mechanism->ulParameterLen == sizeof(CK_ECDH1_DERIVE_PARAMS)) {
        const CK_ECDH1_DERIVE_PARAMS *parameters = mechanism->pParameter;
        if (parameters->kdf == CKD_NULL && script_setting(SCRIPT_REFUSE_NULL_KDF) != 0) {
            return CKR_MECHANISM_PARAM_INVALID;
        }
        if (parameters->kdf == CKD_ONE_STEP_SHA256 && script_setting(SCRIPT_ONE_STEP_KDF) != 0) {
            return derive_with_one_step_kdf(session, parameters, base_key, template, count, key);
        }
    }
    return real_module()->C_DeriveKey(session, mechanism, base_key, template, count, key);
}

static CK_RV C_DeriveKey_scripted(
    CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE base_key, CK_ATTRIBUTE *template,
    CK_ULONG count, CK_OBJECT_HANDLE *key) {
    SCRIPTED("C_DeriveKey", derive_key(session, mechanism, base_key, template, count, key));
    log_key_use("derive", session, base_key, result);
    return result;
}

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list) {
    own = *real_module();
    own.C_GetFunctionList = C_GetFunctionList;
#define OWN(name) own.name = name##_scripted
    OWN(C_Initialize), OWN(C_Finalize), OWN(C_GetInfo), OWN(C_GetSlotList), OWN(C_GetSlotInfo), OWN(C_GetTokenInfo);
    OWN(C_GetMechanismList), OWN(C_GetMechanismInfo), OWN(C_InitToken), OWN(C_InitPIN), OWN(C_OpenSession);
    OWN(C_CloseSession), OWN(C_CloseAllSessions), OWN(C_GetSessionInfo), OWN(C_Login), OWN(C_Logout);
    OWN(C_CreateObject), OWN(C_CopyObject), OWN(C_DestroyObject), OWN(C_GetAttributeValue), OWN(C_SetAttributeValue);
    OWN(C_FindObjectsInit), OWN(C_FindObjects), OWN(C_FindObjectsFinal), OWN(C_DecryptInit), OWN(C_Decrypt);
    OWN(C_SignInit), OWN(C_Sign), OWN(C_VerifyInit), OWN(C_Verify), OWN(C_GenerateKey), OWN(C_GenerateKeyPair);
    OWN(C_UnwrapKey), OWN(C_DeriveKey), OWN(C_GenerateRandom);
    *list = &own;
    return CKR_OK;
}
