import CLinux
import Glibc

/// The privileges that a program gives up because it has other people's secrets.
package enum HardenedProcess {
    /// Forbids new privileges (PR_SET_NO_NEW_PRIVS) for this thread and the threads that it starts. The kernel stores
    /// the setting for each thread, so call this function first, while only the main thread exists. ``harden()``
    /// reports a failure.
    package static func forbidNewPrivileges() {
        _ = paytokend_forbid_new_privileges()
    }

    /// Forbids new privileges, core dumps, and debuggers of the same user. It also makes a write to a disconnected
    /// peer fail instead of ending the process.
    ///
    /// - Returns: false if the kernel refused.
    package static func harden() -> Bool {
        guard paytokend_forbid_new_privileges() == 0, paytokend_forbid_dumps() == 0 else { return false }
        signal(SIGPIPE, SIG_IGN)
        return true
    }
}
