import CLinux
import Foundation
import WorkerProtocol

/// What a process that holds a PIN and symmetric keys does first.
public enum ProcessHardening {
    /// - Parameter name: What ps shows; run through its descriptor, a program would be called by a number.
    /// - Returns: Sentences about what the system refused.
    public static func apply(name: String) -> [String] {
        unsafe paytokend_set_process_name(name)
        // A write to a daemon that has gone is an error to handle, not a death; some libraries' clients write too.
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

    /// Open descriptors that the library may have, whatever the daemon that started this process allows itself for its
    /// connections: a library that leaks them fails here and is replaced, and one that walks through all of them, or
    /// keeps them in an fd_set (select(2), 1,024 bits), is spared the daemon's 65,536. 256 sessions to a network HSM
    /// fit, with files and sockets besides.
    public static let descriptorLimit = 1024

    private static func limitDescriptors() -> Int32 {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard unsafe getrlimit(resource, &limit) == 0 else { return errno }
        let most = min(limit.rlim_max, rlim_t(descriptorLimit))
        var own = rlimit(rlim_cur: most, rlim_max: most)
        return unsafe setrlimit(resource, &own) == 0 ? 0 : errno
    }

    /// Whether a descriptor is a socket.
    public static func isSocket(_ descriptor: Int32) -> Bool {
        var status = stat()
        return unsafe fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
    }

    /// Closes what was inherited besides the standard descriptors.
    public static func closeInherited() {
        paytokend_close_from(3)
    }
}

/// System calls that this process does without from now on, with every thread and program that it starts.
enum SystemCallFilter {
    /// To be called before the library is loaded, so that nothing of it ever runs without the filter: what it is denied
    /// it does not need for its work either, or its own error says so when it is opened.
    /// - Parameter names: of ``TokenOpening/deniedSystemCalls``; none means no filter.
    static func apply(denying names: [String]) throws(WorkerFailure) {
        guard !names.isEmpty else { return }
        let copies: [UnsafeMutablePointer<CChar>?] = unsafe names.map { unsafe strdup($0) }
        defer { unsafe copies.forEach { unsafe free($0) } }
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
            .tokenUnavailable,
            "deny_system_calls (\(names.joined(separator: ", "))) cannot be put in force: \(reason).")
    }
}
