package import ConfigurationFile
package import GooglePayToken

/// The permissions for Google Pay of an access rule, or of an entry of the gateway's configuration.
package struct GooglePayAccess: Sendable, Equatable {
    /// The merchants' identifiers at Google, or patterns of them.
    package let merchants: [MerchantPattern]
    /// The permitted kinds of card numbers.
    package let authMethods: Set<GooglePayPayload.AuthMethod>

    package init(merchants: [MerchantPattern], authMethods: Set<GooglePayPayload.AuthMethod> = [.cryptogram3DS]) {
        self.merchants = merchants
        self.authMethods = authMethods
    }

    package func allows(merchant identifier: String) -> Bool { merchants.contains { $0.matches(identifier) } }
}

extension ConfigurationSection {
    /// Reads the section `google_pay` with the keys `merchants` and, unless `hasAuthMethods` is false, `auth_methods`.
    /// Reports a section without merchants. Without `auth_methods` only CRYPTOGRAM_3DS is permitted.
    package func googlePayAccess(hasAuthMethods: Bool = true) -> GooglePayAccess {
        let section = section("google_pay", keys: ["merchants"] + (hasAuthMethods ? ["auth_methods"] : []))
        let merchants = section.texts("merchants") ?? []
        if merchants.isEmpty { section.problem("merchants", "is missing or empty; name the merchants at Google") }
        for merchant in merchants where GooglePayMerchant(merchant.value.replacing("*", with: "x")) == nil {
            section.problem(
                "merchants",
                "has a value that is no merchant's identifier at Google: 1 to \(GooglePayMerchant.maximumLength) letters, "
                    + "digits, - and _, without the prefix merchant:")
        }
        let methods =
            hasAuthMethods
            ? section.choices("auth_methods", among: GooglePayPayload.AuthMethod.allCases.map(\.rawValue))
                .compactMap { GooglePayPayload.AuthMethod(rawValue: $0.value) } : []
        return GooglePayAccess(
            merchants: merchants.map { MerchantPattern($0.value) },
            authMethods: methods.isEmpty ? [.cryptogram3DS] : Set(methods))
    }
}
