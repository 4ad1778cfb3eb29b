import AccessControl
import ConfigurationFile
import Encodings
import Glibc
import HostSystem

/// `approvals`: the second person for operations of consequence.
struct ApprovalSettings: Sendable, Equatable {
    /// How many persons such an operation needs, the requester included: 2, or 1 for no second one.
    var people = 2
    /// After which time a request that nobody approved lapses.
    var expire: Duration = .seconds(86_400)
}

extension ApprovalSettings {
    static let keys = ["people", "expire"]

    /// - Parameter access: nil when its rules are not worth counting by.
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
                "\(people) persons are needed, but only \(persons) can hold admin by the access rules, which is counted by "
                    + "account: who share one are one person; give the role to a group with more members")
        }
    }

    /// nil where it is absent, or wrong, which was reported.
    private static func people(_ section: ConfigurationSection) -> Int? {
        guard let text = section.written("people") else { return nil }
        guard section.node("people")?.typeName == "int", let people = ["1": 1, "2": 2][text] else {
            section.problem(
                "people",
                "must be 2 or 1, without quotes: one person asks and one other approves, and no operation takes more "
                    + "approvals than one")
            return nil
        }
        return people
    }
}

extension AccessPolicy {
    /// How many persons the rules give admin to, each account being one, under whatever names; nil when that cannot be
    /// counted: how many reach root and the daemon's own user by sudo stands in no rule.
    var personsWithAdmin: Int? {
        let rules = rules.filter { $0.roles.contains(.admin) }
        let unbound: Set<UInt32> = [0, geteuid()]
        var users: [UInt32: Accounts.User] = [:]
        for rule in rules {
            let candidates: [Accounts.User]
            if let user = rule.user {
                candidates = [Accounts.user(user.name)].compactMap { $0 }
            } else if let group = rule.group {
                // A group that is only a number has no members that could be listed.
                guard let members = Accounts.members(ofGroup: group.name) else { return nil }
                candidates = members.users
            } else {
                candidates = []
            }
            for candidate in candidates { users[candidate.uid] = candidate }
        }
        // An earlier rule may take somebody's role away again, so the whole policy is asked.
        let holders = users.values.filter { user in
            let peer = PeerCredentials(uid: user.uid, gid: user.gid, groups: Accounts.groups(of: user))
            return caller(for: peer)?.has(.admin) ?? false
        }
        return holders.contains { unbound.contains($0.uid) } ? nil : holders.count
    }
}
