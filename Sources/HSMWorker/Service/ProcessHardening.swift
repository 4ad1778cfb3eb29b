import CLinux
import Foundation

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
