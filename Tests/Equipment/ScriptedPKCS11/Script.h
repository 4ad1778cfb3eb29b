// The script: what was read of it, and what it says about a call.
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

/// What the script wants to happen to one call.
struct script_verdict {
    /// The call is not forwarded and returns `value`.
    bool replaces_call;
    /// The call is forwarded and returns `value`.
    bool replaces_answer;
    CK_RV value;
    bool logs_out;
    bool closes_sessions;
};

/// Counts the call and says what is to happen to it. Delays, hangs, leaks and crashes happen here.
struct script_verdict script_apply(const char *function);

/// What the script wants a call that failed to return.
CK_RV script_error(const char *function, CK_RV value);

/// One attribute that the script sets in a private key's template.
struct script_attribute {
    CK_ATTRIBUTE_TYPE type;
    CK_BYTE value;
};

/// Those of one function, at most `room`; gives how many.
unsigned long script_attributes(const char *function, struct script_attribute *attributes, unsigned long room);

/// Whether the script has the token refuse this mechanism, or an attribute, to a function.
bool script_refuses(const char *function, unsigned long type);

/// Writes the call into the log, where the script has one.
void script_log(const char *function, CK_RV value);

/// Writes a use of a key with this CKA_ID into the token's log of uses, where the script has one and the identifier is a
/// publicKeyHash: 32 bytes.
void script_use(const char *operation, const unsigned char *identifier, unsigned long size);

/// Whether the script has such a log.
bool script_logs_uses(void);

/// Has what is written to syslog stand in a file too, where the script names one.
void script_syslog(void);

/// 0 where the script does not have the setting.
unsigned long script_setting(enum script_setting setting);

/// The real module's path. Ends the process with a message when there is no readable script.
const char *script_module(void);

#endif
