import AccessControl
import ConfigurationFile
import Glibc
import HostSystem

/// What a peer of the admin socket may do. The raw values are those of the configuration; a role includes the ones before it.
enum AdminRole: String, CaseIterable, Sendable {
    /// Metrics, status, and the reasons for not being ready.
    case monitor
    /// Payments, shown, and session checks. Implies monitor.
    case support
    /// Says what became of a pending payment. Implies support.
    case resolve

    /// The roles that give this one, itself first.
    var givenBy: Set<AdminRole> {
        switch self {
        case .monitor: [.monitor, .support, .resolve]
        case .support: [.support, .resolve]
        case .resolve: [.resolve]
        }
    }
}

/// `admin.access`: the accounts that may use the admin socket, and for what. The first rule that matches a peer decides alone.
struct AdminAccess: Sendable, Equatable {
    struct Rule: PeerRule, Sendable, Equatable {
        var user: Account?
        var group: Account?
        let roles: Set<AdminRole>

        func gives(_ role: AdminRole) -> Bool { !roles.isDisjoint(with: role.givenBy) }
    }

    let rules: [Rule]
    let overflow: OverflowIdentifiers

    init(rules: [Rule], overflow: OverflowIdentifiers = .current) {
        self.rules = rules
        self.overflow = overflow
    }

    /// Without rules: root and the gateway's own user have all roles, the socket's group monitors and decides nothing.
    ///
    /// - Parameter group: of the socket file; nil means the gateway's own.
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

    /// nil: no rule matches the peer, which may ask for health and readiness alone.
    func rule(for peer: PeerCredentials) -> Rule? { rules.first(matching: peer, overflow: overflow) }

    /// The accounts among which this peer's connections are counted; nil for an account that its rule names.
    func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts? {
        rules.unnamedAccounts(of: peer, overflow: overflow)
    }
}

extension AdminAccess {
    static let ruleKeys = ["user", "group", "roles"]

    /// The rules of `admin.access`; without any, ``standard(group:ownUID:ownGID:overflow:)``.
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
