import CLinux
import Glibc

/// What a program that holds other people's secrets gives up for itself.
package enum HardenedProcess {
    /// The kernel keeps this setting for each thread, and a thread inherits it from the one that made it. So it is called
    /// first, while the main thread is the only one. ``harden()`` finds out whether it worked.
    package static func forbidNewPrivileges() {
        _ = paytokend_forbid_new_privileges()
    }

    /// New privileges, core dumps, debuggers of its own user; and a write to a peer that has left fails instead of ending the
    /// process.
    ///
    /// - Returns: false when the kernel refused.
    package static func harden() -> Bool {
        guard paytokend_forbid_new_privileges() == 0, paytokend_forbid_dumps() == 0 else { return false }
        signal(SIGPIPE, SIG_IGN)
        return true
    }
}
