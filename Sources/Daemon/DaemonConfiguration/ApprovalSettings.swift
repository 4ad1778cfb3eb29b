import AccessControl
import ConfigurationFile
import Encodings
import Glibc
import HostSystem

/// The section `approvals`: the settings of the second person's approval for critical operations.
package struct ApprovalSettings: Sendable, Equatable {
    /// The number of persons that a critical operation needs, including the requester: 2, or 1 if no second person is
    /// needed.
    package var people = 2
    /// The time after which an undecided request for approval expires.
    package var expire: Duration = .seconds(86_400)
}

extension ApprovalSettings {
    static let keys = ["people", "expire"]

    /// - Parameter access: the access policy, in which the holders of `admin` are counted; nil if its rules have problems.
    init(_ section: ConfigurationSection, access: AccessPolicy?, _ root: ConfigurationSection) {
        self.init()
        people = Self.people(section) ?? people
        expire = section.duration("expire", in: .seconds(60)...DurationText.days(30), default: expire)
        if people == 1 {
            section.warning(
                .onePerson, "people", "one person alone can import and destroy keys; use 2 where it matters")
        } else if let persons = access?.personsWithAdmin, persons < people {
            section.reader.problem(
                section.key("people"), line: section.node("people")?.mark?.line ?? root.node("access")?.mark?.line,
                "\(people) persons are needed, but only \(persons) can hold admin under the access rules. Accounts are "
                    + "counted, since people who share one count as one person; give the role to a group with more "
                    + "members")
        }
    }

    /// Parses `people`. Returns nil if the value is absent, or if it is invalid and the problem has been reported.
    private static func people(_ section: ConfigurationSection) -> Int? {
        guard let text = section.written("people") else { return nil }
        guard section.node("people")?.typeName == "int", let people = ["1": 1, "2": 2][text] else {
            section.problem(
                "people",
                "must be 2 or 1, without quotes; with 2, one person requests and another approves, and no operation takes "
                    + "more approvals")
            return nil
        }
        return people
    }
}

extension AccessPolicy {
    /// The number of accounts to which the rules give `admin`. Nil if this number cannot be determined, or if root or
    /// the daemon's own user has the role. The rules do not show how many people can become root or the daemon's user
    /// with sudo.
    var personsWithAdmin: Int? {
        let rules = rules.filter { $0.roles.contains(.admin) }
        let unbound: Set<UInt32> = [0, geteuid()]
        var users: [UInt32: Accounts.User] = [:]
        for rule in rules {
            let candidates: [Accounts.User]
            if let user = rule.user {
                candidates = [Accounts.user(user.name)].compactMap { $0 }
            } else if let group = rule.group {
                // If the system's user database has no group of this name, the members are unknown.
                guard let members = Accounts.members(ofGroup: group.name) else { return nil }
                candidates = members.users
            } else {
                candidates = []
            }
            for candidate in candidates { users[candidate.uid] = candidate }
        }
        // An earlier rule may match an account without giving it the role. Each account is therefore checked against the
        // whole policy.
        let holders = users.values.filter { user in
            let peer = PeerCredentials(uid: user.uid, gid: user.gid, groups: Accounts.groups(of: user))
            return caller(for: peer)?.has(.admin) ?? false
        }
        return holders.contains { unbound.contains($0.uid) } ? nil : holders.count
    }
}
