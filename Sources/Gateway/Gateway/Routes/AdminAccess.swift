import AccessControl
import ConfigurationFile
import Glibc
import HostSystem

/// The roles of the admin socket's peers. The raw values are those of the configuration. Each role includes the
/// preceding ones.
enum AdminRole: String, CaseIterable, Sendable {
    /// Reads metrics, status, and the reasons for not being ready.
    case monitor
    /// Lists and shows payments, and checks sessions. Implies monitor.
    case support
    /// Resolves a pending payment. Implies support.
    case resolve

    /// The roles that include this one, and this role itself.
    var impliedBy: Set<AdminRole> {
        switch self {
        case .monitor: [.monitor, .support, .resolve]
        case .support: [.support, .resolve]
        case .resolve: [.resolve]
        }
    }
}

/// `admin.access`: the accounts that may use the admin socket, and their roles. Only the first rule that matches a peer
/// applies.
struct AdminAccess: Sendable, Equatable {
    struct Rule: PeerRule, Sendable, Equatable {
        var user: Account?
        var group: Account?
        let roles: Set<AdminRole>

        func gives(_ role: AdminRole) -> Bool { !roles.isDisjoint(with: role.impliedBy) }
    }

    let rules: [Rule]
    let overflow: OverflowIdentifiers

    init(rules: [Rule], overflow: OverflowIdentifiers = .current) {
        self.rules = rules
        self.overflow = overflow
    }

    /// The default without rules: root and the gateway's own user have all roles, and the socket's group has only
    /// `monitor`.
    ///
    /// - Parameter group: the group of the socket file; nil for the gateway's own group.
    static func standard(
        group: Account?, ownUID: UInt32 = geteuid(), ownGID: UInt32 = getegid(),
        overflow: OverflowIdentifiers = .current
    ) -> AdminAccess {
        let all = [Account(name: "root", id: 0), Account(name: String(ownUID), id: ownUID)]
        let group = group ?? Account(name: String(ownGID), id: ownGID)
        return AdminAccess(
            rules: all.map { Rule(user: $0, roles: [.resolve]) } + [Rule(group: group, roles: [.monitor])],
            overflow: overflow)
    }

    /// Returns the first rule that matches the peer. Returns nil if no rule matches; the peer may then read only health
    /// and readiness.
    func rule(for peer: PeerCredentials) -> Rule? { rules.first(matching: peer, overflow: overflow) }

    /// Returns the group of accounts whose connections share one limit with the peer's connections. Returns nil if the
    /// peer's rule names its account.
    func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts? {
        rules.unnamedAccounts(of: peer, overflow: overflow)
    }
}

extension AdminAccess {
    static let ruleKeys = ["user", "group", "roles"]

    /// Reads the rules of `admin.access`. Without rules, the result is ``standard(group:ownUID:ownGID:overflow:)``.
    init(_ admin: ConfigurationSection, group: Account?) {
        if admin.isEmpty("access") {
            admin.problem("access", "has no value; list rules, or leave it out")
        }
        let elements = admin.list("access") ?? []
        guard !elements.isEmpty else {
            self = .standard(group: group)
            return
        }
        let overflow = OverflowIdentifiers.current
        let rules = elements.map { element in
            let section = ConfigurationSection(
                element.value, path: element.key, keys: Self.ruleKeys, reader: admin.reader)
            section.refuseEmptyRuleValues(of: Self.ruleKeys)
            let accounts = section.ruleAccounts(overflow: overflow)
            return (
                rule: Rule(user: accounts.user, group: accounts.group, roles: section.ruleRoles()), section: section
            )
        }
        ConfigurationSection.warnOfUnreached(rules)
        self.init(rules: rules.map(\.rule), overflow: overflow)
    }
}
