import AuditChain
import Foundation

/// The access rules that were last in force on a node, according to its record (`configuration_values`).
struct AccessRules: Hashable {
    struct Rule: Hashable {
        let place: Int
        /// The caller's name in records; nil if the rule has none.
        let name: String?
        /// A description of the peers that the rule matches, such as `user shop (uid 1001)`.
        let peers: String
        let roles: [String]
        let merchants: String

        /// Returns the operations that one peer of this rule may perform without a second person.
        func alone(people: Int) -> String {
            let acts = AccessRules.alone.filter { act in
                roles.contains(act.role) && (people < 2 || !act.isForTwo)
            }.map(\.text)
            return acts.isEmpty ? "nothing" : acts.joined(separator: "; ")
        }
    }

    private static let alone: [(role: String, isForTwo: Bool, text: String)] = [
        ("decrypt", false, "open payment tokens of these merchants"), ("session", false, "sign merchant sessions"),
        ("portal-read", false, "have reads of Apple's certificate lists signed"),
        ("audit", false, "read the whole record"),
        (
            "admin", false,
            "make keys, import certificates, suspend and retire keys, rotate, back up the ledger, decide others' requests"
        ),
        (
            "admin", true,
            "import, adopt, resume, compromise and destroy keys, change the audit key, accept a restored ledger or a clock"
        ),
        ("monitor", false, "see status, metrics and the list of keys"),
    ]

    let rules: [Rule]
    /// The value of `approvals.people`; nil if it is not recorded.
    let people: Int?

    init(_ values: [String: String]) {
        people = values["approvals.people"].flatMap { Int($0) }
        var members: [Int: [String: String]] = [:]
        for (name, value) in values where name.hasPrefix("access.") {
            let parts = name.split(separator: ".", maxSplits: 2)
            guard parts.count == 3, let place = Int(parts[1]) else { continue }
            members[place, default: [:]][String(parts[2])] = value
        }
        rules = members.sorted { $0.key < $1.key }.map { place, members in
            let peers = [
                members["user"].map { "user \($0)" + (members["uid"].map { " (uid \($0))" } ?? "") },
                members["group"].map { "members of \($0)" + (members["gid"].map { " (gid \($0))" } ?? "") },
            ].compactMap(\.self)
            return Rule(
                place: place, name: members["name"], peers: peers.isEmpty ? "everybody" : peers.joined(separator: ", "),
                roles: (members["roles"] ?? "").split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) },
                merchants: [Self.list("merchants", members), Self.ofGooglePay(members)].filter { !$0.isEmpty }
                    .joined(separator: "; "))
        }
    }

    /// The merchants at Google and the kinds of card number that a rule admits; empty if it does not serve Google Pay.
    private static func ofGooglePay(_ members: [String: String]) -> String {
        let merchants = list("google_pay.merchants", members)
        return merchants.isEmpty ? "" : "Google Pay: \(merchants) (\(list("google_pay.auth_methods", members)))"
    }

    /// Joins the values of a setting that is a list. Its first value has the setting's name; further values have that
    /// name with `.2`, `.3` and so on appended.
    private static func list(_ name: String, _ members: [String: String]) -> String {
        var texts = [members[name]].compactMap(\.self)
        var place = 2
        while let next = members["\(name).\(place)"] {
            texts.append(next)
            place += 1
        }
        return texts.joined(separator: ", ")
    }
}
