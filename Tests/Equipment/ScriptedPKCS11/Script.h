// The script: its settings, and its effect on each call.
#ifndef SCRIPT_H
#define SCRIPT_H

#include <p11-kit-1/p11-kit/pkcs11.h>
#include <stdbool.h>

enum script_setting {
    SCRIPT_SLOT_OFFSET,
    SCRIPT_SESSION_LIMIT,
    SCRIPT_TOKEN_FLAGS,
    SCRIPT_IDENTIFIER_LIMIT,
    SCRIPT_REFUSE_NULL_KDF,
    SCRIPT_ONE_STEP_KDF,
    SCRIPT_FIVE_FIELD_GCM,
    SCRIPT_KEYS_NOT_LOCAL,
    SCRIPT_FALSE_SIGNATURES,
    SCRIPT_LOCK_AFTER_DATA,
    SCRIPT_STORED_KEYS_ONLY,
    SCRIPT_PRIVATE_KEY_FIRST,
    SCRIPT_REPEAT_OBJECTS,
    SCRIPT_TWO_HANDLES,
    SCRIPT_FORGET_IDENTIFIERS,
    SCRIPT_SETTINGS
};

/// The script's effect on one call.
struct script_verdict {
    /// True if the call is not forwarded and returns `value`.
    bool replaces_call;
    /// True if the call is forwarded and then returns `value`.
    bool replaces_answer;
    CK_RV value;
    bool logs_out;
    bool closes_sessions;
};

/// Counts the call, and returns the script's effect on it. Delays, hangs, leaks and crashes happen in this function.
struct script_verdict script_apply(const char *function);

/// Makes every later call of this process hang, like a library that returns without releasing its lock.
void script_lock(void);

/// Returns the value that the script sets instead of `value` if the call failed.
CK_RV script_error(const char *function, CK_RV value);

/// One attribute that the script sets in a private key's template.
struct script_attribute {
    CK_ATTRIBUTE_TYPE type;
    CK_BYTE value;
};

/// Writes at most `room` attributes that the script sets for one function, and returns their number.
unsigned long script_attributes(const char *function, struct script_attribute *attributes, unsigned long room);

/// Returns true if the script makes `function` refuse this mechanism or attribute.
bool script_refuses(const char *function, unsigned long type);

/// Writes the call into the log, if the script has one.
void script_log(const char *function, CK_RV value);

/// Writes the use of a key with this CKA_ID into the log of key uses, if the script names one. Does nothing if the
/// CKA_ID is not a publicKeyHash of 32 bytes.
void script_use(const char *operation, const unsigned char *identifier, unsigned long size);

/// Returns true if the script names a log of key uses.
bool script_logs_uses(void);

/// Copies the process's syslog output to a file, if the script names one.
void script_syslog(void);

/// Returns the value of a setting; 0 if the script does not have it.
unsigned long script_setting(enum script_setting setting);

/// Returns the real module's path. Ends the process with a message if no script can be read.
const char *script_module(void);

#endif
