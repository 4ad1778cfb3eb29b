import Encodings
import SwiftASN1

extension FuzzTarget {
    /// A payment token's signature and a certificate. The reader of ranges must agree with swift-asn1, which builds a tree.
    static let cms = FuzzTarget(
        name: "cms", longest: 4096,
        sources: ["Encodings/BERReader.swift", "Encodings/SubjectPublicKeyInfo.swift"]
    ) { input in
        for rules in [BERReader.Rules.basic, .distinguished] {
            let reader = BERReader(input, rules)
            guard (try? reader.checkNested()) != nil else { continue }
            // The reader accepts a sequence of elements, swift-asn1 exactly one.
            var elements = reader
            while !elements.isAtEnd {
                let encoding = elements.encoding(of: try elements.next())
                let node: ASN1Node
                do {
                    node = try rules == .basic ? BER.parse(Array(encoding)) : DER.parse(Array(encoding))
                } catch {
                    throw Disagreement("the reader accepts an element that swift-asn1 refuses: \(error)")
                }
                try compare(BERReader(Array(encoding), rules), [node])
            }
        }
        if let fields = try? CertificateFields(der: input) {
            try expect(fields.der == input, "a certificate is not its own encoding")
            _ = try? SubjectPublicKeyInfo(der: Array(fields.subjectPublicKeyInfo))
        }
        // Only one encoding of a key is accepted, so that its hash is the key's.
        if let key = try? SubjectPublicKeyInfo(der: input) {
            try expect(SubjectPublicKeyInfo(key.key).der == input, "a public key has two accepted encodings")
        }
    }

    private static func compare(_ reader: BERReader, _ nodes: some Sequence<ASN1Node>) throws {
        var reader = reader
        for node in nodes {
            let element = try reader.next()
            try expect(
                reader.encoding(of: element) == node.encodedBytes, "an element ends elsewhere than in swift-asn1")
            switch node.content {
            case .primitive(let content):
                try expect(reader.content(of: element) == content, "an element's content differs from swift-asn1's")
            case .constructed(let children): try compare(reader.elements(of: element), children)
            }
        }
        try expect(reader.isAtEnd, "the reader finds more elements than swift-asn1")
    }
}
