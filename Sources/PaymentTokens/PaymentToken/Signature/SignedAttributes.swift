internal import Encodings
internal import Foundation
internal import SwiftASN1

/// What the signer signed directly, RFC 5652 §5.3 and §11:
///
///     SignedAttributes ::= SET SIZE (1..MAX) OF Attribute
///     Attribute        ::= SEQUENCE { attrType OBJECT IDENTIFIER, attrValues SET OF AttributeValue }
///
/// contentType, signingTime and messageDigest must be there; cmsAlgorithmProtection may be (Apple's tokens have it
/// since about 2019); no attribute may occur twice, and these four have exactly one value. Attributes that are not
/// known are allowed.
struct SignedAttributes {
    /// The bytes that are signed: the SET OF in DER under its own tag, where the message has [0] (RFC 5652 §5.4).
    let der: [UInt8]
    let signingTime: Date
    /// 32 bytes.
    let messageDigest: [UInt8]

    /// - Parameter encoding: the `[0] IMPLICIT` element of the SignerInfo.
    init(_ encoding: ArraySlice<UInt8>, signatureAlgorithm: AlgorithmIdentifier) throws {
        der = [BERElement.set] + encoding.dropFirst()
        // RFC 5652 §5.3: signed attributes are DER even where the rest is BER. They are read again as DER, so that what is
        // checked below is byte for byte what was signed.
        let (reader, attributes) = try Self.attributes(der)
        guard Set(attributes.map(\.type)).count == attributes.count
        else { throw CMSDefect("a signed attribute is repeated") }
        func value(_ type: EncodedObjectIdentifier, _ name: String) throws -> BERReader? {
            guard let attribute = attributes.first(where: { attribute in attribute.type == type }) else { return nil }
            let values = try reader.elements(of: attribute.values)
            var rest = values
            if !rest.isAtEnd { _ = try rest.next() }
            guard !values.isAtEnd, rest.isAtEnd else { throw CMSDefect("\(name) has not exactly one value") }
            return values
        }
        func required(_ type: EncodedObjectIdentifier, _ name: String) throws -> BERReader {
            guard let value = try value(type, name) else { throw CMSDefect("the signed attribute \(name) is missing") }
            return value
        }

        var contentType = try required(.contentTypeAttribute, "contentType")
        guard try contentType.objectIdentifier() == .cmsData else {
            throw CMSDefect("the signed contentType is not data")
        }
        var time = try required(.signingTimeAttribute, "signingTime")
        signingTime = try SigningTime.date(of: time.encoding(of: time.next()))
        var digest = try required(.messageDigestAttribute, "messageDigest")
        messageDigest = Array(digest.content(of: try digest.next(BERElement.octetString)))
        if var protection = try value(.cmsAlgorithmProtectionAttribute, "cmsAlgorithmProtection") {
            try Self.checkAlgorithmProtection(&protection, signatureAlgorithm: signatureAlgorithm)
        }
    }

    /// The attributes of a SET OF in DER, in ascending order of their encodings (X.690 §11.6).
    private static func attributes(_ der: [UInt8]) throws -> (BERReader, [CMSAttribute]) {
        var reader = BERReader(der, .distinguished)
        do {
            try reader.checkNested()
            var set = try reader.elements(of: reader.next(BERElement.set))
            var attributes: [CMSAttribute] = []
            var last: ArraySlice<UInt8> = []
            while !set.isAtEnd {
                let element = try set.next(BERElement.sequence)
                let encoding = set.encoding(of: element)
                guard !encoding.lexicographicallyPrecedes(last) else { throw BERReader.Malformed() }
                last = encoding
                attributes.append(try CMSAttribute(element, in: set))
            }
            return (reader, attributes)
        } catch let defect as CMSDefect {
            throw defect
        } catch {
            throw CMSDefect("the signed attributes are not DER")
        }
    }

    /// RFC 6211 §2:
    ///
    ///     CMSAlgorithmProtection ::= SEQUENCE {
    ///         digestAlgorithm DigestAlgorithmIdentifier,
    ///         signatureAlgorithm [1] SignatureAlgorithmIdentifier OPTIONAL,
    ///         macAlgorithm [2] MessageAuthenticationCodeAlgorithm OPTIONAL }
    private static func checkAlgorithmProtection(
        _ value: inout BERReader, signatureAlgorithm: AlgorithmIdentifier
    ) throws {
        var parts = try value.elements(of: value.next(BERElement.sequence))
        let signature = BERElement.constructed(contextSpecific: 1)
        guard !parts.isAtEnd, try AlgorithmIdentifier(&parts) == AlgorithmIdentifier(.sha256),
            parts.nextIdentifier == signature,
            try AlgorithmIdentifier(&parts, identifier: signature) == signatureAlgorithm, parts.isAtEnd
        else { throw CMSDefect("cmsAlgorithmProtection differs from the signer's algorithms") }
    }
}

/// One attribute, its values not yet read.
private struct CMSAttribute {
    let type: EncodedObjectIdentifier
    let values: BERElement

    init(_ element: BERElement, in set: BERReader) throws {
        var parts = try set.elements(of: element)
        type = try parts.objectIdentifier()
        guard parts.nextIdentifier == BERElement.set else { throw CMSDefect("a signed attribute has no set of values") }
        values = try parts.next()
        guard parts.isAtEnd else { throw BERReader.Malformed() }
    }
}

/// The signing-time attribute's value, RFC 5652 §11.3:
///
///     Time ::= CHOICE { utcTime UTCTime, generalizedTime GeneralizedTime }
enum SigningTime {
    /// Dates from 1950 to 2049 must be UTCTime, others GeneralizedTime, both to the second and in UTC.
    static func date(of encoding: ArraySlice<UInt8>) throws -> Date {
        do {
            let node = try DER.parse(encoding)
            switch node.identifier {
            case .utcTime:
                let time = try UTCTime(derEncoded: node)
                return date(
                    year: time.year, month: time.month, day: time.day, hours: time.hours, minutes: time.minutes,
                    seconds: time.seconds)
            case .generalizedTime:
                let time = try GeneralizedTime(derEncoded: node)
                guard !(1950...2049).contains(time.year), time.rawFractionalSeconds.isEmpty
                else { throw CMSDefect("signingTime is a GeneralizedTime that RFC 5652 does not allow") }
                return date(
                    year: time.year, month: time.month, day: time.day, hours: time.hours, minutes: time.minutes,
                    seconds: time.seconds)
            default:
                throw CMSDefect("signingTime is neither a UTCTime nor a GeneralizedTime")
            }
        } catch let defect as CMSDefect {
            throw defect
        } catch {
            throw CMSDefect("signingTime is malformed")
        }
    }

    private static func date(
        year: Int, month: Int, day: Int, hours: Int, minutes: Int, seconds: Int
    ) -> Date {
        let days = GregorianCalendar.daysSince1970(year: year, month: month, day: day)
        return Date(timeIntervalSince1970: Double(((days * 24 + hours) * 60 + minutes) * 60 + seconds))
    }
}
