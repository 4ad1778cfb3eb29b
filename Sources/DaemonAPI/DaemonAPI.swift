import Encodings
import Foundation

/// How this module's types become bytes and are read again: members sorted, slashes plain, times as ``RFC3339``,
/// byte strings as standard base64.
///
/// For answers that people and scripts ask for now and then. The hot answers (decrypt, verify, refusals) are written
/// with StrictJSON's writer.
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
