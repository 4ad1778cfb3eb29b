import Foundation

/// Encodes ASN.1 in DER, or in BER with indefinite lengths (X.690).
///
/// It shares no code with the tested programs, so that an error in their encoding cannot hide itself.
enum DEREncoder {
    /// Encodes an element with a definite length in the shortest form (X.690 §8.1).
    static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        var header: [UInt8] = [tag]
        if content.count < 0x80 {
            header.append(UInt8(content.count))
        } else {
            var length: [UInt8] = []
            var rest = content.count
            while rest > 0 {
                length.insert(UInt8(rest & 0xff), at: 0)
                rest >>= 8
            }
            header.append(0x80 | UInt8(length.count))
            header += length
        }
        return header + content
    }

    /// Encodes a constructed element of indefinite length, with its end-of-contents octets (X.690 §8.1.3.6).
    static func indefinite(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        [tag, 0x80] + content + [0x00, 0x00]
    }

    static func sequence(_ parts: [UInt8]...) -> [UInt8] { element(0x30, parts.flatMap { $0 }) }

    static func sequence(of parts: [[UInt8]]) -> [UInt8] { element(0x30, parts.flatMap { $0 }) }

    /// Encodes a SET OF, whose members are in ascending order of their encodings (X.690 §11.6).
    static func set(of parts: [[UInt8]]) -> [UInt8] {
        element(0x31, sorted(parts).flatMap { $0 })
    }

    /// Sorts encodings in the order of a SET OF. A shorter encoding compares as if it were padded with zeros.
    static func sorted(_ parts: [[UInt8]]) -> [[UInt8]] {
        parts.sorted { $0.lexicographicallyPrecedes($1) }
    }

    static func boolean(_ value: Bool) -> [UInt8] { element(0x01, [value ? 0xff : 0x00]) }

    static func integer(_ value: UInt8) -> [UInt8] { integer([value]) }

    /// Encodes a non-negative INTEGER, whose bytes are big-endian.
    static func integer(_ magnitude: [UInt8]) -> [UInt8] {
        var bytes = Array(magnitude.drop { $0 == 0 })
        if bytes.isEmpty || bytes[0] & 0x80 != 0 { bytes.insert(0, at: 0) }
        return element(0x02, bytes)
    }

    static let null: [UInt8] = [0x05, 0x00]

    static func octetString(_ bytes: [UInt8]) -> [UInt8] { element(0x04, bytes) }

    static func bitString(_ bytes: [UInt8], unusedBits: UInt8 = 0) -> [UInt8] { element(0x03, [unusedBits] + bytes) }

    static func utf8String(_ text: String) -> [UInt8] { element(0x0c, Array(text.utf8)) }

    static func printableString(_ text: String) -> [UInt8] { element(0x13, Array(text.utf8)) }

    static func ia5String(tag: UInt8 = 0x16, _ text: String) -> [UInt8] { element(tag, Array(text.utf8)) }

    /// Wraps an element in `[number]` EXPLICIT.
    static func explicit(_ number: UInt8, _ content: [UInt8]) -> [UInt8] { element(0xa0 | number, content) }

    /// Encodes an OBJECT IDENTIFIER in dotted form (X.690 §8.19).
    static func objectIdentifier(_ dotted: String) -> [UInt8] {
        let arcs = dotted.split(separator: ".").compactMap { UInt64($0) }
        var body: [UInt8] = []
        for arc in [arcs[0] * 40 + arcs[1]] + arcs.dropFirst(2) {
            var septets: [UInt8] = [UInt8(arc & 0x7f)]
            var rest = arc >> 7
            while rest > 0 {
                septets.insert(UInt8(rest & 0x7f) | 0x80, at: 0)
                rest >>= 7
            }
            body += septets
        }
        return element(0x06, body)
    }

    /// Encodes a time, as UTCTime until 2049 and as GeneralizedTime from 2050 (RFC 5280 §4.1.2.5, RFC 5652 §11.3).
    static func time(_ date: Date) -> [UInt8] {
        calendar.component(.year, from: date) < 2050 ? utcTime(date) : generalizedTime(date)
    }

    static func utcTime(_ date: Date) -> [UInt8] {
        element(0x17, Array(digits(date).dropFirst(2)) + [UInt8(ascii: "Z")])
    }

    static func generalizedTime(_ date: Date) -> [UInt8] {
        element(0x18, digits(date) + [UInt8(ascii: "Z")])
    }

    /// Formats a time as YYYYMMDDHHMMSS in UTC.
    private static func digits(_ date: Date) -> [UInt8] {
        let parts = calendar.dateComponents([.year, .month, .day, .hour, .minute, .second], from: date)
        func padded(_ value: Int?, _ width: Int) -> String {
            let text = String(value ?? 0)
            return String(repeating: "0", count: max(0, width - text.count)) + text
        }
        return Array(
            (padded(parts.year, 4) + padded(parts.month, 2) + padded(parts.day, 2) + padded(parts.hour, 2)
                + padded(parts.minute, 2) + padded(parts.second, 2)).utf8)
    }

    private static let calendar: Calendar = {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        return calendar
    }()
}

/// The object identifiers of payment tokens and certificates, in dotted form.
enum OID {
    // Names (X.520; userId is RFC 4519's 0.9.2342.19200300.100.1.1).
    static let commonName = "2.5.4.3"
    static let countryName = "2.5.4.6"
    static let organizationName = "2.5.4.10"
    static let organizationalUnitName = "2.5.4.11"
    static let userID = "0.9.2342.19200300.100.1.1"

    // Keys and signatures.
    static let ecPublicKey = "1.2.840.10045.2.1"
    static let prime256v1 = "1.2.840.10045.3.1.7"
    static let ecdsaWithSHA256 = "1.2.840.10045.4.3.2"
    static let ecdsaWithSHA384 = "1.2.840.10045.4.3.3"
    static let rsaEncryption = "1.2.840.113549.1.1.1"
    static let sha1WithRSAEncryption = "1.2.840.113549.1.1.5"
    static let sha256WithRSAEncryption = "1.2.840.113549.1.1.11"
    static let ecdsaWithSHA1 = "1.2.840.10045.4.1"
    static let sha1 = "1.3.14.3.2.26"
    static let sha256 = "2.16.840.1.101.3.4.2.1"

    // Certificate extensions (RFC 5280 §4.2).
    static let subjectKeyIdentifier = "2.5.29.14"
    static let keyUsage = "2.5.29.15"
    static let basicConstraints = "2.5.29.19"
    static let crlDistributionPoints = "2.5.29.31"
    static let certificatePolicies = "2.5.29.32"
    static let authorityKeyIdentifier = "2.5.29.35"
    static let extendedKeyUsage = "2.5.29.37"
    static let authorityInformationAccess = "1.3.6.1.5.5.7.1.1"
    static let ocsp = "1.3.6.1.5.5.7.48.1"
    static let clientAuth = "1.3.6.1.5.5.7.3.2"

    // Apple's own: the two marker OIDs of "Payment token format reference", step 1, and the merchant identifier.
    static let leafMarker = "1.2.840.113635.100.6.29"
    static let intermediateMarker = "1.2.840.113635.100.6.2.14"
    static let merchantIdentifier = "1.2.840.113635.100.6.32"
    static let appleCertificatePolicy = "1.2.840.113635.100.5.1"
    static let unknownExtension = "1.2.840.113635.100.6.999"

    // CMS (RFC 5652 §11; cmsAlgorithmProtection is RFC 6211).
    static let data = "1.2.840.113549.1.7.1"
    static let signedData = "1.2.840.113549.1.7.2"
    static let contentType = "1.2.840.113549.1.9.3"
    static let messageDigest = "1.2.840.113549.1.9.4"
    static let signingTime = "1.2.840.113549.1.9.5"
    static let algorithmProtection = "1.2.840.113549.1.9.52"
}
