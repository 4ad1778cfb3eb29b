internal import Crypto
internal import Refusals
internal import StrictJSON

/// The applicationData of the payment request that the caller made.
public enum ExpectedApplicationData: Sendable, Equatable {
    /// The request had none, so the token must have none.
    case none
    /// SHA-256 of the original data, 32 bytes: what the token's header must carry.
    case hash([UInt8])
}

extension ExpectedApplicationData {
    /// `applicationData`: base64 of the original data, or null for none.
    init(data value: JSONValue) throws(Refusal) {
        if value.isNull {
            self = .none
        } else {
            guard let text = value.stringValue, let data = Base64.decode(text)
            else { throw .malformedExpectation("applicationData is neither base64 nor null") }
            self = .hash(Array(SHA256.hash(data: data)))
        }
    }

    /// `applicationDataHash`: the hash itself, 64 hexadecimal digits.
    init(hash value: JSONValue) throws(Refusal) {
        guard let text = value.stringValue, let hash = Hexadecimal.decode(text), hash.count == 32
        else { throw .malformedExpectation("applicationDataHash is not 64 hexadecimal digits") }
        self = .hash(hash)
    }
}

extension Refusal {
    static func malformedExpectation(_ details: String) -> Refusal {
        Refusal(
            .malformedRequest, "The request's expected member cannot be read; correct the request.",
            details: "expected: \(details)")
    }
}
