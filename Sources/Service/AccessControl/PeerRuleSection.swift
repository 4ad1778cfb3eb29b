package import ConfigurationFile
package import HostSystem

extension ConfigurationSection {
    /// Returns the accounts that a rule names by `user` and `group`. Reports a rule that names none, or the overflow account.
    package func ruleAccounts(overflow: OverflowIdentifiers) -> (user: Account?, group: Account?) {
        let accounts = (user: user("user"), group: group("group"))
        if node("user") == nil, node("group") == nil {
            problem("user", "is missing, and so is group; a rule needs one of them")
        }
        if let user = accounts.user, user.id == overflow.uid {
            problem(
                "user", "is the overflow uid \(overflow.uid), which every unknown peer has; use another user")
        }
        if let group = accounts.group, group.id == overflow.gid {
            problem(
                "group", "is the overflow gid \(overflow.gid), which every unknown peer has; use another group")
        }
        return accounts
    }

    /// Returns a rule's `roles`. Reports a problem if there are none.
    package func ruleRoles<Role>() -> Set<Role>
    where Role: RawRepresentable & CaseIterable & Hashable, Role.RawValue == String {
        let known = Role.allCases.map(\.rawValue)
        guard node("roles") != nil else {
            problem("roles", "is missing; list one or more of \(known.joined(separator: ", "))")
            return []
        }
        let names = choices("roles", among: known).map(\.value)
        if case .sequence(let sequence)? = node("roles"), sequence.isEmpty {
            problem("roles", "is empty; list one or more of \(known.joined(separator: ", "))")
        }
        return Set(names.compactMap(Role.init(rawValue:)))
    }

    /// Reports keys of a rule that have no value. Elsewhere an empty value means the default; in a rule, the default
    /// would match every peer or permit everything.
    package func refuseEmptyRuleValues(of keys: [String]) {
        for name in keys where isEmpty(name) {
            problem(name, "has no value; give one, or leave it out")
        }
    }

    /// Warns of each rule that is never reached because an earlier one matches the same peers.
    ///
    /// - Parameter rules: all rules in the file's order, each with its section.
    package static func warnOfUnreached(_ rules: [(rule: some PeerRule, section: ConfigurationSection)]) {
        for (place, later) in rules.enumerated() {
            guard let first = rules[..<place].first(where: { $0.rule.covers(of: later.rule) }) else { continue }
            let by = first.rule.group.map { ", by the group \($0.name)" } ?? ""
            later.section.warning(
                .unreachedRule, "user",
                "this rule is never reached: the rule in line \(first.section.line.map(String.init) ?? "?") matches the same "
                    + "peers first\(by), and the first rule that matches decides alone; put this one before it")
        }
    }
}

extension ConfigurationWarning.Setting {
    package static let unreachedRule = Self("unreached_rule")
}
