import CLinux
import Glibc
import WorkerProtocol

// Unsafe: The system calls write only the structures that they receive. The names are copied for the call and freed
// after it.

/// The restrictions that the worker's process places on itself when it starts, because it will have a PIN and symmetric
/// keys in its memory.
public enum ProcessHardening {
    /// - Parameter name: The name that ps shows. The program is started through a descriptor, so it would otherwise be
    ///   named after the descriptor's number.
    /// - Returns: One sentence for each step that the system refused.
    public static func apply(name: String) -> [String] {
        unsafe paytokend_set_process_name(name)
        // Otherwise SIGPIPE would end the process when it writes to a daemon that has ended, or when the library writes
        // to an HSM that has closed the connection.
        _ = signal(SIGPIPE, SIG_IGN)
        var problems: [String] = []
        let privileges = paytokend_forbid_new_privileges()
        if privileges != 0 { problems.append("PR_SET_NO_NEW_PRIVS: errno \(privileges)") }
        let dumps = paytokend_forbid_dumps()
        if dumps != 0 { problems.append("PR_SET_DUMPABLE: errno \(dumps)") }
        let descriptors = limitDescriptors()
        if descriptors != 0 { problems.append("RLIMIT_NOFILE: errno \(descriptors)") }
        return problems
    }

    /// The number of descriptors that this process may have open. The daemon's own limit of 65,536 would harm a
    /// vendor's library: some libraries close every possible descriptor in a loop, or store descriptors in an fd_set
    /// (select(2), 1,024 bits). Also, a worker that leaks descriptors soon fails at this limit and is replaced. The
    /// limit leaves room for 256 sessions with a network HSM, plus files and other sockets.
    public static let descriptorLimit = 1024

    private static func limitDescriptors() -> Int32 {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard unsafe getrlimit(resource, &limit) == 0 else { return errno }
        let most = min(limit.rlim_max, rlim_t(descriptorLimit))
        var own = rlimit(rlim_cur: most, rlim_max: most)
        return unsafe setrlimit(resource, &own) == 0 ? 0 : errno
    }

    /// Returns true for a socket, and false for anything else, including a descriptor that is not open.
    public static func isSocket(_ descriptor: Int32) -> Bool {
        var status = stat()
        return unsafe fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
    }

    /// Closes all inherited descriptors except standard input, output and error.
    public static func closeInherited() {
        paytokend_close_from(3)
    }
}

/// System calls that this process, its threads and every program that it starts can no longer make.
enum SystemCallFilter {
    /// Installs a seccomp filter that denies these system calls. The caller installs it before it loads the PKCS#11
    /// library; otherwise the library's initialisers would run without the filter. A library that needs a denied call
    /// reports an error of its own when it is opened.
    /// - Parameter names: The names in ``HSMTokenOpening/deniedSystemCalls``. Without names, no filter is installed.
    static func apply(denying names: [String]) throws(WorkerFailure) {
        guard !names.isEmpty else { return }
        let copies: [UnsafeMutablePointer<CChar>?] = unsafe names.map { unsafe strdup($0) }
        defer { for index in unsafe copies.indices { unsafe free(copies[index]) } }
        let pointers = unsafe copies.map { unsafe UnsafePointer($0) }
        let code = unsafe paytokend_deny_system_calls(pointers, pointers.count)
        guard code != 0 else { return }
        let reason =
            switch code {
            case EINVAL: "one of them is unknown, or the kernel has no seccomp filters"
            case ENOTSUP: "this is neither x86-64 nor AArch64"
            default: unsafe String(cString: strerror(code))
            }
        throw WorkerFailure(
            .hsmTokenUnavailable,
            "deny_system_calls (\(names.joined(separator: ", "))) cannot be put in force: \(reason).")
    }
}
