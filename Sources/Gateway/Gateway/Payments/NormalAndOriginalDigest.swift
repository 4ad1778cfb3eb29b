import Crypto
import Encodings
import StrictJSON

/// Two SHA-256 digests of one text from a client. The first covers the text with each number, hexadecimal and base64
/// value in normal form. The second covers the text as the client wrote it. Different notations of one value have the
/// same normal form. A client may therefore use another notation when it repeats a request.
struct NormalAndOriginalDigest: Sendable, Equatable {
    /// The digest of the text in normal form, 32 bytes.
    let normal: [UInt8]
    /// The digest of the text as the client wrote it, 32 bytes; equal to `normal` if the client used the normal form.
    /// Earlier versions stored only this digest.
    let original: [UInt8]

    /// - Parameter encode: called once for each notation; returns the bytes of the text with its values in this
    ///   notation.
    init(encodedBy encode: (ValueNotation) -> [UInt8]) {
        normal = Array(SHA256.hash(data: encode(.normal)))
        original = Array(SHA256.hash(data: encode(.original)))
    }

    /// Returns true if a stored digest matches the client's text.
    func matches(_ stored: [UInt8]) -> Bool { stored == normal || stored == original }
}

/// A notation of numbers, hexadecimal and base64 values, each of which can be written in several ways. The methods
/// return a value in this notation. A value that cannot be parsed is left unchanged; paytokend refuses it later.
enum ValueNotation {
    /// Numbers without an exponent or trailing zeros, hexadecimal in lower case, and base64 with padding.
    case normal
    /// The notation in which the client wrote the value.
    case original

    func number(_ value: JSONValue) -> JSONValue { choose(value, or: value.numberValue.map { .number($0.plain) }) }

    func hexadecimal(_ value: JSONValue) -> JSONValue {
        choose(value, or: value.stringValue.flatMap { Hexadecimal.decode($0) }.map { .string(Hexadecimal.encode($0)) })
    }

    func base64(_ value: JSONValue) -> JSONValue {
        choose(value, or: value.stringValue.flatMap { Base64.decode($0) }.map { .string(Base64.encode($0)) })
    }

    private func choose(_ original: JSONValue, or normal: @autoclosure () -> JSONValue?) -> JSONValue {
        self == .normal ? normal() ?? original : original
    }
}
