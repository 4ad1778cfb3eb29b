// The daemon's HTTP API, as both of its ends see it: the daemon reads requests and writes answers with these types, paytokenctl
// (and tests) writes requests and reads answers, and neither has a second description of them. openapi.json beside this file
// tells the same to everybody else, and a test holds it against real answers.
//
// Requests/  what the daemon reads, strictly: begin with StrictRequest.swift
// Answers/   what it writes; a file for each subject
// Client/    one connection, one request, one answer over a Unix socket: begin with UnixSocketClient.swift
// ErrorTable.swift   the one table from a refusal's code to HTTP status, Retry-After and exit status
//
// Guaranteed: a request that is not exactly of its type is refused before anything is done; a refusal never repeats a piece
// of the request's body; members, codes and exit statuses are the contract and do not change.

import Encodings
import Foundation

/// How this module's types become bytes and are read again: members sorted, slashes plain, times as ``RFC3339``,
/// byte strings as standard base64.
///
/// For answers that people and scripts ask for now and then. The hot ones (decryptions, refusals, lists of keys) are
/// written with StrictJSON's writer.
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

    /// Unknown members are ignored, so that an older program reads a newer daemon.
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

/// A member that is null where nothing is known, so that scripts need not test for its presence: Codable by itself would
/// leave it out.
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
    /// What synthesised reading calls for a ``Nullable`` member, so that one which another version leaves out is nil, too.
    public func decode<Value>(_ type: Nullable<Value>.Type, forKey key: Key) throws -> Nullable<Value> {
        Nullable(wrappedValue: try decodeIfPresent(Value.self, forKey: key))
    }
}

/// What a key is for. A daemon that says no use is one that knows `processing` keys only.
@propertyWrapper
public struct StatedUse: Codable, Sendable, Equatable {
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
    /// What synthesised reading calls for a ``StatedUse`` member.
    func decode(_ type: StatedUse.Type, forKey key: Key) throws -> StatedUse {
        StatedUse(wrappedValue: try decodeIfPresent(String.self, forKey: key) ?? "processing")
    }
}
