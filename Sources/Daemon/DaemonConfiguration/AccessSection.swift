import AccessControl
import ConfigurationFile
import HostSystem
import KeyTypes
import PaymentToken

extension AccessPolicy {
    static let ruleKeys = [
        "name", "user", "group", "roles", "merchants", "require_expected", "signing_time_window", "wallets",
        "google_pay",
    ]

    /// Parses the rules in `access` of the configuration's root.
    ///
    /// - Parameters:
    ///   - namesCallers: true if each rule that permits decrypting needs a name. Hosts can share the ledger, but uids
    ///     identify callers on one host only.
    ///   - gateway: the account under which paytoken-gateway runs; nil if the host has no account of that name.
    init(
        _ root: ConfigurationSection, namesCallers: Bool, gateway: Accounts.User? = Accounts.user("paytoken-gateway")
    ) {
        guard root.node("access") != nil else {
            if root.isEmpty("access") {
                root.problem(
                    "access",
                    "has no value; list a rule for each caller, as in [{ user: payments, roles: [decrypt] }], or leave the key "
                        + "out: then the daemon's own user and root may do everything")
            } else if namesCallers {
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
            root.problem("access", "is empty, so no request would be served; add a rule, or leave the section out")
        }
        let overflow = OverflowIdentifiers.current
        let sections = (elements ?? []).map { element in
            ConfigurationSection(element.value, path: element.key, keys: Self.ruleKeys, reader: root.reader)
        }
        let rules = sections.map { AccessRule($0, overflow: overflow, namesCallers: namesCallers) }
        ConfigurationSection.warnOfUnreached(zip(rules, sections).map { (rule: $0, section: $1) })
        if root.node("trust")?["google_pay"] == nil {
            for (rule, section) in zip(rules, sections) where rule.googlePay != nil {
                section.warning(
                    .googlePayRoots, "google_pay",
                    "trust.google_pay names no file of Google's root keys, so the daemon answers requests for Google Pay "
                        + "with not_found; name the file")
            }
        }
        self.init(rules: rules, overflow: overflow)
        gateway.map { warn(ofExpectationsOf: $0, sections) }
    }

    /// Warns if the rule that matches the gateway has `require_expected`. The gateway cannot send the members that this
    /// setting requires, since the documents of Radial's interface cannot contain them. The gateway would therefore
    /// answer such payments with 500.
    private func warn(ofExpectationsOf gateway: Accounts.User, _ sections: [ConfigurationSection]) {
        let peer = PeerCredentials(uid: gateway.uid, gid: gateway.gid, groups: Accounts.groups(of: gateway))
        guard let place = rules.firstIndex(where: { $0.matches(peer, overflow: overflow) }),
            rules[place].roles.contains(.decrypt), !rules[place].requireExpected.isEmpty
        else { return }
        sections[place].warning(
            .gatewayExpectations, "require_expected",
            "this rule applies to the gateway (\(gateway.name)); Radial's documents cannot contain these members, so the "
                + "gateway answers such payments with 500. Add a rule without require_expected for the gateway before this "
                + "one, and require the members in the gateway's clients[].require_expected")
    }
}

extension AccessRule {
    fileprivate init(_ section: ConfigurationSection, overflow: OverflowIdentifiers, namesCallers: Bool) {
        section.refuseEmptyRuleValues(of: AccessPolicy.ruleKeys)
        let accounts = section.ruleAccounts(overflow: overflow)
        self.init(user: accounts.user, group: accounts.group, roles: section.ruleRoles())
        name = section.node("name") == nil ? nil : section.name("name")
        if let name, name.allSatisfy(\.isNumber) {
            // Audit records name a caller by its uid in decimal if its rule has no name.
            section.problem("name", "must not be a number; it would be mistaken for a uid")
        }
        if namesCallers, lacksName, section.node("name") == nil {
            section.problem(
                "name",
                "is missing; with a ledger in PostgreSQL a rule with the role decrypt needs one, since uids differ between the "
                    + "hosts that share it")
        }
        merchants = section.texts("merchants").map { $0.map { MerchantPattern($0.value) } }
        if merchants?.isEmpty == true {
            section.problem("merchants", "is empty, so no merchant is allowed; leave it out to allow all")
        }
        requireExpected = Set(
            section.choices("require_expected", among: ExpectedDetails.memberNames.sorted()).map(\.value))
        signingTimeWindow = section.signingTimeWindow("signing_time_window")
        readWallets(section)
    }

    /// Reads `wallets` and `google_pay`. A rule serves Google Pay only if both say so, so that a rule for Apple Pay never
    /// gets the real card numbers of another wallet by an addition elsewhere.
    private mutating func readWallets(_ section: ConfigurationSection) {
        let wallets = Set(section.choices("wallets", among: Wallet.allCases.map(\.rawValue)).map(\.value))
        let isNamed = wallets.contains(Wallet.googlePay.rawValue)
        if section.node("wallets") != nil {
            servesApplePay = wallets.contains(Wallet.applePay.rawValue)
            if wallets.isEmpty { section.problem("wallets", "is empty; name apple-pay, google-pay or both") }
        }
        for name in ["merchants", "require_expected"] where isNamed && !servesApplePay && section.node(name) != nil {
            section.problem(name, "applies to Apple Pay alone, which wallets leaves out; remove this key")
        }
        guard section.node("google_pay") != nil else {
            if isNamed {
                section.problem(
                    "google_pay", "is missing; name the merchants of Google Pay, as in { merchants: [BCR2DN4TEXAMPLE] }"
                )
            }
            return
        }
        guard isNamed else {
            section.problem(
                "wallets", "does not name google-pay, although the rule has google_pay; set [apple-pay, google-pay]")
            return
        }
        googlePay = section.googlePayAccess()
    }
}
