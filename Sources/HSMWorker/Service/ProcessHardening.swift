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
        return problems
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
