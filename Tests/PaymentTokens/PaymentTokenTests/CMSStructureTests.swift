import Encodings
import Foundation
import PaymentToken
import Refusals
import StrictJSON
import SwiftASN1
import TestSupport
import Testing
import TokenForge

/// Positions of the parts of a payment token's message, RFC 5652 §3, §5.1 and §5.3.
extension DERPath {
    /// The parts of ContentInfo.
    fileprivate static let contentType = DERPath()[0]
    /// The SignedData inside ContentInfo's [0] EXPLICIT.
    fileprivate static let signedData = DERPath()[1][0]

    /// The parts of SignedData.
    fileprivate static let version = signedData[0]
    fileprivate static let digestAlgorithms = signedData[1]
    fileprivate static let digestAlgorithm = digestAlgorithms[0]
    fileprivate static let encapsulatedContentType = signedData[2][0]
    fileprivate static let signerCertificate = signedData[3][0]
    fileprivate static let issuerCertificate = signedData[3][1]
    /// Positions within TBSCertificate: version, serialNumber, signature, issuer, …
    fileprivate static let issuerCertificateIssuer = issuerCertificate[0][3]
    fileprivate static let signer = signedData[4][0]

    /// The parts of SignerInfo.
    fileprivate static let signerVersion = signer[0]
    fileprivate static let signerIdentifier = signer[1]
    fileprivate static let signerIssuer = signerIdentifier[0]
    fileprivate static let signerSerialNumber = signerIdentifier[1]
    fileprivate static let signerDigestAlgorithm = signer[2]
    fileprivate static let signedAttributes = signer[3]
    fileprivate static let signatureAlgorithm = signer[4]
}

@Suite("CMS structure, RFC 5652")
struct CMSStructureTests {
    @Test("Accepts the unchanged message, which the other tests change")
    func unchanged() throws {
        #expect(try details { _ in } == nil)
    }

    @Test("Requires the content type signedData")
    func contentType() throws {
        #expect(
            try details { message in message[.contentType] = .primitive(tag: 6, Self.dataIdentifier) }
                == "the CMS content type is not signedData")
    }

    @Test("Requires the encapsulated content type data")
    func encapsulatedContentType() throws {
        #expect(
            try details { message in message[.encapsulatedContentType] = message[.contentType] }
                == "the encapsulated content type is not data")
    }

    @Test("Requires version 1 of SignedData and SignerInfo")
    func versions() throws {
        #expect(
            try details { message in message[.version] = .primitive(tag: 2, [3]) }
                == "the version of signedData is not 1")
        #expect(
            try details { message in message[.signerVersion] = .primitive(tag: 2, [3]) }
                == "the version of signerInfo is not 1")
    }

    @Test("Permits only SHA-256, with NULL or no parameters, as digest algorithm of message and signer")
    func digestAlgorithms() throws {
        let null = DERTree.primitive(tag: 5, [])
        #expect(
            try details { message in message[.digestAlgorithm].children = [message[.digestAlgorithm[0]], null] } == nil)
        #expect(
            try details { message in
                message[.signerDigestAlgorithm].children = [message[.signerDigestAlgorithm[0]], null]
            } == nil)
        #expect(
            try details { message in message[.digestAlgorithms].children.append(message[.digestAlgorithm]) }
                == "the digest algorithms are not SHA-256 alone")
        #expect(
            try details { message in message[.digestAlgorithms].children = [] }
                == "the digest algorithms are not SHA-256 alone")
        #expect(
            try details { message in
                message[.digestAlgorithm].children = [message[.digestAlgorithm[0]], .primitive(tag: 4, [])]
            }
                == "an algorithm has parameters other than NULL")
        #expect(
            try details { message in message[.signerDigestAlgorithm[0]] = .primitive(tag: 6, Self.sha512Identifier) }
                == "the signer's digest algorithm is not SHA-256")
    }

    @Test("Requires the signer to be named by the issuer and serial number of a certificate")
    func signerIdentifier() throws {
        #expect(
            try details { message in message[.signerIdentifier] = .primitive(tag: 0x80, [1, 2, 3]) }
                == "the signer is not named by issuer and serial number")
        #expect(
            try details { message in message[.signerSerialNumber] = .primitive(tag: 2, [1]) }
                == "the two certificates are not the signer's and one other")
        // With another issuer name, no certificate has both that name and the serial number.
        #expect(
            try details { message in message[.signerIssuer] = message[.issuerCertificateIssuer] }
                == "the two certificates are not the signer's and one other")
    }

    @Test("Requires the second certificate to be that of the signer's issuer")
    func otherIntermediate() throws {
        let relations = try DERTree(SharedForge.authority.developerRelations.certificate)
        #expect(
            try details { message in message[.issuerCertificate] = relations }
                == "the second certificate is not that of the signer's issuer")
        #expect(
            try details { message in message[.issuerCertificate] = message[.signerCertificate] }
                == "the two certificates are not the signer's and one other")
    }

    @Test("Refuses an element of the certificates that is not an X.509 certificate")
    func otherCertificateChoices() throws {
        for choice: DERTree in [
            .constructed(tag: 0xA1, []), .constructed(tag: 0x30, []), .primitive(tag: 0x04, []),
            .constructed(tag: 0x30, [.constructed(tag: 0x30, [])]),
        ] {
            #expect(
                try details { message in message[.issuerCertificate] = choice }
                    == "a certificate is not an X.509 certificate")
        }
    }

    @Test("Requires the signature algorithm of the payment token's version")
    func signatureAlgorithm() throws {
        var wire = WireForm.distinguished
        // cmsAlgorithmProtection is omitted because its check would fail first.
        wire.algorithmProtection = false
        #expect(
            try details(wire: wire) { message in
                message[.signatureAlgorithm[0]] = .primitive(tag: 6, Self.ecdsaWithSHA512)
            } == "the signature algorithm does not fit EC_v1")
    }

    @Test("Refuses unsigned attributes")
    func unsignedAttributes() throws {
        #expect(
            try details { message in message[.signer].children.append(.constructed(tag: 0xA1, [])) }
                == "the signer has unsigned attributes")
    }

    @Test("Refuses signed attributes that are not in DER's order")
    func attributeOrder() throws {
        #expect(
            try details { message in message[.signedAttributes].children.reverse() }
                == "the signed attributes are not DER")
    }

    @Test("Refuses signed attributes of indefinite length, although the rest of the message may have one")
    func indefiniteAttributes() throws {
        let minted = try Minting.minted(wire: .distinguished)
        let message = try DERTree(minted.signature)
        let attributes = message[.signedAttributes]
        // The outer levels have indefinite lengths too, so that the change invalidates no length.
        var bytes: [UInt8] = [0x30, 0x80] + message[.contentType].encoded + [0xA0, 0x80, 0x30, 0x80]
        bytes += message[.signedData].children.dropLast().flatMap(\.encoded) + [0x31, 0x80, 0x30, 0x80]
        let signer = message[.signer].children
        let definite = bytes + signer.flatMap(\.encoded) + [UInt8](repeating: 0, count: 10)
        bytes += signer[0...2].flatMap(\.encoded) + attributes.encodedIndefinite + signer[4...].flatMap(\.encoded)
        bytes += [UInt8](repeating: 0, count: 10)
        #expect(try details(minted, signature: definite) == nil)
        #expect(try details(minted, signature: bytes) == "the signed attributes are not DER")
    }

    @Test("Refuses bytes after the message, such as unmatched end-of-contents octets")
    func trailing() throws {
        let minted = try Minting.minted(wire: .since2019)
        for tail in [[0x00], [0x00, 0x00], [0x05, 0x00], [0xFF]] as [[UInt8]] {
            #expect(try details(minted, signature: minted.signature + tail) != nil)
        }
    }

    @Test("Refuses very deep nesting without a crash")
    func nesting() throws {
        let minted = try Minting.minted()
        let deep = [UInt8]((0..<8_000).flatMap { _ in [0x30, 0x80] as [UInt8] })
        #expect(try details(minted, signature: deep) != nil)
        #expect(try details(minted, signature: [UInt8](repeating: 0x30, count: 16_000)) != nil)
    }

    static let dataIdentifier: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x01]
    static let sha512Identifier: [UInt8] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03]
    static let ecdsaWithSHA512: [UInt8] = [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x04]

    /// Applies `change` to the message of a valid EC_v1 payment token, and returns the refusal's details; nil if it is
    /// accepted.
    private func details(
        wire: WireForm = .distinguished, _ change: (inout DERTree) throws -> Void
    ) throws -> String? {
        let minted = try Minting.minted(wire: wire)
        var message = try DERTree(minted.signature)
        try change(&message)
        return try details(minted, signature: message.encoded)
    }

    private func details(_ minted: MintedToken, signature: [UInt8]) throws -> String? {
        let json = try JSONValue(parsing: minted.paymentData).setting(
            "signature", to: .string(Base64.encode(signature)))
        let paymentToken = try PaymentToken(json: json)
        let refusal = try refusal { _ = try SignatureEvidence(of: paymentToken) }
        #expect(refusal == nil || refusal?.code == .signatureInvalid)
        return refusal?.details
    }
}

/// DER as a tree whose nodes tests can change and encode again. It handles only one-byte tags and definite lengths, and
/// shares no code with the tested parser.
indirect enum DERTree: Equatable {
    case primitive(tag: UInt8, [UInt8])
    case constructed(tag: UInt8, [DERTree])

    struct Malformed: Error {}

    init(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        self = try Self.read(&rest)
        guard rest.isEmpty else { throw Malformed() }
    }

    private static func read(_ rest: inout ArraySlice<UInt8>) throws -> DERTree {
        guard let tag = rest.popFirst(), var length = rest.popFirst().map(Int.init) else { throw Malformed() }
        if length > 0x80 {
            let octets = rest.prefix(length - 0x80)
            rest = rest.dropFirst(length - 0x80)
            length = octets.reduce(0) { sum, octet in sum << 8 | Int(octet) }
        }
        guard rest.count >= length else { throw Malformed() }
        var content = rest.prefix(length)
        rest = rest.dropFirst(length)
        guard tag & 0x20 != 0 else { return .primitive(tag: tag, Array(content)) }
        var children: [DERTree] = []
        while !content.isEmpty { children.append(try read(&content)) }
        return .constructed(tag: tag, children)
    }

    var encoded: [UInt8] {
        switch self {
        case .primitive(let tag, let content): [tag] + Self.length(content.count) + content
        case .constructed(let tag, let children):
            { content in [tag] + Self.length(content.count) + content }(children.flatMap(\.encoded))
        }
    }

    /// The encoding with an indefinite length for this node only.
    var encodedIndefinite: [UInt8] {
        guard case .constructed(let tag, let children) = self else { return encoded }
        return [tag, 0x80] + children.flatMap(\.encoded) + [0, 0]
    }

    private static func length(_ count: Int) -> [UInt8] {
        if count < 0x80 { return [UInt8(count)] }
        return count < 0x100 ? [0x81, UInt8(count)] : [0x82, UInt8(count >> 8), UInt8(count & 0xFF)]
    }

    var children: [DERTree] {
        get {
            if case .constructed(_, let children) = self { children } else { [] }
        }
        set {
            if case .constructed(let tag, _) = self { self = .constructed(tag: tag, newValue) }
        }
    }

    /// The node at `path`.
    subscript(path: DERPath) -> DERTree {
        get { path.indices.reduce(self) { node, index in node.children[index] } }
        set { self = replacing(path.indices[...], with: newValue) }
    }

    private func replacing(_ path: ArraySlice<Int>, with value: DERTree) -> DERTree {
        guard let index = path.first else { return value }
        var copy = self
        copy.children[index] = children[index].replacing(path.dropFirst(), with: value)
        return copy
    }
}

/// The path to a node of a ``DERTree``, as the child's index at each level.
struct DERPath {
    fileprivate var indices: [Int] = []

    init() {}

    /// The path to the child `index` of this node.
    subscript(index: Int) -> DERPath {
        var path = self
        path.indices.append(index)
        return path
    }
}
