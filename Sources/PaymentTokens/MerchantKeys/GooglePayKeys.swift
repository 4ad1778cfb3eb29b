public import Foundation

/// The choice of keys for a Google Pay message, which does not name its key. Apps send the public key of an earlier
/// release for months, so the keys of a rotation overlap.
public enum GooglePayKeys {
    /// The most keys that are tried. Each costs an HSM operation, and anyone with a payment token can have them tried.
    public static let maximumTried = 4

    /// Returns the keys that may decrypt now, in the order in which they are tried: those that an HSM token can use first,
    /// then active ones before those that were retired and not yet cut off, then newer ones. A suspended or compromised key
    /// is never among them.
    ///
    /// - Parameter entries: all keys of one merchant for Google Pay.
    public static func tried(_ entries: [KeyEntry], at now: Date) -> [KeyEntry] {
        Array(
            entries.filter { $0.use == .googlePay && $0.decrypts(at: now) }.sorted(by: precedes)
                .prefix(maximumTried))
    }

    private static func precedes(_ one: KeyEntry, _ other: KeyEntry) -> Bool {
        if (one.condition == .served) != (other.condition == .served) { return one.condition == .served }
        if one.state != other.state { return one.state == .active }
        let (first, second) = (one.createdAt ?? .distantPast, other.createdAt ?? .distantPast)
        // Keys of the same moment have an order too, so that every node tries them alike.
        return first == second
            ? one.publicKeyHash.bytes.lexicographicallyPrecedes(other.publicKeyHash.bytes) : first > second
    }
}
