// Options of ThreadSanitizer's runtime, in the build of scripts/sanitize. They are in the programs and not in the
// environment, because a worker starts with an environment of its configuration alone.

// A report goes to a file of its process; it does not change the exit status, so that a test fails only for its own
// reasons. Package.swift defines both folders as absolute paths; the defaults are for scripts/analyze.
#ifndef REPORTS
#define REPORTS ".build/sanitize/reports"
#define SUPPRESSIONS "scripts/suppressions"
#endif
#define OPTIONS "log_path=" REPORTS "/report:log_exe_name=1:exitcode=0"

#define OWN __attribute__((disable_sanitizer_instrumentation, used, visibility("default")))

// Libraries of the system are not instrumented: what libc's functions read and write for them is not checked, since the
// library's own synchronisation is not observed.
OWN const char *__tsan_default_options(void) {
    return OPTIONS ":ignore_noninstrumented_modules=1:second_deadlock_stack=1:suppressions=" SUPPRESSIONS "/thread";
}
