#define _GNU_SOURCE
#include "Script.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

enum when { ALWAYS, NTH, EVERY, FROM, RANDOM };
enum what { RETURN, ANSWER, DELAY, HANG, CRASH, LOGOUT, CLOSE_SESSIONS, LEAK, EXEC, FORK, CONNECT };

struct fault {
    char function[32];
    enum when when;
    unsigned long number;
    enum what what;
    unsigned long argument;
    bool once;
    bool spent;
    int line;
    unsigned long calls;
    unsigned long long random;
};

#define FAULTS 64
#define CHANGES 16

/// A change to one function: another error, an attribute of its template, or a refused mechanism or attribute.
struct change {
    char function[32];
    unsigned long type;
    unsigned long value;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[FAULTS];
static int fault_count;
static struct change errors[CHANGES], attributes[CHANGES], refusals[CHANGES];
static int error_count, attribute_count, refusal_count;
static unsigned long settings[SCRIPT_SETTINGS];
static char module[4096];
static char log_path[4096];
static char syslog_path[4096];
static char uses_path[4096];
/// The last leaked memory. The variable is volatile, because a compiler may remove an allocation that no code can read.
static char *volatile last_leaked;
static struct stat read_state;
static bool has_read;
static bool is_locked;

static const char *const setting_names[SCRIPT_SETTINGS] = {
    [SCRIPT_SLOT_OFFSET] = "slot-offset",         [SCRIPT_SESSION_LIMIT] = "session-limit",
    [SCRIPT_TOKEN_FLAGS] = "token-flags",         [SCRIPT_REFUSE_NULL_KDF] = "refuse-null-kdf",
    [SCRIPT_ONE_STEP_KDF] = "one-step-kdf",       [SCRIPT_FIVE_FIELD_GCM] = "five-field-gcm",
    [SCRIPT_KEYS_NOT_LOCAL] = "keys-not-local",   [SCRIPT_FALSE_SIGNATURES] = "false-signatures",
    [SCRIPT_LOCK_AFTER_DATA] = "lock-after-data", [SCRIPT_STORED_KEYS_ONLY] = "stored-keys-only",
    [SCRIPT_PRIVATE_KEY_FIRST] = "private-key-first", [SCRIPT_IDENTIFIER_LIMIT] = "identifier-limit",
    [SCRIPT_REPEAT_OBJECTS] = "repeat-objects",   [SCRIPT_TWO_HANDLES] = "two-handles",
    [SCRIPT_FORGET_IDENTIFIERS] = "forget-identifiers",
};

/// Ends the process. With an invalid script, the module must not act like a working HSM token.
static void abort_with_message(const char *reason, int line) {
    fprintf(stderr, "scripted PKCS#11 module: %s (line %d)\n", reason, line);
    abort();
}

static const char *script_path(void) {
    const char *path = getenv("SCRIPTED_PKCS11");
    if (path == NULL || path[0] == 0) {
        abort_with_message("the environment variable SCRIPTED_PKCS11 must name the script", 0);
    }
    return path;
}

static unsigned long number(const char *text, int line) {
    char *end = NULL;
    errno = 0;
    unsigned long value = text == NULL ? 0 : strtoul(text, &end, 0);
    if (text == NULL || end == text || *end != 0 || errno != 0) {
        abort_with_message("a number is missing or wrong", line);
    }
    return value;
}

/// Returns the argument after "name="; NULL if `word` does not begin with "name=".
static const char *argument(const char *word, const char *name) {
    size_t count = strlen(name);
    return strncmp(word, name, count) == 0 && word[count] == '=' ? word + count + 1 : NULL;
}

static void read_when(struct fault *fault, const char *word, int line) {
    static const char *const names[] = {[NTH] = "nth", [EVERY] = "every", [FROM] = "from", [RANDOM] = "random"};
    if (strcmp(word, "always") == 0) {
        fault->when = ALWAYS;
        return;
    }
    for (int when = NTH; when <= RANDOM; when++) {
        const char *text = argument(word, names[when]);
        if (text != NULL) {
            fault->when = (enum when)when;
            fault->number = number(text, line);
            if (fault->number == 0) {
                abort_with_message("calls are counted from 1", line);
            }
            return;
        }
    }
    abort_with_message("always, nth=, every=, from= or random= is missing", line);
}

static void read_what(struct fault *fault, const char *word, int line) {
    static const char *const plain[] = {
        [HANG] = "hang", [CRASH] = "crash", [LOGOUT] = "logout", [CLOSE_SESSIONS] = "close-sessions", [EXEC] = "exec",
        [FORK] = "fork", [CONNECT] = "connect"};
    static const char *const numbered[] = {
        [RETURN] = "return", [ANSWER] = "answer", [DELAY] = "delay", [LEAK] = "leak", [CONNECT] = NULL};
    for (int what = RETURN; what <= CONNECT; what++) {
        const char *text = numbered[what] == NULL ? NULL : argument(word, numbered[what]);
        if (text != NULL) {
            fault->what = (enum what)what;
            fault->argument = number(text, line);
            return;
        }
        if (plain[what] != NULL && strcmp(word, plain[what]) == 0) {
            fault->what = (enum what)what;
            return;
        }
    }
    abort_with_message("an unknown fault", line);
}

static void read_fault(char **rest, int line) {
    const char *function = strtok_r(NULL, " \t\n", rest);
    const char *when = strtok_r(NULL, " \t\n", rest);
    const char *what = strtok_r(NULL, " \t\n", rest);
    const char *once = strtok_r(NULL, " \t\n", rest);
    if (what == NULL || strlen(function) >= sizeof faults[0].function || fault_count == FAULTS) {
        abort_with_message("a fault is CALL WHEN WHAT [once], and there are at most 64", line);
    }
    struct fault *fault = &faults[fault_count++];
    *fault = (struct fault){.line = line, .random = 0x9E3779B97F4A7C15u * (unsigned long long)line};
    strcpy(fault->function, function);
    read_when(fault, when, line);
    read_what(fault, what, line);
    fault->once = once != NULL;
    if (once != NULL && strcmp(once, "once") != 0) {
        abort_with_message("only \"once\" may follow a fault", line);
    }
}

/// Parses the rest of a line that has the form CALL CKR, CALL CKM, CALL CKA or CALL CKA BYTE.
static void read_change(struct change *changes, int *count, bool has_type, char **rest, int line) {
    const char *function = strtok_r(NULL, " \t\n", rest);
    const char *type = has_type ? strtok_r(NULL, " \t\n", rest) : "0";
    const char *value = strtok_r(NULL, " \t\n", rest);
    if (function == NULL || strlen(function) >= sizeof changes[0].function || *count == CHANGES) {
        abort_with_message("a call's name is missing, or there are more than 16 such lines", line);
    }
    struct change *change = &changes[(*count)++];
    strcpy(change->function, function);
    change->type = number(type, line);
    change->value = number(value, line);
}

static void read_line(char *text, int line) {
    char *comment = strchr(text, '#');
    if (comment != NULL) {
        *comment = 0;
    }
    char *rest = NULL;
    const char *word = strtok_r(text, " \t\n", &rest);
    if (word == NULL) {
        return;
    }
    if (strcmp(word, "fault") == 0) {
        read_fault(&rest, line);
        return;
    }
    if (strcmp(word, "error") == 0) {
        read_change(errors, &error_count, false, &rest, line);
        return;
    }
    if (strcmp(word, "refuse-mechanism") == 0 || strcmp(word, "refuse-attribute") == 0) {
        read_change(refusals, &refusal_count, false, &rest, line);
        return;
    }
    if (strcmp(word, "template") == 0) {
        read_change(attributes, &attribute_count, true, &rest, line);
        return;
    }
    const char *value = strtok_r(NULL, " \t\n", &rest);
    if (strcmp(word, "module") == 0 || strcmp(word, "log") == 0 || strcmp(word, "syslog") == 0 ||
        strcmp(word, "uses") == 0) {
        char *target = word[0] == 'm'   ? module
                       : word[0] == 'l' ? log_path
                       : word[0] == 's' ? syslog_path
                                        : uses_path;
        if (value == NULL || strlen(value) >= sizeof module) {
            abort_with_message("a path is missing", line);
        }
        strcpy(target, value);
        return;
    }
    for (int setting = 0; setting < SCRIPT_SETTINGS; setting++) {
        if (strcmp(word, setting_names[setting]) == 0) {
            settings[setting] = setting < SCRIPT_REFUSE_NULL_KDF ? number(value, line) : 1;
            return;
        }
    }
    abort_with_message("an unknown instruction", line);
}

/// Reads the script if it has changed. The caller must hold the lock.
static void refresh(void) {
    const char *path = script_path();
    struct stat state;
    if (stat(path, &state) != 0) {
        abort_with_message("the script cannot be read", 0);
    }
    if (has_read && state.st_ino == read_state.st_ino && state.st_size == read_state.st_size
        && state.st_mtim.tv_sec == read_state.st_mtim.tv_sec && state.st_mtim.tv_nsec == read_state.st_mtim.tv_nsec) {
        return;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        abort_with_message("the script cannot be read", 0);
    }
    fault_count = error_count = attribute_count = refusal_count = 0;
    memset(settings, 0, sizeof settings);
    log_path[0] = syslog_path[0] = uses_path[0] = 0;
    char text[8192];
    // The lock is held while the file is read, so that no call sees half a script.
    __attribute__((suppress)) for (int line = 1; fgets(text, sizeof text, file) != NULL; line++) {
        read_line(text, line);
    }
    fclose(file);
    read_state = state;
    has_read = true;
}

static bool is_due(struct fault *fault, const char *function) {
    if (fault->spent || (strcmp(fault->function, "*") != 0 && strcmp(fault->function, function) != 0)) {
        return false;
    }
    fault->calls++;
    switch (fault->when) {
    case ALWAYS: return true;
    case NTH: return fault->calls == fault->number;
    case EVERY: return fault->calls % fault->number == 0;
    case FROM: return fault->calls >= fault->number;
    case RANDOM: {
        // SplitMix64 with an initial state from the line's number, so that every run selects the same calls.
        unsigned long long mixed = fault->random += 0x9E3779B97F4A7C15u;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
        return (mixed ^ (mixed >> 31)) % fault->number == 0;
    }
    }
    return false;
}

/// Returns true if the fault may happen now. A one-time fault happens only in the process that creates its file.
static bool claim(struct fault *fault) {
    if (!fault->once) {
        return true;
    }
    fault->spent = true;
    char path[4200];
    snprintf(path, sizeof path, "%s.fired-%d", script_path(), fault->line);
    int descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        return false;
    }
    close(descriptor);
    return true;
}

static void sleep_milliseconds(unsigned long milliseconds) {
    struct timespec rest = {
        .tv_sec = (time_t)(milliseconds / 1000), .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
}

/// Tries an action that a worker's sandbox must refuse. The log shows its result as errno, or 0 if it succeeded.
static void attempt(enum what what) {
    if (what == EXEC) {
        char *const arguments[] = {"true", NULL};
        execve("/bin/true", arguments, environ);
        script_log("execve", (CK_RV)errno);
    } else if (what == FORK) {
        pid_t child = fork();
        if (child == 0) {
            _exit(0);
        }
        script_log("fork", child < 0 ? (CK_RV)errno : 0);
        if (child > 0) {
            waitpid(child, NULL, 0);
        }
    } else {
        struct sockaddr_un nowhere = {.sun_family = AF_UNIX, .sun_path = "/nonexistent/socket"};
        int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (descriptor < 0) {
            abort_with_message("no socket can be made", 0);
        }
        int result = connect(descriptor, (struct sockaddr *)&nowhere, sizeof nowhere);
        script_log("connect", result < 0 ? (CK_RV)errno : 0);
        close(descriptor);
    }
}

struct script_verdict script_apply(const char *function) {
    struct script_verdict verdict = {0};
    unsigned long delay = 0;
    bool hangs = false, attempts[CONNECT + 1] = {false};
    pthread_mutex_lock(&lock);
    refresh();
    hangs = is_locked;
    for (int index = 0; index < fault_count; index++) {
        struct fault *fault = &faults[index];
        if (!is_due(fault, function) || !claim(fault)) {
            continue;
        }
        switch (fault->what) {
        case RETURN:
        case ANSWER:
            verdict.replaces_call = fault->what == RETURN;
            verdict.replaces_answer = fault->what == ANSWER;
            verdict.value = fault->argument;
            break;
        case DELAY: delay += fault->argument; break;
        case HANG: hangs = true; break;
        case CRASH: kill(getpid(), SIGKILL); break;
        case LOGOUT: verdict.logs_out = true; break;
        case CLOSE_SESSIONS: verdict.closes_sessions = true; break;
        case LEAK: {
            // Memory becomes resident only when it is written to.
            char *lost = malloc(fault->argument);
            if (lost != NULL) {
                memset(lost, 1, fault->argument);
            }
            last_leaked = lost;
            break;
        }
        case EXEC:
        case FORK:
        case CONNECT: attempts[fault->what] = true; break;
        }
    }
    pthread_mutex_unlock(&lock);
    for (int what = EXEC; what <= CONNECT; what++) {
        if (attempts[what]) {
            attempt((enum what)what);
        }
    }
    sleep_milliseconds(delay);
    while (hangs) {
        pause();
    }
    return verdict;
}

void script_lock(void) {
    pthread_mutex_lock(&lock);
    is_locked = true;
    pthread_mutex_unlock(&lock);
}

CK_RV script_error(const char *function, CK_RV value) {
    pthread_mutex_lock(&lock);
    for (int index = 0; value != CKR_OK && index < error_count; index++) {
        if (strcmp(errors[index].function, function) == 0) {
            value = errors[index].value;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return value;
}

unsigned long script_attributes(const char *function, struct script_attribute *found, unsigned long room) {
    unsigned long count = 0;
    pthread_mutex_lock(&lock);
    refresh();
    for (int index = 0; index < attribute_count && count < room; index++) {
        if (strcmp(attributes[index].function, function) == 0) {
            found[count++] = (struct script_attribute){attributes[index].type, (CK_BYTE)attributes[index].value};
        }
    }
    pthread_mutex_unlock(&lock);
    return count;
}

bool script_refuses(const char *function, unsigned long type) {
    bool refuses = false;
    pthread_mutex_lock(&lock);
    refresh();
    for (int index = 0; index < refusal_count; index++) {
        refuses = refuses || (strcmp(refusals[index].function, function) == 0 && refusals[index].value == type);
    }
    pthread_mutex_unlock(&lock);
    return refuses;
}

void script_syslog(void) {
    pthread_mutex_lock(&lock);
    int descriptor =
        syslog_path[0] == 0 ? -1 : open(syslog_path, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
    pthread_mutex_unlock(&lock);
    if (descriptor >= 0) {
        dup2(descriptor, STDERR_FILENO);
        close(descriptor);
        openlog("syslog", LOG_PERROR, LOG_USER);
        syslog(LOG_ERR, "from here on");
    }
}

void script_log(const char *function, CK_RV value) {
    pthread_mutex_lock(&lock);
    int descriptor = log_path[0] == 0 ? -1 : open(log_path, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
    pthread_mutex_unlock(&lock);
    if (descriptor >= 0) {
        dprintf(descriptor, "%s 0x%lx %d\n", function, (unsigned long)value, (int)getpid());
        close(descriptor);
    }
}

bool script_logs_uses(void) {
    pthread_mutex_lock(&lock);
    refresh();
    bool logs = uses_path[0] != 0;
    pthread_mutex_unlock(&lock);
    return logs;
}

void script_use(const char *operation, const unsigned char *identifier, unsigned long size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char encoded[45] = {0};
    if (size != 32) {
        return;
    }
    // In base64 (RFC 4648), 32 bytes are 43 digits and one padding character.
    for (int digit = 0; digit < 43; digit++) {
        unsigned value = 0;
        for (int bit = digit * 6; bit < digit * 6 + 6; bit++) {
            value = value << 1 | (bit < 256 ? identifier[bit / 8] >> (7 - bit % 8) & 1u : 0u);
        }
        encoded[digit] = digits[value];
    }
    encoded[43] = '=';
    struct timespec now;
    struct tm utc;
    char time[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc);
    char line[256];
    int length = snprintf(
        line, sizeof line, "{\"time\":\"%s.%03ldZ\",\"publicKeyHash\":\"%s\",\"operation\":\"%s\"}\n", time,
        now.tv_nsec / 1000000, encoded, operation);
    pthread_mutex_lock(&lock);
    int file = open(uses_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    // Each line is a single write, so that lines of several processes do not mix.
    if (file < 0 || write(file, line, (size_t)length) != length) {
        abort_with_message("a use cannot be logged", 0);
    }
    close(file);
    pthread_mutex_unlock(&lock);
}

unsigned long script_setting(enum script_setting setting) {
    pthread_mutex_lock(&lock);
    unsigned long value = settings[setting];
    pthread_mutex_unlock(&lock);
    return value;
}

const char *script_module(void) {
    pthread_mutex_lock(&lock);
    refresh();
    if (module[0] == 0) {
        abort_with_message("\"module\" is missing", 0);
    }
    pthread_mutex_unlock(&lock);
    return module;
}
