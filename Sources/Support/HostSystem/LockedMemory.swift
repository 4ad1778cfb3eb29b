import Glibc

// Unsafe: getrlimit(2) writes only the structure that it receives.

/// The memory of this process that the kernel may not swap, and its limit.
package enum LockedMemory {
    /// The bytes locked now (VmLck, proc(5)); nil if the kernel does not report them.
    package static var bytes: Int? {
        (try? SmallFile.text(at: "/proc/self/status", maximumBytes: 65_536)).flatMap(bytes(ofStatus:))
    }

    /// The bytes that may be locked (RLIMIT_MEMLOCK, getrlimit(2)); nil without a limit.
    package static var limit: Int? {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(__RLIMIT_MEMLOCK.rawValue), &limit) == 0,
            limit.rlim_cur != rlim_t.max
        else { return nil }
        return Int(clamping: limit.rlim_cur)
    }

    /// - Parameter status: `/proc/self/status`. The line is `VmLck:`, white space, a number, and kB for 1,024 bytes.
    static func bytes(ofStatus status: String) -> Int? {
        for line in status.split(separator: "\n") where line.hasPrefix("VmLck:") {
            let words = line.split { $0 == " " || $0 == "\t" }
            guard words.count == 3, words[2] == "kB", let kibibytes = Int(words[1]), kibibytes >= 0 else { return nil }
            return kibibytes * 1024
        }
        return nil
    }
}
