import ConfigurationFile
import Encodings
import PaymentToken

/// The settings about which the daemon warns, most of them because they weaken its security.
extension ConfigurationWarning.Setting {
    static let signingTimeWindowOff = Self("signing_time_window_off")
    static let foreignRoots = Self("foreign_roots")
    static let googlePayTestRoots = Self("google_pay_test_roots")
    static let googlePayAutoAccept = Self("google_pay_auto_accept")
    static let googlePayFetchedUnusable = Self("google_pay_fetched_unusable")
    static let onePerson = Self("one_person")
    static let databaseTLS = Self("database_tls")
    static let googlePayRoots = Self("google_pay_roots", isInsecure: false)
    static let googlePayRootKeysDiffer = Self("google_pay_root_keys_differ", isInsecure: false)
    static let gatewayExpectations = Self("gateway_expectations", isInsecure: false)

    /// True if a reload cannot change the setting, so that its value from the start stays in force.
    package var isFixedAtStart: Bool { self == .onePerson || self == .databaseTLS }
}

extension ConfigurationSection {
    /// Parses a signing-time window; returns nil if the key is absent. The value `off` is permitted, with a warning.
    func signingTimeWindow(_ name: String) -> SigningTimeWindow? {
        guard node(name) != nil else { return nil }
        guard let duration = durationOrOff(name, in: .seconds(1)...DurationText.days(3650), default: .seconds(300))
        else {
            warning(
                .signingTimeWindowOff, name,
                "payment tokens of any age are accepted, and claims are never pruned; set a window such as 5m")
            return .off
        }
        return .within(duration)
    }
}
