import PKCS11
import WorkerProtocol

/// What a merchant's key may be used for, and how it is kept; every other use is forbidden by name, because what is
/// not mentioned some tokens allow.
///
/// It may sign as well as restore: its certificate is asked for with a PKCS#10 request, which the key itself signs
/// (RFC 2986 §3), and many tokens allow no later change. SP 800-57 part 1 §5.2 grants a key-establishment key that one
/// signature.
enum KeyUsage {
    static func privateKey(_ algorithm: KeyAlgorithm) -> [Attribute] {
        let isRSA = algorithm == .rsa
        return [
            .sensitive(true), .extractable(false), .sign(true), .derive(!isRSA), .decrypt(isRSA), .unwrap(isRSA),
        ]
    }

    static func publicKey(_ algorithm: KeyAlgorithm) -> [Attribute] {
        [.verify(true), .encrypt(algorithm == .rsa), .wrap(false)]
    }
}
