internal import SwiftASN1

/// Names an algorithm, RFC 5280 §4.1.1.2:
///
///     AlgorithmIdentifier ::= SEQUENCE { algorithm OBJECT IDENTIFIER, parameters ANY DEFINED BY algorithm OPTIONAL }
///
/// Of the parameters only absence and NULL are known here: no algorithm of Apple's tokens has others. Both compare
/// equal (RFC 5754 §2 and RFC 6211 §2 want them taken as one), and tokens until 2021 and since 2023 differ in just that.
struct AlgorithmIdentifier: Equatable {
    let algorithm: ASN1ObjectIdentifier

    init(_ algorithm: ASN1ObjectIdentifier) {
        self.algorithm = algorithm
    }

    init(_ node: ASN1Node, identifier: ASN1Identifier = .sequence) throws {
        algorithm = try DER.sequence(node, identifier: identifier) { nodes in
            let algorithm = try ASN1ObjectIdentifier(derEncoded: &nodes)
            if let parameters = nodes.next() {
                do {
                    _ = try ASN1Null(derEncoded: parameters)
                } catch {
                    throw CMSDefect("an algorithm has parameters other than NULL")
                }
            }
            return algorithm
        }
    }
}
