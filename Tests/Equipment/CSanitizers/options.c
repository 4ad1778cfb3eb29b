// Options of the sanitizers' runtimes, in the builds of scripts/sanitize. They are in the programs and not in the
// environment, because a worker starts with an environment of its configuration alone.

#include <sys/syscall.h>
#include <unistd.h>

// A report goes to a file of its process; it does not change the exit status, so that a test fails only for its own
// reasons. Package.swift defines both folders as absolute paths; the defaults are for scripts/analyze.
#ifndef REPORTS
#define REPORTS ".build/sanitize/reports"
#define SUPPRESSIONS "scripts/suppressions"
#endif
#define OPTIONS "log_path=" REPORTS "/report:log_exe_name=1:exitcode=0"

#define OWN __attribute__((disable_sanitizer_instrumentation, used, visibility("default")))

#if __has_feature(thread_sanitizer)

// Libraries of the system are not instrumented: what libc's functions read and write for them is not checked, since the
// library's own synchronisation is not observed.
OWN const char *__tsan_default_options(void) {
    return OPTIONS ":ignore_noninstrumented_modules=1:second_deadlock_stack=1:suppressions=" SUPPRESSIONS "/thread";
}

#elif __has_feature(address_sanitizer)

void __lsan_do_leak_check(void);

// A refused allocation is the tested code's own affair, so the runtime returns a null pointer.
OWN const char *__asan_default_options(void) {
    return OPTIONS ":detect_stack_use_after_return=1:allocator_may_return_null=1";
}

OWN const char *__ubsan_default_options(void) { return OPTIONS ":print_stacktrace=1"; }

OWN const char *__lsan_default_options(void) { return "print_suppressions=0:suppressions=" SUPPRESSIONS "/leaks"; }

// The worker ends with _exit(2), which runs no handlers of exit(3), and so no search for leaks.
OWN void _exit(int status) {
    __lsan_do_leak_check();
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

#endif
