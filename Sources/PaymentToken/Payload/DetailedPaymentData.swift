public import StrictJSON

/// The inner `paymentData` dictionary: "Detailed Payment Data Keys" for 3-D Secure and for EMV.
public enum DetailedPaymentData: Sendable {
    case threeDSecure(ThreeDSecureData)
    case emv(EMVData)
    case other(UnknownData)

    init(type: PaymentDataType, json: JSONObject) {
        switch type {
        case .threeDSecure: self = .threeDSecure(ThreeDSecureData(json: json))
        case .emv: self = .emv(EMVData(json: json))
        case .other: self = .other(UnknownData(json: json))
        }
    }

    public struct ThreeDSecureData: Sendable, Unprintable {
        public let json: JSONObject
        /// Base64, as defined by 3-D Secure.
        public var onlinePaymentCryptogram: String? { json["onlinePaymentCryptogram"]?.stringValue }
        /// The network may add it; when there, it must be passed on to the processor.
        public var eciIndicator: String? { json["eciIndicator"]?.stringValue }
    }

    public struct EMVData: Sendable, Unprintable {
        public let json: JSONObject
        /// Base64 of the Secure Element's EMV structure.
        public var emvData: String? { json["emvData"]?.stringValue }
        /// Hexadecimal; encrypted with the bank's key. RSA_v1 only.
        public var encryptedPINData: String? { json["encryptedPINData"]?.stringValue }
    }

    /// Of a type that was not known when this was written.
    public struct UnknownData: Sendable, Unprintable {
        public let json: JSONObject
    }
}

extension DetailedPaymentData: Unprintable {}
