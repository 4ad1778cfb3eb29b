import ConfigurationFile

/// The section `renewal`: the team's key for Apple's App Store Connect API.
struct RenewalSettings: Sendable, Equatable {
    /// The team's issuer identifier, a JSON Web Token's claim `iss`.
    var issuer: String
    /// The key's identifier at Apple, a JSON Web Token's header member `kid`. The ledger records a service key under it.
    var keyId: String
}

extension RenewalSettings {
    static let keys = ["issuer", "key_id"]

    /// Returns nil if the configuration has no such section, or if one of its values has a problem.
    init?(_ root: ConfigurationSection) {
        guard root.node("renewal") != nil else {
            if root.isEmpty("renewal") {
                root.problem("renewal", "has no value; name issuer and key_id, or leave it out")
            }
            return nil
        }
        let section = root.section("renewal", keys: Self.keys)
        guard let issuer = Self.identifier("issuer", section), let keyId = Self.identifier("key_id", section) else {
            return nil
        }
        self.init(issuer: issuer, keyId: keyId)
    }

    private static func identifier(_ name: String, _ section: ConfigurationSection) -> String? {
        guard let text = section.text(name) else {
            section.problem(name, "is missing; App Store Connect shows it under Users and Access, Integrations")
            return nil
        }
        let isIdentifier = text.utf8.allSatisfy { byte in
            UInt8(ascii: "-") == byte
                || Character(UnicodeScalar(byte)).isASCII
                    && (Character(UnicodeScalar(byte)).isLetter || Character(UnicodeScalar(byte)).isNumber)
        }
        guard (1...64).contains(text.utf8.count), isIdentifier else {
            section.problem(name, "must be 1 to 64 letters, digits and hyphens")
            return nil
        }
        return text
    }
}
