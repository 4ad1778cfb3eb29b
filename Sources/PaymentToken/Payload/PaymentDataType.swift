/// The `paymentDataType` member of the payment data.
public enum PaymentDataType: Sendable, Equatable {
    case threeDSecure
    case emv
    /// A type that was not known when this was written.
    case other(String)

    public init(_ name: String) {
        switch name {
        case "3DSecure": self = .threeDSecure
        case "EMV": self = .emv
        default: self = .other(name)
        }
    }
}
