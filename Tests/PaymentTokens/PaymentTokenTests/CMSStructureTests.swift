import Encodings
import Foundation
import PaymentToken
import Refusals
import StrictJSON
import SwiftASN1
import TestSupport
import Testing
import TokenForge

/// Where the parts of a payment token's message are, RFC 5652 §3, §5.1 and §5.3.
extension DERPath {
    /// ContentInfo.
    fileprivate static let contentType = DERPath()[0]
    /// Within [0] EXPLICIT.
    fileprivate static let signedData = DERPath()[1][0]

    /// SignedData.
    fileprivate static let version = signedData[0]
    fileprivate static let digestAlgorithms = signedData[1]
    fileprivate static let digestAlgorithm = digestAlgorithms[0]
    fileprivate static let encapsulatedContentType = signedData[2][0]
    fileprivate static let signerCertificate = signedData[3][0]
    fileprivate static let issuerCertificate = signedData[3][1]
    /// TBSCertificate: version, serialNumber, signature, issuer, …
    fileprivate static let issuerCertificateIssuer = issuerCertificate[0][3]
    fileprivate static let signer = signedData[4][0]

    /// SignerInfo.
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
    @Test("The message that the other tests change is accepted as it is")
    func unchanged() throws {
        #expect(try details { _ in } == nil)
    }

    @Test("The content type is signedData")
    func contentType() throws {
        #expect(
            try details { message in message[.contentType] = .primitive(tag: 6, Self.dataIdentifier) }
                == "the CMS content type is not signedData")
    }

    @Test("The encapsulated content's type is data")
    func encapsulatedContentType() throws {
        #expect(
            try details { message in message[.encapsulatedContentType] = message[.contentType] }
                == "the encapsulated content type is not data")
    }

    @Test("Both versions are 1")
    func versions() throws {
        #expect(
            try details { message in message[.version] = .primitive(tag: 2, [3]) }
                == "the version of signedData is not 1")
        #expect(
            try details { message in message[.signerVersion] = .primitive(tag: 2, [3]) }
                == "the version of signerInfo is not 1")
    }

    @Test("SHA-256 is the only digest algorithm of the message and of the signer, with NULL or nothing as parameters")
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

    @Test("The signer is named by issuer and serial number, both of the certificate")
    func signerIdentifier() throws {
        #expect(
            try details { message in message[.signerIdentifier] = .primitive(tag: 0x80, [1, 2, 3]) }
                == "the signer is not named by issuer and serial number")
        #expect(
            try details { message in message[.signerSerialNumber] = .primitive(tag: 2, [1]) }
                == "the two certificates are not the signer's and one other")
        // The issuer's own name instead of the root's: then no certificate has both.
        #expect(
            try details { message in message[.signerIssuer] = message[.issuerCertificateIssuer] }
                == "the two certificates are not the signer's and one other")
    }

    @Test("The second certificate is named as the signer's issuer")
    func otherIntermediate() throws {
        let relations = try DERTree(SharedForge.authority.developerRelations.certificate)
        #expect(
            try details { message in message[.issuerCertificate] = relations }
                == "the second certificate is not that of the signer's issuer")
        #expect(
            try details { message in message[.issuerCertificate] = message[.signerCertificate] }
                == "the two certificates are not the signer's and one other")
    }

    @Test("Anything but an X.509 certificate among the certificates is refused")
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

    @Test("The signature algorithm fits the version")
    func signatureAlgorithm() throws {
        var wire = WireForm.distinguished
        // Without cmsAlgorithmProtection, whose check comes first.
        wire.algorithmProtection = false
        #expect(
            try details(wire: wire) { message in
                message[.signatureAlgorithm[0]] = .primitive(tag: 6, Self.ecdsaWithSHA512)
            } == "the signature algorithm does not fit EC_v1")
    }

    @Test("Unsigned attributes are refused")
    func unsignedAttributes() throws {
        #expect(
            try details { message in message[.signer].children.append(.constructed(tag: 0xA1, [])) }
                == "the signer has unsigned attributes")
    }

    @Test("Signed attributes in another order than DER's are refused")
    func attributeOrder() throws {
        #expect(
            try details { message in message[.signedAttributes].children.reverse() }
                == "the signed attributes are not DER")
    }

    @Test("Signed attributes of indefinite length are refused, where the rest of the message may have it")
    func indefiniteAttributes() throws {
        let minted = try Minting.minted(wire: .distinguished)
        let message = try DERTree(minted.signature)
        let attributes = message[.signedAttributes]
        // The outer levels indefinite as well, so that no length has to be corrected.
        var bytes: [UInt8] = [0x30, 0x80] + message[.contentType].encoded + [0xA0, 0x80, 0x30, 0x80]
        bytes += message[.signedData].children.dropLast().flatMap(\.encoded) + [0x31, 0x80, 0x30, 0x80]
        let signer = message[.signer].children
        let definite = bytes + signer.flatMap(\.encoded) + [UInt8](repeating: 0, count: 10)
        bytes += signer[0...2].flatMap(\.encoded) + attributes.encodedIndefinite + signer[4...].flatMap(\.encoded)
        bytes += [UInt8](repeating: 0, count: 10)
        #expect(try details(minted, signature: definite) == nil)
        #expect(try details(minted, signature: bytes) == "the signed attributes are not DER")
    }

    @Test("Bytes after the message, end-of-contents octets without a beginning too, are refused")
    func trailing() throws {
        let minted = try Minting.minted(wire: .since2019)
        for tail in [[0x00], [0x00, 0x00], [0x05, 0x00], [0xFF]] as [[UInt8]] {
            #expect(try details(minted, signature: minted.signature + tail) != nil)
        }
    }

    @Test("Nesting without end is an error, not a crash")
    func nesting() throws {
        let minted = try Minting.minted()
        let deep = [UInt8]((0..<8_000).flatMap { _ in [0x30, 0x80] as [UInt8] })
        #expect(try details(minted, signature: deep) != nil)
        #expect(try details(minted, signature: [UInt8](repeating: 0x30, count: 16_000)) != nil)
    }

    static let dataIdentifier: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x01]
    static let sha512Identifier: [UInt8] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03]
    static let ecdsaWithSHA512: [UInt8] = [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x04]

    /// What is said about a good EC_v1 token's message after `change`.
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

/// DER taken apart, to be put together again with something changed. Independent of what is tested: one-byte tags and
/// definite lengths only.
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

    /// The same with an indefinite length at this level.
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

/// The way to a node of a ``DERTree``: which child at each level.
struct DERPath {
    fileprivate var indices: [Int] = []

    init() {}

    /// The way to that child of the node here.
    subscript(index: Int) -> DERPath {
        var path = self
        path.indices.append(index)
        return path
    }
}
