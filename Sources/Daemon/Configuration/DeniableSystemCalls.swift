import CLinux

/// The system calls that a token's worker can be denied; see `deny_system_calls` in the sample configuration.
enum DeniableSystemCalls {
    static let names: [String] = {
        var names: [String] = []
        while let name = unsafe paytokend_deniable_system_call(names.count) {
            names.append(unsafe String(cString: name))
        }
        return names
    }()
}
