import ConfigurationFile
import HostSystem
import PaymentToken

extension AccessPolicy {
    static let ruleKeys = [
        "name", "user", "group", "roles", "merchants", "require_expected", "signing_time_window",
    ]

    /// The rules of the root's `access`.
    ///
    /// - Parameter namesCallers: whether every caller that decrypts needs a name, since uids tell it only on one host.
    init(_ root: ConfigurationSection, namesCallers: Bool) {
        guard root.node("access") != nil else {
            if namesCallers {
                root.reader.problem(
                    "access", line: root.node("ledger")?.mark?.line,
                    "is missing; with a ledger in PostgreSQL give each rule with the role decrypt a name, since uids differ "
                        + "between the hosts that share it")
            }
            self = .ownUserAndRoot()
            return
        }
        let elements = root.list("access")
        if elements?.isEmpty == true {
            root.problem("access", "is empty, so nobody would be served; add a rule, or leave the section out")
        }
        let overflow = OverflowIdentifiers.current
        let sections = (elements ?? []).map { element in
            ConfigurationSection(element.value, path: element.key, keys: Self.ruleKeys, reader: root.reader)
        }
        let rules = sections.map { AccessRule($0, overflow: overflow, namesCallers: namesCallers) }
        for (place, section) in sections.enumerated() {
            guard let first = rules[..<place].firstIndex(where: { $0.takesAll(of: rules[place]) }) else { continue }
            let by = rules[first].group.map { ", by the group \($0.name)" } ?? ""
            section.warning(
                .unreachedRule, "user",
                "this rule is never reached: the rule in line \(sections[first].line.map(String.init) ?? "?") matches the same "
                    + "peers first\(by), and the first rule that matches decides alone; put this one before it")
        }
        self.init(rules: rules, overflow: overflow)
    }
}

extension AccessRule {
    /// Whether it matches whoever the later rule matches, as far as the system's users and groups say. A process can have other
    /// groups than its user, so this is for a warning only.
    fileprivate func takesAll(of later: AccessRule) -> Bool {
        if let user, user.id != later.user?.id { return false }
        guard let group else { return user != nil }
        if later.group?.id == group.id { return true }
        guard let name = later.user?.name, let account = Accounts.user(name) else { return false }
        return Accounts.groups(of: account).contains(group.id)
    }

    fileprivate init(_ section: ConfigurationSection, overflow: OverflowIdentifiers, namesCallers: Bool) {
        // Elsewhere an empty value means the default. Here the default is everybody, or everything.
        for name in AccessPolicy.ruleKeys where section.isEmpty(name) {
            section.problem(name, "has no value; give one, or leave it out")
        }
        self.init(user: section.user("user"), group: section.group("group"), roles: section.roles())
        name = section.node("name") == nil ? nil : section.name("name")
        if let name, name.allSatisfy(\.isNumber) {
            // A uid in decimal is the name of callers whose rule has none.
            section.problem("name", "must not be a number; it would be mistaken for a uid")
        }
        if namesCallers, lacksName, section.node("name") == nil {
            section.problem(
                "name",
                "is missing; with a ledger in PostgreSQL a rule with the role decrypt needs one, since uids differ between the "
                    + "hosts that share it")
        }
        if section.node("user") == nil, section.node("group") == nil {
            section.problem("user", "is missing, and so is group; a rule needs one of them")
        }
        if let user, user.id == overflow.uid {
            section.problem(
                "user", "is the overflow uid \(overflow.uid), which stands for everybody unknown; use another user")
        }
        if let group, group.id == overflow.gid {
            section.problem(
                "group", "is the overflow gid \(overflow.gid), which stands for everybody unknown; use another group")
        }
        merchants = section.texts("merchants").map { $0.map { MerchantPattern($0.value) } }
        if merchants?.isEmpty == true {
            section.problem("merchants", "is empty, so no merchant is allowed; leave it out to allow all")
        }
        requireExpected = Set(
            section.choices("require_expected", among: ExpectedDetails.memberNames.sorted()).map(\.value))
        signingTimeWindow = section.signingTimeWindow("signing_time_window")
    }
}

extension ConfigurationSection {
    fileprivate func roles() -> Set<Role> {
        guard node("roles") != nil else {
            problem("roles", "is missing; list one or more of \(Role.allCases.map(\.rawValue).joined(separator: ", "))")
            return []
        }
        let names = choices("roles", among: Role.allCases.map(\.rawValue)).map(\.value)
        if case .sequence(let sequence)? = node("roles"), sequence.isEmpty {
            problem("roles", "is empty; list one or more of \(Role.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return Set(names.compactMap(Role.init(rawValue:)))
    }
}
