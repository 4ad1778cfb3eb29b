import Encodings
public import Foundation
public import Refusals

/// The body of `POST /v1/rotations`.
public struct RotationStartRequest: StrictRequest {
    public var merchantIdentifier: String
    /// `processing`, also when absent, or `identity`.
    public var use: String?
    /// `EC` or `RSA`; without it, what the merchant's active key is.
    public var type: String?
    /// The token's name in the configuration; without it, where the merchant's active key is.
    public var token: String?

    public init(merchantIdentifier: String, use: String? = nil, type: String? = nil, token: String? = nil) {
        self.merchantIdentifier = merchantIdentifier
        self.use = use
        self.type = type
        self.token = token
    }

    public enum CodingKeys: CodingKey, CaseIterable { case merchantIdentifier, use, type, token }
}

/// The body of `POST /v1/rotations/{merchant}/finish`.
public struct RotationFinishRequest: StrictRequest {
    /// Until when the old key still opens payment tokens. In JSON: absent, null or a time.
    public enum CutOff: Sendable, Equatable {
        /// The daemon's: seven days from now; for an identity key at once, since it signs nothing once it is deactivated.
        case standard
        /// It does not any more.
        case now
        case at(Date)
    }

    /// `processing`, also when absent, or `identity`.
    public var use: String?
    /// `EC` or `RSA`; needed when keys of both are being rotated.
    public var type: String?
    public var cutOff: CutOff
    /// Finishes although payment tokens still arrive under the old key, or none has under the new one; false when absent.
    public var force: Bool
    /// Why, for the record: 1 to 200 characters; `rotated` when absent.
    public var reason: String

    public init(
        use: String? = nil, type: String? = nil, cutOff: CutOff = .standard, force: Bool = false,
        reason: String = "rotated"
    ) {
        self.use = use
        self.type = type
        self.cutOff = cutOff
        self.force = force
        self.reason = reason
    }

    public enum CodingKeys: CodingKey, CaseIterable { case use, type, cutOff, force, reason }

    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        use = try members.decodeIfPresent(String.self, forKey: .use)
        type = try members.decodeIfPresent(String.self, forKey: .type)
        force = try members.decodeIfPresent(Bool.self, forKey: .force) ?? false
        reason = try members.decodeIfPresent(String.self, forKey: .reason) ?? "rotated"
        cutOff = members.contains(.cutOff) ? try members.decode(CutOff.self, forKey: .cutOff) : .standard
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encodeIfPresent(use, forKey: .use)
        try members.encodeIfPresent(type, forKey: .type)
        try members.encode(force, forKey: .force)
        try members.encode(reason, forKey: .reason)
        switch cutOff {
        case .standard: break
        case .now: try members.encodeNil(forKey: .cutOff)
        case .at(let date): try members.encode(date, forKey: .cutOff)
        }
    }

    public func validate() throws(Refusal) { try validate(reason: reason) }
}

extension RotationFinishRequest.CutOff: Decodable {
    /// Of the member where it is there: null or a time.
    public init(from decoder: any Decoder) throws {
        let member = try decoder.singleValueContainer()
        if member.decodeNil() {
            self = .now
        } else if let time = RFC3339.date(try member.decode(String.self)) {
            self = .at(time)
        } else {
            throw RequestMembers.wrongType("cutOff", "an RFC 3339 time or null")
        }
    }
}
