import Glibc
package import HostSystem

/// One entry of a configuration's list of accounts: the peers of a Unix socket that it matches. The rights that it gives are
/// defined by the program: the daemon's roles and merchants, the gateway's roles.
package protocol PeerRule {
    /// The user of the peer's process.
    var user: Account? { get }
    /// A primary or supplementary group. If ``user`` is set too, both must match.
    var group: Account? { get }
}

extension PeerRule {
    package func matches(_ peer: PeerCredentials, overflow: OverflowIdentifiers) -> Bool {
        // Every unmapped peer shows the overflow identifier, which therefore identifies no account.
        if let user, peer.uid != user.id || user.id == overflow.uid { return false }
        if let group, !peer.belongs(to: group.id) || group.id == overflow.gid { return false }
        return user != nil || group != nil
    }

    /// The accounts that the rule admits by a group alone; nil if it names the user.
    package var unnamedAccounts: UnnamedAccounts? { user == nil ? group.map { .group($0.id) } : nil }

    /// Returns true if the rule matches every peer that the later rule matches, according to the system's users and groups. A
    /// process can have other groups than its user, so this is for a warning only.
    func takesAll(of later: some PeerRule) -> Bool {
        if let user, user.id != later.user?.id { return false }
        guard let group else { return user != nil }
        if later.group?.id == group.id { return true }
        guard let name = later.user?.name, let account = Accounts.user(name) else { return false }
        return Accounts.groups(of: account).contains(group.id)
    }
}

extension Sequence where Element: PeerRule {
    /// The first rule that matches, which alone decides about the peer; nil if none matches, and the peer is then not served.
    package func first(matching peer: PeerCredentials, overflow: OverflowIdentifiers) -> Element? {
        first { $0.matches(peer, overflow: overflow) }
    }

    /// The accounts with which the peer's connections are counted; nil for an account that its rule names.
    ///
    /// A group's accounts, and those outside the rules, can have as many uids as one account has subordinate ones
    /// (subuid(5)).
    package func unnamedAccounts(of peer: PeerCredentials, overflow: OverflowIdentifiers) -> UnnamedAccounts? {
        guard let rule = first(matching: peer, overflow: overflow) else { return .unmatched }
        return rule.unnamedAccounts
    }
}

/// Accounts that no rule names.
package enum UnnamedAccounts: Sendable, Hashable {
    /// A rule admits them by this group.
    case group(UInt32)
    /// No rule admits them.
    case unmatched
}

/// The uid and gid of accounts that are not mapped in this user namespace (user_namespaces(7)).
package struct OverflowIdentifiers: Sendable, Equatable {
    package let uid: UInt32
    package let gid: UInt32

    package init(uid: UInt32, gid: UInt32) {
        self.uid = uid
        self.gid = gid
    }

    package static let current = OverflowIdentifiers(
        uid: read("/proc/sys/kernel/overflowuid"), gid: read("/proc/sys/kernel/overflowgid"))

    private static func read(_ path: String) -> UInt32 {
        (try? SmallFile.text(at: path, maximumBytes: 32)).flatMap { UInt32($0.trimmingTrailingNewline) } ?? 65_534
    }
}
