import CLinux
import Foundation
import WorkerProtocol

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
