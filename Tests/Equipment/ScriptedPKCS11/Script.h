// The script: its parsed content, and its verdict about a call.
#ifndef SCRIPT_H
#define SCRIPT_H

#include <p11-kit-1/p11-kit/pkcs11.h>
#include <stdbool.h>

enum script_setting {
    SCRIPT_SLOT_OFFSET,
    SCRIPT_SESSION_LIMIT,
    SCRIPT_TOKEN_FLAGS,
    SCRIPT_REFUSE_NULL_KDF,
    SCRIPT_ONE_STEP_KDF,
    SCRIPT_FIVE_FIELD_GCM,
    SCRIPT_KEYS_NOT_LOCAL,
    SCRIPT_FALSE_SIGNATURES,
    SCRIPT_SETTINGS
};

/// The script's effect on one call.
struct script_verdict {
    /// The call is not forwarded and returns `value`.
    bool replaces_call;
    /// The call is forwarded and returns `value`.
    bool replaces_answer;
    CK_RV value;
    bool logs_out;
    bool closes_sessions;
};

/// Counts the call, and returns the script's verdict. Delays, hangs, leaks and crashes happen here.
struct script_verdict script_apply(const char *function);

/// The script's return value for a failed call.
CK_RV script_error(const char *function, CK_RV value);

/// One attribute that the script sets in a private key's template.
struct script_attribute {
    CK_ATTRIBUTE_TYPE type;
    CK_BYTE value;
};

/// The attributes for one function, at most `room`; returns their number.
unsigned long script_attributes(const char *function, struct script_attribute *attributes, unsigned long room);

/// Returns true if the script makes the HSM token refuse this mechanism, or an attribute, in a function.
bool script_refuses(const char *function, unsigned long type);

/// Writes the call into the log, if the script has one.
void script_log(const char *function, CK_RV value);

/// Writes a use of a key with this CKA_ID into the HSM token's log of uses, if the script has one. Ignores an identifier
/// that is not a publicKeyHash of 32 bytes.
void script_use(const char *operation, const unsigned char *identifier, unsigned long size);

/// Returns true if the script has such a log.
bool script_logs_uses(void);

/// Copies syslog output to a file, if the script names one.
void script_syslog(void);

/// The setting's value; 0 if the script lacks it.
unsigned long script_setting(enum script_setting setting);

/// The real module's path. Ends the process with a message if there is no readable script.
const char *script_module(void);

#endif
