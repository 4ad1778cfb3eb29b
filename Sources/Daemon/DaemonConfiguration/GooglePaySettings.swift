import ConfigurationFile
import MerchantKeys

/// The section `google_pay`.
package struct GooglePaySettings: Sendable, Equatable {
    static let keys = ["message_lifetime", "quiet"]
    private static let day = Duration.seconds(86_400)

    /// The time from a message's signature to its expiration. Google writes only the expiration; about a week is what its
    /// TEST environment gives. A shorter time would count a message as signed later than it was, after fences of pruned
    /// claims and restores that its claim was made before. A longer one is safe.
    package var messageLifetime = day * 7
    /// The time without a payment after which an old key counts as unused in a rotation.
    package var quiet = Duration.seconds(GooglePayRotation.standardQuiet)

    package init() {}

    init(_ section: ConfigurationSection) {
        messageLifetime = section.duration("message_lifetime", in: Self.day * 7...Self.day * 30, default: Self.day * 7)
        quiet = section.duration("quiet", in: Self.day...Self.day * 180, default: quiet)
    }
}
