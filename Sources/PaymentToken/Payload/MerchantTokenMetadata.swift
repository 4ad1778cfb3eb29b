public import StrictJSON

/// The card behind a merchant token: Apple's MerchantTokenMetadata.
public struct MerchantTokenMetadata: Sendable, Unprintable {
    public let json: JSONObject
    /// Last four digits, expiration date and the like of the card behind the token.
    public var cardMetadata: JSONObject? { json["cardMetadata"]?.objectValue }
    /// The card's pictures.
    public var cardArt: [JSONValue]? { json["cardArt"]?.arrayValue }
}
