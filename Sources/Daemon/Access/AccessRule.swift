import PaymentToken

/// One entry of the configuration's `access`: whom it matches, and what those may do.
struct AccessRule: Sendable, Equatable {
    /// A user or group whose name was resolved when the configuration was read.
    struct Account: Sendable, Equatable {
        let name: String
        let id: UInt32
    }

    /// The caller's name in records and for repeats; nil means the peer's uid.
    var name: String?
    var user: Account?
    /// Primary or supplementary. With `user` too, both must match.
    var group: Account?
    var roles: Set<Role>
    /// nil allows all merchants, an empty list none.
    var merchants: [MerchantPattern]?
    /// Names of `expected`'s members that each decrypt request must bring.
    var requireExpected: Set<String> = []
    /// nil means the one of `verification`.
    var signingTimeWindow: SigningTimeWindow?

    func matches(_ peer: PeerCredentials, overflow: OverflowIdentifiers) -> Bool {
        // An unmapped peer shows the overflow identifier, whoever it is: that names nobody.
        if let user, peer.uid != user.id || user.id == overflow.uid { return false }
        if let group, !peer.belongs(to: group.id) || group.id == overflow.gid { return false }
        return user != nil || group != nil
    }
}

/// The uid and gid that stand for "not mapped in this user namespace" (user_namespaces(7)).
struct OverflowIdentifiers: Sendable, Equatable {
    let uid: UInt32
    let gid: UInt32

    static let current = OverflowIdentifiers(
        uid: read("/proc/sys/kernel/overflowuid"), gid: read("/proc/sys/kernel/overflowgid"))

    private static func read(_ path: String) -> UInt32 {
        (try? SmallFile.text(at: path, maximumBytes: 32)).flatMap { UInt32($0.trimmingTrailingNewline) } ?? 65_534
    }
}
