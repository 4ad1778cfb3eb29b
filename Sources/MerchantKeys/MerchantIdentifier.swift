/// What Apple calls a merchant: `merchant.com.example`.
public enum MerchantIdentifier {
    /// Whether a text may be one: 1 to 255 bytes of UTF-8 without control characters. Apple's form is not insisted on.
    public static func isPossible(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count)
            && text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    }
}
