public import StrictJSON

/// One submerchant's part of a multitoken request.
public struct AuthenticationResponse: Sendable, Unprintable {
    public let json: JSONObject
    /// The submerchant, as the coordinating merchant named it.
    public var merchantIdentifier: String? { json["merchantIdentifier"]?.stringValue }
    /// The payment network's cryptogram for the submerchant.
    public var authenticationData: String? { json["authenticationData"]?.stringValue }
    /// The amount authorised for the submerchant. Apple writes this one as a string; a number is read as well.
    public var transactionAmount: ExactDecimal? {
        switch json["transactionAmount"] {
        case .string(let text): ExactDecimal(text)
        case .number(let number): number.decimal
        default: nil
        }
    }
}
