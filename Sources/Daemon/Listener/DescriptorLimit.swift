import Glibc

/// The process's limit of open descriptors (RLIMIT_NOFILE).
enum DescriptorLimit {
    /// Descriptors that are not connections of the payments socket: listening sockets, event loops, workers, ledger,
    /// logs, administration, and the margin in which excess connections are told so.
    static let reserve = 256
    /// No daemon needs more, and libraries that walk through all descriptors suffer.
    private static let ceiling: rlim_t = 65_536

    /// Raises the soft limit as far as the hard one allows, and returns it.
    static func raise() -> Int {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
        let wanted = max(limit.rlim_cur, min(limit.rlim_max, ceiling))
        if wanted > limit.rlim_cur {
            var raised = rlimit(rlim_cur: wanted, rlim_max: limit.rlim_max)
            if unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 {
                limit.rlim_cur = wanted
            }
        }
        return Int(clamping: limit.rlim_cur)
    }

    /// How many of the wanted connections fit under `limit`; at least 16.
    static func connections(wanted: Int, limit: Int) -> Int {
        min(wanted, max(16, limit - reserve))
    }
}
