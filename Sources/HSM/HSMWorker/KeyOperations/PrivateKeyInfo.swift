import Crypto
import Encodings
import PKCS11
import SecretMemory

// Unsafe: The secret's pointer is used only within the closures, and every range lies within the secret that it was
// read from.

/// A merchant's private key from PKCS#8 (RFC 5958), in the form that an HSM token takes: P-256 (RFC 5915) or RSA (RFC
/// 8017 §A.1.2).
struct PrivateKeyInfo: ~Copyable {
    let publicKey: SubjectPublicKeyInfo.PublicKey
    /// For EC, CKA_VALUE. For RSA, the private exponent, the two primes, their exponents and the coefficient.
    let secrets: SecretAttributes

    private static let ecAlgorithm: [UInt8] =
        [0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01] + EllipticCurve.p256Parameters
    private static let rsaAlgorithm: [UInt8] = [
        0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00,
    ]

    private init(_ publicKey: SubjectPublicKeyInfo.PublicKey, _ secrets: consuming SecretAttributes) {
        self.publicKey = publicKey
        self.secrets = secrets
    }

    init(pkcs8: consuming SecretBytes) throws(UnsuitableKey) {
        let der = SecretDER(bytes: pkcs8)
        do throws(SecretDER.Malformed) {
            var whole = 0..<der.bytes.count
            var info = try der.element(.sequence, in: &whole)
            let version = try der.element(.integer, in: &info)
            // v1, or v2, which adds a public key (RFC 5958 §2).
            guard der.holds([0], at: version) || der.holds([1], at: version) else { throw SecretDER.Malformed() }
            let algorithm = try der.element(.sequence, in: &info)
            var key = try der.element(.octetString, in: &info)
            var numbers = try der.element(.sequence, in: &key)
            guard whole.isEmpty, key.isEmpty else { throw SecretDER.Malformed() }
            if der.holds(Self.ecAlgorithm, at: algorithm) {
                self = try Self.ec(der, &numbers)
            } else if der.holds(Self.rsaAlgorithm, at: algorithm) {
                self = try Self.rsa(der, &numbers)
            } else {
                throw SecretDER.Malformed()
            }
        } catch {
            throw UnsuitableKey(reason: "the private key is not PKCS#8 in DER of an EC key on P-256 or an RSA key")
        }
    }

    /// ECPrivateKey ::= SEQUENCE { version, privateKey OCTET STRING, [0] …, [1] … }. The optional public key in it is
    /// ignored: the public key is computed from the private key.
    private static func ec(
        _ der: borrowing SecretDER, _ numbers: inout Range<Int>
    ) throws(SecretDER.Malformed) -> PrivateKeyInfo {
        guard der.holds([1], at: try der.element(.integer, in: &numbers)) else { throw SecretDER.Malformed() }
        let range = try der.element(.octetString, in: &numbers)
        let scalar = der.duplicate(range)
        let key = unsafe scalar.withUnsafeBytes { unsafe try? P256.KeyAgreement.PrivateKey(rawRepresentation: $0) }
        guard scalar.count == 32, let key else { throw SecretDER.Malformed() }
        var secrets = SecretAttributes(capacity: 32)
        secrets.append(.value, scalar)
        return PrivateKeyInfo(.ec(point: Array(key.publicKey.x963Representation)), secrets)
    }

    /// RSAPrivateKey ::= SEQUENCE { version, n, e, d, p, q, d mod (p-1), d mod (q-1), q⁻¹ mod p }.
    private static func rsa(
        _ der: borrowing SecretDER, _ numbers: inout Range<Int>
    ) throws(SecretDER.Malformed) -> PrivateKeyInfo {
        let version = try der.element(.integer, in: &numbers)
        guard der.holds([0], at: version) else { throw SecretDER.Malformed() }
        let modulus = der.array(try der.positiveInteger(in: &numbers))
        let publicExponent = der.array(try der.positiveInteger(in: &numbers))
        var secrets = SecretAttributes(capacity: numbers.count)
        for type: AttributeType in [.privateExponent, .prime1, .prime2, .exponent1, .exponent2, .coefficient] {
            let number = der.duplicate(try der.positiveInteger(in: &numbers))
            secrets.append(type, number)
        }
        guard numbers.isEmpty else { throw SecretDER.Malformed() }
        return PrivateKeyInfo(.rsa(modulus: modulus, publicExponent: publicExponent), secrets)
    }
}

extension SecretDER {
    /// A copy of the bytes in this range in ordinary memory, which is not wiped. So the bytes must not be secret.
    fileprivate func array(_ range: Range<Int>) -> [UInt8] {
        unsafe bytes.withUnsafeBytes { unsafe Array($0[range]) }
    }
}

/// A reader for the DER of a private key. It returns ranges of the bytes instead of copies, since a copy in ordinary
/// memory is not wiped.
struct SecretDER: ~Copyable {
    let bytes: SecretBytes

    enum Tag: UInt8 {
        case integer = 0x02
        case octetString = 0x04
        case sequence = 0x30
    }

    struct Malformed: Error {}

    /// Reads the element at the start of `range`, and moves the start of `range` to the end of that element.
    /// - Returns: The range of the element's content.
    func element(_ tag: Tag, in range: inout Range<Int>) throws(Malformed) -> Range<Int> {
        let (found, content) = try anyElement(in: &range)
        guard found == tag.rawValue else { throw Malformed() }
        return content
    }

    func anyElement(in range: inout Range<Int>) throws(Malformed) -> (tag: UInt8, content: Range<Int>) {
        var offset = range.lowerBound
        let tag = try byte(&offset, before: range.upperBound)
        var length = Int(try byte(&offset, before: range.upperBound))
        if length >= 0x80 {
            let octets = length - 0x80
            // Other length forms are refused: a private key is shorter than 64 KiB, and indefinite lengths are not DER.
            guard octets == 1 || octets == 2 else { throw Malformed() }
            length = 0
            for _ in 0..<octets { length = length << 8 | Int(try byte(&offset, before: range.upperBound)) }
        }
        guard range.upperBound - offset >= length else { throw Malformed() }
        range = offset + length..<range.upperBound
        return (tag, offset..<offset + length)
    }

    /// The range of a positive INTEGER without leading zeros.
    func positiveInteger(in range: inout Range<Int>) throws(Malformed) -> Range<Int> {
        let content = try element(.integer, in: &range)
        guard !content.isEmpty, self[content.lowerBound] < 0x80 else { throw Malformed() }
        // Drops only the one zero byte that keeps a number positive, since DER permits no other. A loop over leading
        // zeros would take a time that depends on the secret number.
        return content.count > 1 && self[content.lowerBound] == 0 ? content.dropFirst(1) : content
    }

    /// Returns true if the range contains exactly these public bytes.
    func holds(_ expected: [UInt8], at range: Range<Int>) -> Bool {
        range.count == expected.count && zip(range, expected).allSatisfy { self[$0] == $1 }
    }

    func duplicate(_ range: Range<Int>) -> SecretBytes {
        bytes.withBytes { SecretBytes(copying: $0.extracting(range)) }
    }

    private subscript(offset: Int) -> UInt8 {
        unsafe bytes.withUnsafeBytes { unsafe $0[offset] }
    }

    private func byte(_ offset: inout Int, before end: Int) throws(Malformed) -> UInt8 {
        guard offset < end else { throw Malformed() }
        defer { offset += 1 }
        return self[offset]
    }
}
