import Glibc

/// The uid under which a person logged in, which su and sudo leave as it is (proc(5), /proc/pid/loginuid).
enum LoginUID {
    /// nil where none is set, the kernel keeps none, or the process may not be looked at.
    static func of(process pid: Int32) -> UInt32? {
        guard pid > 0, let text = try? BoundedFile.text(at: "/proc/\(pid)/loginuid", maximumBytes: 32),
            let uid = UInt32(text.trimmingTrailingNewline)
        else { return nil }
        // 4294967295 says that nobody logged in: a service or a cron job.
        return uid == UInt32.max ? nil : uid
    }
}

extension String {
    /// Without the one newline at its end, if there is one.
    var trimmingTrailingNewline: Substring {
        hasSuffix("\n") ? dropLast() : self[...]
    }
}
