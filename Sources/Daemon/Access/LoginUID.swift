import Glibc

/// The uid under which a person logged in, which su and sudo leave as it is (proc(5), /proc/pid/loginuid).
enum LoginUID: Sendable, Hashable {
    case set(UInt32)
    /// Nobody logged in (a service, a cron job), or the kernel keeps no login uids.
    case unset
    /// The process has ended, or may not be looked at: it can have any.
    case unreadable

    /// nil where none is set, and where none could be read.
    var number: UInt32? {
        if case .set(let uid) = self { uid } else { nil }
    }
}

extension LoginUID {
    /// Reads it, and takes it only from a process that runs before and after: in between its number can have been given
    /// to no other, whose login uid this would be.
    ///
    /// - Parameter isKept: whether the kernel keeps login uids.
    init(of process: borrowing some ConnectedProcess & ~Copyable, isKept: Bool = Self.isKept) {
        guard isKept else {
            self = .unset
            return
        }
        guard let before = process.life(), let text = process.loginUID(), process.life() == before,
            let uid = UInt32(text.trimmingTrailingNewline)
        else {
            self = .unreadable
            return
        }
        // 4294967295 says that nobody logged in.
        self = uid == UInt32.max ? .unset : .set(uid)
    }

    /// A kernel without CONFIG_AUDIT has no such file, and then this process has none either. Where /proc is not there at
    /// all nothing can be told, and nothing is taken for unset.
    static let isKept = unsafe access("/proc/self/loginuid", F_OK) == 0 || access("/proc/self/stat", F_OK) != 0
}

extension String {
    /// Without the one newline at its end, if there is one.
    var trimmingTrailingNewline: Substring {
        hasSuffix("\n") ? dropLast() : self[...]
    }
}
