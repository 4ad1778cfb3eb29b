internal import Encodings
internal import Foundation
internal import SwiftASN1

/// A detached CMS signature in the one form that Apple Pay uses, RFC 5652 §3 and §5.1:
///
///     ContentInfo ::= SEQUENCE { contentType ContentType, content [0] EXPLICIT ANY DEFINED BY contentType }
///     SignedData  ::= SEQUENCE {
///         version CMSVersion,
///         digestAlgorithms SET OF DigestAlgorithmIdentifier,
///         encapContentInfo SEQUENCE { eContentType ContentType, eContent [0] EXPLICIT OCTET STRING OPTIONAL },
///         certificates [0] IMPLICIT CertificateSet OPTIONAL,
///         crls [1] IMPLICIT RevocationInfoChoices OPTIONAL,
///         signerInfos SET OF SignerInfo }
///
/// The encoding is BER, since Apple writes indefinite lengths. The following is refused, because no genuine payment
/// token has it: eContent, revocation information, any number of certificates other than two, any number of signers
/// other than one, and any other version or digest.
struct CMSSignedData {
    let certificates: [CertificateFields]
    let signer: CMSSignerInfo

    /// - Throws: `CMSDefect`, or `BERReader.Malformed` if the bytes are not BER.
    init(contentInfo bytes: [UInt8]) throws {
        var message = BERReader(bytes, .basic)
        var contentInfo = try message.elements(of: message.next(BERElement.sequence))
        guard message.isAtEnd else { throw BERReader.Malformed() }
        guard try contentInfo.objectIdentifier() == .cmsSignedData
        else { throw CMSDefect("the CMS content type is not signedData") }
        var content = try contentInfo.elements(of: contentInfo.next(BERElement.constructed(contextSpecific: 0)))
        var signedData = try content.elements(of: content.next(BERElement.sequence))
        guard content.isAtEnd, contentInfo.isAtEnd else { throw BERReader.Malformed() }

        guard try signedData.isVersion1() else { throw CMSDefect("the version of signedData is not 1") }
        try Self.checkDigestAlgorithms(&signedData)
        try Self.checkEncapsulatedContent(&signedData)
        certificates = try Self.certificates(&signedData)
        guard signedData.nextIdentifier == BERElement.set
        else { throw CMSDefect("signedData has other parts than version, digest, content, certificates, signers") }
        signer = try Self.onlySigner(in: signedData.elements(of: signedData.next()))
        guard signedData.isAtEnd else { throw BERReader.Malformed() }
    }

    private static func checkDigestAlgorithms(_ signedData: inout BERReader) throws {
        guard signedData.nextIdentifier == BERElement.set else { throw CMSDefect("digestAlgorithms are missing") }
        var set = try signedData.elements(of: signedData.next())
        guard !set.isAtEnd, try AlgorithmIdentifier(&set) == AlgorithmIdentifier(.sha256), set.isAtEnd
        else { throw CMSDefect("the digest algorithms are not SHA-256 alone") }
    }

    private static func checkEncapsulatedContent(_ signedData: inout BERReader) throws {
        guard !signedData.isAtEnd else { throw CMSDefect("encapContentInfo is missing") }
        var content = try signedData.elements(of: signedData.next(BERElement.sequence))
        guard try content.objectIdentifier() == .cmsData
        else { throw CMSDefect("the encapsulated content type is not data") }
        guard content.isAtEnd else { throw CMSDefect("the signature is not detached") }
    }

    private static func certificates(_ signedData: inout BERReader) throws -> [CertificateFields] {
        guard signedData.nextIdentifier == BERElement.constructed(contextSpecific: 0)
        else { throw CMSDefect("there are no certificates") }
        var set = try signedData.elements(of: signedData.next())
        var certificates: [BERElement] = []
        while !set.isAtEnd {
            certificates.append(try set.next())
            guard certificates.count <= 2 else { break }
        }
        guard certificates.count == 2
        else { throw CMSDefect("there are not exactly two certificates, the signer's and its issuer's") }
        return try certificates.map { certificate in
            do {
                return try CertificateFields(of: certificate, in: set)
            } catch {
                throw CMSDefect("a certificate is not an X.509 certificate")
            }
        }
    }

    private static func onlySigner(in set: BERReader) throws -> CMSSignerInfo {
        var set = set
        let defect = CMSDefect("there is not exactly one signer")
        guard !set.isAtEnd else { throw defect }
        let signer = try set.next()
        guard set.isAtEnd else { throw defect }
        return try CMSSignerInfo(signer, in: set)
    }
}

/// The single signer of a payment token, RFC 5652 §5.3:
///
///     SignerInfo ::= SEQUENCE {
///         version CMSVersion,
///         sid SignerIdentifier,
///         digestAlgorithm DigestAlgorithmIdentifier,
///         signedAttrs [0] IMPLICIT SignedAttributes OPTIONAL,
///         signatureAlgorithm SignatureAlgorithmIdentifier,
///         signature SignatureValue,
///         unsignedAttrs [1] IMPLICIT UnsignedAttributes OPTIONAL }
///     IssuerAndSerialNumber ::= SEQUENCE { issuer Name, serialNumber CertificateSerialNumber }
///
/// A subjectKeyIdentifier as sid, missing signedAttrs, and unsigned attributes, which no signature covers, are refused.
struct CMSSignerInfo {
    /// The issuer's name from the signer's certificate, as encoded bytes.
    let issuer: ArraySlice<UInt8>
    /// The content of the certificate's serial number.
    let serialNumber: ArraySlice<UInt8>
    let signedAttributes: SignedAttributes
    let signatureAlgorithm: AlgorithmIdentifier
    let signature: ArraySlice<UInt8>

    init(_ element: BERElement, in set: BERReader) throws {
        guard element.identifier == BERElement.sequence else { throw BERReader.Malformed() }
        var parts = try set.elements(of: element)
        guard try parts.isVersion1() else { throw CMSDefect("the version of signerInfo is not 1") }
        (issuer, serialNumber) = try Self.issuerAndSerialNumber(&parts)
        guard !parts.isAtEnd, try AlgorithmIdentifier(&parts) == AlgorithmIdentifier(.sha256)
        else { throw CMSDefect("the signer's digest algorithm is not SHA-256") }
        guard parts.nextIdentifier == BERElement.constructed(contextSpecific: 0)
        else { throw CMSDefect("there are no signed attributes") }
        let attributes = try parts.next()
        guard !parts.isAtEnd else { throw CMSDefect("the signature algorithm is missing") }
        signatureAlgorithm = try AlgorithmIdentifier(&parts)
        signature = parts.content(of: try parts.next(BERElement.octetString))
        guard parts.isAtEnd else { throw CMSDefect("the signer has unsigned attributes") }
        signedAttributes = try SignedAttributes(
            parts.encoding(of: attributes), signatureAlgorithm: signatureAlgorithm)
    }

    private static func issuerAndSerialNumber(
        _ parts: inout BERReader
    ) throws -> (issuer: ArraySlice<UInt8>, serialNumber: ArraySlice<UInt8>) {
        let defect = CMSDefect("the signer is not named by issuer and serial number")
        guard parts.nextIdentifier == BERElement.sequence else { throw defect }
        var identifier = try parts.elements(of: parts.next())
        guard !identifier.isAtEnd else { throw defect }
        let issuer = identifier.encoding(of: try identifier.next())
        guard identifier.nextIdentifier == BERElement.integer else { throw defect }
        let serialNumber = identifier.content(of: try identifier.next())
        guard identifier.isAtEnd else { throw BERReader.Malformed() }
        return (issuer, serialNumber)
    }
}

/// An algorithm's name and parameters, RFC 5280 §4.1.1.2:
///
///     AlgorithmIdentifier ::= SEQUENCE { algorithm OBJECT IDENTIFIER, parameters ANY DEFINED BY algorithm OPTIONAL }
///
/// Parameters are either absent or NULL: the algorithms of Apple's payment tokens have no others. The two compare as
/// equal, as RFC 5754 §2 and RFC 6211 §2 require. Apple wrote NULL until 2021 and has omitted it since 2023.
struct AlgorithmIdentifier: Equatable {
    let algorithm: EncodedObjectIdentifier

    init(_ algorithm: EncodedObjectIdentifier) {
        self.algorithm = algorithm
    }

    /// The next element of `reader`.
    ///
    /// - Parameter identifier: the element's implicit tag, if it has one.
    init(_ reader: inout BERReader, identifier: UInt8 = BERElement.sequence) throws {
        var parts = try reader.elements(of: reader.next(identifier))
        algorithm = try parts.objectIdentifier()
        guard !parts.isAtEnd else { return }
        guard parts.nextIdentifier == BERElement.null, try parts.next().content.isEmpty
        else { throw CMSDefect("an algorithm has parameters other than NULL") }
        guard parts.isAtEnd else { throw BERReader.Malformed() }
    }
}

extension BERReader {
    /// The next element, which must be an OBJECT IDENTIFIER (X.690 §8.19).
    mutating func objectIdentifier() throws -> EncodedObjectIdentifier {
        let content = content(of: try next(BERElement.objectIdentifier))
        // Each arc (number) ends with an octet below 0x80. An arc that began with 0x80 would have a second, shorter
        // encoding, so it is refused.
        var isFirst = true
        for octet in content {
            guard !(isFirst && octet == 0x80) else { throw BERReader.Malformed() }
            isFirst = octet < 0x80
        }
        guard isFirst, !content.isEmpty else { throw BERReader.Malformed() }
        return EncodedObjectIdentifier(content: content)
    }

    /// Returns true if the next element is the INTEGER 1.
    mutating func isVersion1() throws -> Bool {
        content(of: try next(BERElement.integer)) == [1]
    }
}

/// The content octets of an OBJECT IDENTIFIER, which are compared without decoding its numbers.
struct EncodedObjectIdentifier: Hashable {
    private let content: ArraySlice<UInt8>

    init(content: ArraySlice<UInt8>) {
        self.content = content
    }

    private init(_ identifier: ASN1ObjectIdentifier) {
        var serializer = DER.Serializer()
        // Encoding an array literal of numbers cannot fail.
        try? serializer.serialize(identifier)
        content = serializer.serializedBytes.dropFirst(2)
    }

    // Content types, RFC 5652 §4 and §5.1.
    static let cmsData = EncodedObjectIdentifier([1, 2, 840, 113549, 1, 7, 1])
    static let cmsSignedData = EncodedObjectIdentifier([1, 2, 840, 113549, 1, 7, 2])

    // Types of signed attributes, RFC 5652 §11.1 to §11.3 and RFC 6211 §2.
    static let contentTypeAttribute = EncodedObjectIdentifier([1, 2, 840, 113549, 1, 9, 3])
    static let messageDigestAttribute = EncodedObjectIdentifier([1, 2, 840, 113549, 1, 9, 4])
    static let signingTimeAttribute = EncodedObjectIdentifier([1, 2, 840, 113549, 1, 9, 5])
    static let cmsAlgorithmProtectionAttribute = EncodedObjectIdentifier([1, 2, 840, 113549, 1, 9, 52])

    // Digest and signature algorithms, RFC 5754 §2.2 and §3.
    static let sha256 = EncodedObjectIdentifier([2, 16, 840, 1, 101, 3, 4, 2, 1])
    static let ecdsaWithSHA256 = EncodedObjectIdentifier([1, 2, 840, 10045, 4, 3, 2])
    static let rsaEncryption = EncodedObjectIdentifier([1, 2, 840, 113549, 1, 1, 1])
    static let sha256WithRSAEncryption = EncodedObjectIdentifier([1, 2, 840, 113549, 1, 1, 11])
}

/// A fault in a CMS structure. Its text appears in the details of `signature_invalid`; bytes of the structure never do.
struct CMSDefect: Error {
    let reason: String

    init(_ reason: String) {
        self.reason = reason
    }
}

extension ASN1ObjectIdentifier {
    /// Apple's marker extensions. Only their presence matters, not their values.
    static let applePayLeafMarker: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 29]
    static let applePayIntermediateMarker: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 2, 14]
}

/// The signed attributes of a CMS signature, RFC 5652 §5.3 and §11. The signature covers them, and the messageDigest
/// among them covers the content:
///
///     SignedAttributes ::= SET SIZE (1..MAX) OF Attribute
///     Attribute        ::= SEQUENCE { attrType OBJECT IDENTIFIER, attrValues SET OF AttributeValue }
///
/// contentType, signingTime and messageDigest are required. cmsAlgorithmProtection is optional; Apple's payment tokens
/// have had it since about 2019. No attribute may occur twice, and each of these four must have exactly one value.
/// Unknown attributes are allowed.
struct SignedAttributes {
    /// The signed bytes: the SET OF in DER with its universal tag instead of the [0] in the message (RFC 5652 §5.4).
    let der: [UInt8]
    let signingTime: Date
    /// 32 bytes.
    let messageDigest: [UInt8]

    /// - Parameter encoding: the SignerInfo's `[0] IMPLICIT` element.
    init(_ encoding: ArraySlice<UInt8>, signatureAlgorithm: AlgorithmIdentifier) throws {
        der = [BERElement.set] + encoding.dropFirst()
        // RFC 5652 §5.3: signed attributes are DER even if the rest is BER. They are parsed again as DER, so that the
        // checks below apply to exactly the signed bytes.
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

    /// Checks the value of cmsAlgorithmProtection against the signer's algorithms, RFC 6211 §2:
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

/// One attribute, with its values not yet parsed.
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
    /// Returns the date. A date from 1950 to 2049 must be encoded as UTCTime, and any other date as GeneralizedTime.
    /// Both must be in UTC and include seconds.
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
