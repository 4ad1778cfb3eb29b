import Encodings
public import Foundation
public import Refusals

/// The body of `POST /v1/rotations`.
public struct RotationStartRequest: Codable, Sendable, Equatable {
    public var merchantIdentifier: String
    /// `EC` or `RSA`; without it, what the merchant's active key is.
    public var type: String?
    /// The token's name in the configuration; without it, where the merchant's active key is.
    public var token: String?

    public init(merchantIdentifier: String, type: String? = nil, token: String? = nil) {
        self.merchantIdentifier = merchantIdentifier
        self.type = type
        self.token = token
    }

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["merchantIdentifier", "type", "token"])
        merchantIdentifier = try body.requiredString("merchantIdentifier")
        type = try body.string("type")
        token = try body.string("token")
    }
}

/// The body of `POST /v1/rotations/{merchant}/finish`.
public struct RotationFinishRequest: Codable, Sendable, Equatable {
    /// Until when the old key still opens tokens.
    public enum CutOff: Sendable, Equatable {
        /// The daemon's: seven days from now.
        case standard
        /// It does not any more.
        case now
        case at(Date)
    }

    /// `EC` or `RSA`; needed when keys of both are being rotated.
    public var type: String?
    /// A time; null for now; absent for the standard.
    public var cutOff: CutOff
    /// Finishes although tokens still arrive under the old key, or none has under the new one.
    public var force: Bool
    /// At most 200 printable characters; recorded.
    public var reason: String

    public init(type: String? = nil, cutOff: CutOff = .standard, force: Bool = false, reason: String = "rotated") {
        self.type = type
        self.cutOff = cutOff
        self.force = force
        self.reason = reason
    }

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["type", "cutOff", "force", "reason"])
        type = try body.string("type")
        force = try body.bool("force") ?? false
        reason = body.members["reason"] == nil ? "rotated" : try body.reason()
        switch body.members["cutOff"] {
        case nil: cutOff = .standard
        case .some(let value) where value.isNull: cutOff = .now
        default:
            guard let date = try body.string("cutOff").flatMap(RFC3339.date) else {
                throw RequestBody.wrongType("cutOff", "an RFC 3339 time or null")
            }
            cutOff = .at(date)
        }
    }

    private enum CodingKeys: String, CodingKey {
        case type, cutOff, force, reason
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        type = try container.decodeIfPresent(String.self, forKey: .type)
        force = try container.decodeIfPresent(Bool.self, forKey: .force) ?? false
        reason = try container.decodeIfPresent(String.self, forKey: .reason) ?? "rotated"
        cutOff =
            if !container.contains(.cutOff) {
                .standard
            } else if let date = try container.decodeIfPresent(Date.self, forKey: .cutOff) {
                .at(date)
            } else {
                .now
            }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(type, forKey: .type)
        try container.encode(force, forKey: .force)
        try container.encode(reason, forKey: .reason)
        switch cutOff {
        case .standard: break
        case .now: try container.encodeNil(forKey: .cutOff)
        case .at(let date): try container.encode(date, forKey: .cutOff)
        }
    }
}
