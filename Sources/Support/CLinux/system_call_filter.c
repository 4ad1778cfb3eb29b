#define _GNU_SOURCE
#include "system_call_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#define MOST_NUMBERS 4

// This call is newer than some headers; its number is the same on all architectures (Linux 6.6).
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

// The system calls that one name denies. Calls that an architecture lacks are omitted. 0 ends the list: it is the
// number of read(2) or io_setup(2), and neither can be denied. `processes` means that new processes are denied too.
struct deniable {
    const char *name;
    int numbers[MOST_NUMBERS];
    bool processes;
};

static const struct deniable table[] = {
    // New programs and processes. Threads stay possible: pthread_create needs clone.
#ifdef SYS_fork
    {"fork", {SYS_fork, SYS_vfork}, true},
#else
    {"fork", {0}, true},
#endif
    {"execve", {SYS_execve, SYS_execveat}, false},
    // Other processes.
    {"ptrace", {SYS_ptrace}, false},
    {"process_vm_readv", {SYS_process_vm_readv}, false},
    {"process_vm_writev", {SYS_process_vm_writev}, false},
    {"pidfd_getfd", {SYS_pidfd_getfd}, false},
    {"kill", {SYS_kill, SYS_pidfd_send_signal}, false},
    // The network, and local sockets.
    {"socket", {SYS_socket}, false},
    {"connect", {SYS_connect}, false},
    {"bind", {SYS_bind}, false},
    {"listen", {SYS_listen}, false},
    {"accept", {SYS_accept, SYS_accept4}, false},
    // Changes to the file system's structure and to other users' files.
    {"mount", {SYS_mount, SYS_fsopen, SYS_move_mount, SYS_open_tree}, false},
    {"umount", {SYS_umount2}, false},
    {"chroot", {SYS_chroot, SYS_pivot_root}, false},
#ifdef SYS_chmod
    {"chmod", {SYS_fchmodat, SYS_fchmodat2, SYS_fchmod, SYS_chmod}, false},
    {"chown", {SYS_fchownat, SYS_fchown, SYS_chown, SYS_lchown}, false},
    {"link", {SYS_linkat, SYS_symlinkat, SYS_link, SYS_symlink}, false},
#else
    {"chmod", {SYS_fchmodat, SYS_fchmodat2, SYS_fchmod}, false},
    {"chown", {SYS_fchownat, SYS_fchown}, false},
    {"link", {SYS_linkat, SYS_symlinkat}, false},
#endif
    {"open_by_handle_at", {SYS_open_by_handle_at}, false},
    // Namespaces, identities, the kernel.
    {"unshare", {SYS_unshare, SYS_setns}, false},
    {"setuid", {SYS_setuid, SYS_setreuid, SYS_setresuid, SYS_setfsuid}, false},
    {"setgid", {SYS_setgid, SYS_setregid, SYS_setresgid, SYS_setgroups}, false},
    {"capset", {SYS_capset}, false},
    {"bpf", {SYS_bpf}, false},
    {"perf_event_open", {SYS_perf_event_open}, false},
    {"userfaultfd", {SYS_userfaultfd}, false},
    {"keyctl", {SYS_keyctl, SYS_add_key, SYS_request_key}, false},
    {"memfd_create", {SYS_memfd_create}, false},
    {"init_module", {SYS_init_module, SYS_finit_module, SYS_delete_module}, false},
    {"kexec_load", {SYS_kexec_load}, false},
    {"reboot", {SYS_reboot}, false},
};

static const size_t table_count = sizeof table / sizeof *table;

const char *paytokend_deniable_system_call(size_t index) {
    return index < table_count ? table[index].name : NULL;
}

#ifndef OWN_ARCHITECTURE

int paytokend_deny_system_calls(const char *const *names, size_t count) {
    (void)names;
    (void)count;
    return ENOTSUP;
}

#else

// Each denied number needs two instructions, the rest of the filter fourteen.
#define MOST_INSTRUCTIONS 512

struct program {
    struct sock_filter instructions[MOST_INSTRUCTIONS];
    unsigned short count;
};

static void add(struct program *program, struct sock_filter instruction) {
    // The whole table needs only a fraction of MOST_INSTRUCTIONS, and the caller checks the limit.
    if (program->count < MOST_INSTRUCTIONS) program->instructions[program->count++] = instruction;
}

#define STATEMENT(code, value) ((struct sock_filter)BPF_STMT((code), (value)))
#define JUMP(code, value, yes, no) ((struct sock_filter)BPF_JUMP((code), (value), (yes), (no)))
#define LOAD(member) STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define FAIL(error) STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void deny_number(struct program *program, int number) {
    add(program, JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1));
    add(program, FAIL(EPERM));
}

/// Denies clone without CLONE_THREAD, which makes a process. The arguments of clone3 are in memory that a filter cannot
/// read. So clone3 fails as if the kernel lacked it (ENOSYS), and the C library then uses clone.
static void deny_processes(struct program *program) {
#ifdef SYS_clone3
    add(program, JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1));
    add(program, FAIL(ENOSYS));
#endif
    add(program, JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
    add(program, LOAD(args[0]));
    add(program, JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1));
    add(program, ALLOW);
    add(program, FAIL(EPERM));
}

static const struct deniable *find(const char *name) {
    for (size_t index = 0; index < table_count; index++) {
        if (strcmp(table[index].name, name) == 0) return &table[index];
    }
    return NULL;
}

int paytokend_deny_system_calls(const char *const *names, size_t count) {
    struct program program = {.count = 0};
    bool processes = false;
    // On another architecture the same numbers mean other calls. No program here has a reason to make calls of another
    // architecture, so all of them are denied.
    add(&program, LOAD(arch));
    add(&program, JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0));
    add(&program, FAIL(EPERM));
    add(&program, LOAD(nr));
#ifdef __X32_SYSCALL_BIT
    add(&program, JUMP(BPF_JMP | BPF_JSET | BPF_K, __X32_SYSCALL_BIT, 0, 1));
    add(&program, FAIL(EPERM));
#endif
    // Operations that are submitted through io_uring do not pass the filter, so io_uring is always denied.
    deny_number(&program, SYS_io_uring_setup);
    for (size_t index = 0; index < count; index++) {
        const struct deniable *deniable = find(names[index]);
        if (deniable == NULL) return EINVAL;
        processes = processes || deniable->processes;
        for (size_t at = 0; at < MOST_NUMBERS && deniable->numbers[at] != 0; at++) {
            deny_number(&program, deniable->numbers[at]);
        }
    }
    // This must be last, since it replaces the loaded number with an argument.
    if (processes) deny_processes(&program);
    add(&program, ALLOW);
    if (program.count == MOST_INSTRUCTIONS) return E2BIG;
    struct sock_fprog filter = {.len = program.count, .filter = program.instructions};
    // TSYNC applies the filter to existing threads. A positive result is a thread that could not get it.
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
    if (result == 0) return 0;
    return result > 0 ? EBUSY : errno;
}

#endif
