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

    /// - Parameter node: the `[0] IMPLICIT` element of the SignerInfo.
    init(_ node: ASN1Node, signatureAlgorithm: AlgorithmIdentifier) throws {
        let set = [0x31] + node.encodedBytes.dropFirst()
        // RFC 5652 §5.3: signed attributes are DER even where the rest is BER. They are parsed again as DER, so that what
        // is checked below is byte for byte what was signed.
        let attributes: [CMSAttribute]
        do {
            attributes = try DER.set(of: CMSAttribute.self, identifier: .set, rootNode: try DER.parse(set))
        } catch let defect as CMSDefect {
            throw defect
        } catch {
            throw CMSDefect("the signed attributes are not DER")
        }
        guard Set(attributes.map(\.type)).count == attributes.count
        else { throw CMSDefect("a signed attribute is repeated") }
        func value(_ type: ASN1ObjectIdentifier, _ name: String) throws -> ASN1Node? {
            guard let attribute = attributes.first(where: { attribute in attribute.type == type }) else { return nil }
            guard attribute.values.count == 1 else { throw CMSDefect("\(name) has not exactly one value") }
            return attribute.values[0]
        }
        func required(_ type: ASN1ObjectIdentifier, _ name: String) throws -> ASN1Node {
            guard let value = try value(type, name) else { throw CMSDefect("the signed attribute \(name) is missing") }
            return value
        }

        let contentType = try required(.contentTypeAttribute, "contentType")
        guard try ASN1ObjectIdentifier(derEncoded: contentType) == .cmsData
        else { throw CMSDefect("the signed contentType is not data") }
        signingTime = try SigningTime.date(of: try required(.signingTimeAttribute, "signingTime"))
        messageDigest = Array(
            try ASN1OctetString(derEncoded: try required(.messageDigestAttribute, "messageDigest")).bytes)
        if let protection = try value(.cmsAlgorithmProtectionAttribute, "cmsAlgorithmProtection") {
            try Self.checkAlgorithmProtection(protection, signatureAlgorithm: signatureAlgorithm)
        }
        der = set
    }

    /// RFC 6211 §2:
    ///
    ///     CMSAlgorithmProtection ::= SEQUENCE {
    ///         digestAlgorithm DigestAlgorithmIdentifier,
    ///         signatureAlgorithm [1] SignatureAlgorithmIdentifier OPTIONAL,
    ///         macAlgorithm [2] MessageAuthenticationCodeAlgorithm OPTIONAL }
    private static func checkAlgorithmProtection(
        _ node: ASN1Node, signatureAlgorithm: AlgorithmIdentifier
    ) throws {
        let mismatch = CMSDefect("cmsAlgorithmProtection differs from the signer's algorithms")
        try DER.sequence(node, identifier: .sequence) { nodes in
            guard let digest = nodes.next(), try AlgorithmIdentifier(digest) == AlgorithmIdentifier(.sha256),
                let signature = nodes.next(),
                signature.identifier == ASN1Identifier(tagWithNumber: 1, tagClass: .contextSpecific),
                try AlgorithmIdentifier(signature, identifier: signature.identifier) == signatureAlgorithm,
                nodes.next() == nil
            else { throw mismatch }
        }
    }
}

/// One attribute, its values not yet read.
private struct CMSAttribute: DERParseable {
    let type: ASN1ObjectIdentifier
    let values: [ASN1Node]

    init(derEncoded node: ASN1Node) throws {
        (type, values) = try DER.sequence(node, identifier: .sequence) { nodes in
            let type = try ASN1ObjectIdentifier(derEncoded: &nodes)
            guard let set = nodes.next(), set.identifier == .set, case .constructed(let values) = set.content
            else { throw CMSDefect("a signed attribute has no set of values") }
            return (type, Array(values))
        }
    }
}

/// The signing-time attribute's value, RFC 5652 §11.3:
///
///     Time ::= CHOICE { utcTime UTCTime, generalizedTime GeneralizedTime }
enum SigningTime {
    /// Dates from 1950 to 2049 must be UTCTime, others GeneralizedTime, both to the second and in UTC.
    static func date(of node: ASN1Node) throws -> Date {
        do {
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
