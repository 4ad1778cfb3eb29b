import Glibc

/// How much of this process's memory the kernel may not swap, and how much it may lock.
package enum LockedMemory {
    /// Bytes locked now (VmLck, proc(5)); nil where the kernel does not say.
    package static var bytes: Int? {
        (try? SmallFile.text(at: "/proc/self/status", maximumBytes: 65_536)).flatMap(bytes(ofStatus:))
    }

    /// Bytes that may be locked (RLIMIT_MEMLOCK, getrlimit(2)); nil where there is no limit.
    package static var limit: Int? {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(__RLIMIT_MEMLOCK.rawValue), &limit) == 0,
            limit.rlim_cur != rlim_t.max
        else { return nil }
        return Int(clamping: limit.rlim_cur)
    }

    /// - Parameter status: `/proc/self/status`, in which the line is `VmLck:`, white space, a number, and kB for 1,024 bytes.
    static func bytes(ofStatus status: String) -> Int? {
        for line in status.split(separator: "\n") where line.hasPrefix("VmLck:") {
            let words = line.split { $0 == " " || $0 == "\t" }
            guard words.count == 3, words[2] == "kB", let kibibytes = Int(words[1]), kibibytes >= 0 else { return nil }
            return kibibytes * 1024
        }
        return nil
    }
}
