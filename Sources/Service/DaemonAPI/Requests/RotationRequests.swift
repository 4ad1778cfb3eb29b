import Encodings
public import Foundation
public import Refusals

/// The body of `POST /v1/rotations`.
public struct RotationStartRequest: StrictRequest {
    public var merchantIdentifier: String
    /// `processing`, the default, `identity` or `google-pay`.
    public var use: String?
    /// `EC` or `RSA`; by default the type of the merchant's active key.
    public var type: String?
    /// The name of an HSM token in the configuration; by default the HSM token that holds the merchant's active key.
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
    /// The time until which the old key still opens payment tokens. In JSON the member is absent (`standard`), null (`now`)
    /// or a time.
    public enum CutOff: Sendable, Equatable {
        /// The default: seven days from now for a processing key. An identity key stops at once, since a deactivated one
        /// signs nothing.
        case standard
        /// The time of the request: the old key stops at once.
        case now
        case at(Date)
    }

    /// `processing`, the default, or `identity`.
    public var use: String?
    /// `EC` or `RSA`; required if keys of both types are being rotated.
    public var type: String?
    public var cutOff: CutOff
    /// True if the rotation is to finish even if payment tokens still arrive for the old key, or none has arrived for the
    /// new one. Absent means false.
    public var force: Bool
    /// The reason, which goes into the record: 1 to 200 characters. Absent means `rotated`.
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
    /// Reads a member that is present: null or a time.
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

/// The body of `POST /v1/rotations/added`: a person's statement that the public half of a Google Pay key is in Google's
/// console.
public struct RotationAddedRequest: StrictRequest {
    /// The key, by its publicKeyHash in base64 or the first digits of its publicKeyHash in hexadecimal.
    public var key: String
    /// The nodes without whose proofs the key becomes active. Absent means none.
    public var excludeNodes: [String]?
    /// The reason, which goes into the record: 1 to 200 characters. Absent means `added in Google's console`.
    public var reason: String

    public init(key: String, excludeNodes: [String]? = nil, reason: String = Self.standardReason) {
        self.key = key
        self.excludeNodes = excludeNodes
        self.reason = reason
    }

    public static let standardReason = "added in Google's console"

    public enum CodingKeys: CodingKey, CaseIterable { case key, excludeNodes, reason }

    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        key = try members.decode(String.self, forKey: .key)
        excludeNodes = try members.decodeIfPresent([String].self, forKey: .excludeNodes)
        reason = try members.decodeIfPresent(String.self, forKey: .reason) ?? Self.standardReason
    }

    public func validate() throws(Refusal) { try validate(reason: reason) }
}

/// The body of `POST /v1/rotations/removed`: a person's statement that the public half of an old Google Pay key was removed
/// in Google's console.
public struct RotationRemovedRequest: StrictRequest {
    /// The key, by its publicKeyHash in base64 or the first digits of its publicKeyHash in hexadecimal.
    public var key: String
    /// The time of the removal. Absent means the time of the request.
    public var removedAt: Date?
    /// The time until which the key opens late messages, at least eight days after the removal. Absent means ten days after
    /// it. A key whose cut-off has passed stops at once.
    public var cutOff: Date?
    /// True if the removal is to be recorded although the key is in use, or the new one has opened nothing. Absent means
    /// false.
    public var force: Bool
    /// The reason, which goes into the record: 1 to 200 characters. Absent means `removed in Google's console`.
    public var reason: String

    public init(
        key: String, removedAt: Date? = nil, cutOff: Date? = nil, force: Bool = false,
        reason: String = Self.standardReason
    ) {
        self.key = key
        self.removedAt = removedAt
        self.cutOff = cutOff
        self.force = force
        self.reason = reason
    }

    public static let standardReason = "removed in Google's console"

    public enum CodingKeys: CodingKey, CaseIterable { case key, removedAt, cutOff, force, reason }

    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        key = try members.decode(String.self, forKey: .key)
        removedAt = try members.decodeIfPresent(Date.self, forKey: .removedAt)
        cutOff = try members.decodeIfPresent(Date.self, forKey: .cutOff)
        force = try members.decodeIfPresent(Bool.self, forKey: .force) ?? false
        reason = try members.decodeIfPresent(String.self, forKey: .reason) ?? Self.standardReason
    }

    public func validate() throws(Refusal) { try validate(reason: reason) }
}
