// The daemon's HTTP API as both sides use it. The daemon reads requests and writes answers with these types. paytokenctl
// and the tests write requests and read answers with the same types. openapi.json in this folder describes the API for
// other clients, and a test checks it against real answers.
//
// Requests/  the requests, which the daemon parses strictly: begin with StrictRequest.swift
// Answers/   the answers, one file for each subject
// Client/    the clients of the Unix socket: begin with UnixSocketClient.swift
// ErrorTable.swift   the HTTP status, Retry-After and exit status for each refusal code
//
// Guarantees: the daemon refuses a request that does not match its type exactly, before it does anything else. A refusal
// never repeats any part of the request's body. Members, codes and exit statuses are the public contract and do not change.

import Encodings
import Foundation

/// The JSON encoding of this module's types: members sorted by name, slashes unescaped, times as in ``RFC3339``.
///
/// Frequent answers (decryptions, refusals, lists of keys) do not use it: they are written with StrictJSON's `JSONWriter`,
/// which is faster.
public enum JSONCoding {
    public static func encode(_ value: some Encodable) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .custom { date, encoder in
            var container = encoder.singleValueContainer()
            try container.encode(RFC3339.string(date))
        }
        return Array(try encoder.encode(value))
    }

    /// Decodes a value. Unknown members are ignored, so that an older program can read the answers of a newer daemon.
    public static func decode<T: Decodable>(_ type: T.Type, from bytes: [UInt8]) throws -> T {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .custom { decoder in
            let container = try decoder.singleValueContainer()
            guard let date = RFC3339.date(try container.decode(String.self)) else {
                throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a time of RFC 3339")
            }
            return date
        }
        return try decoder.decode(type, from: Data(bytes))
    }
}

/// A member that is encoded as null if it is nil, so that scripts need not test for its presence. Codable by itself would
/// leave the member out.
@propertyWrapper
public struct Nullable<Value: Codable & Sendable & Equatable>: Codable, Sendable, Equatable {
    public var wrappedValue: Value?

    public init(wrappedValue: Value?) {
        self.wrappedValue = wrappedValue
    }

    public init(from decoder: any Decoder) throws {
        let member = try decoder.singleValueContainer()
        wrappedValue = member.decodeNil() ? nil : try member.decode(Value.self)
    }

    public func encode(to encoder: any Encoder) throws {
        var member = encoder.singleValueContainer()
        if let wrappedValue { try member.encode(wrappedValue) } else { try member.encodeNil() }
    }
}

extension KeyedDecodingContainer {
    /// Replaces the standard implementation in synthesised decoding of a ``Nullable`` member. It also accepts answers of
    /// another version that lack the member, which is then nil.
    public func decode<Value>(_ type: Nullable<Value>.Type, forKey key: Key) throws -> Nullable<Value> {
        Nullable(wrappedValue: try decodeIfPresent(Value.self, forKey: key))
    }
}

/// The use of a key: `processing` or `identity`. An answer without the member means `processing`, since the daemon that
/// sent it supports no other use.
@propertyWrapper
public struct KeyUseField: Codable, Sendable, Equatable {
    public var wrappedValue: String

    public init(wrappedValue: String) {
        self.wrappedValue = wrappedValue
    }

    public init(from decoder: any Decoder) throws {
        wrappedValue = try decoder.singleValueContainer().decode(String.self)
    }

    public func encode(to encoder: any Encoder) throws {
        var member = encoder.singleValueContainer()
        try member.encode(wrappedValue)
    }
}

extension KeyedDecodingContainer {
    /// Replaces the standard implementation in synthesised decoding of a ``KeyUseField`` member.
    func decode(_ type: KeyUseField.Type, forKey key: Key) throws -> KeyUseField {
        KeyUseField(wrappedValue: try decodeIfPresent(String.self, forKey: key) ?? "processing")
    }
}
