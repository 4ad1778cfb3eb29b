import KeyTypes
import PKCS11
import WorkerProtocol

extension OpenToken {
    /// Reads the attributes of every private key with this CKA_ID. Each call searches for the objects again, because
    /// another program may have added a key with the same CKA_ID but other rights.
    ///
    /// The call does not change which keys are served.
    func attributes(
        of publicKeyHash: [UInt8], in session: inout Session
    ) throws(CallError) -> [PrivateKeyAttributes] {
        let search: Template = [.objectClass(.privateKey), .token(true), .identifier(publicKeyHash)]
        var found: [PrivateKeyAttributes] = []
        for object in try session.findObjects(matching: search).prefix(FieldBound.privateKeysPerIdentifier) {
            do throws(CallError) {
                found.append(try session.privateKeyAttributes(of: object))
            } catch {
                // A stale handle means that the key was destroyed after the search, so the key is skipped.
                guard error.isStaleHandle else { throw error }
            }
        }
        return found
    }
}

extension Session {
    fileprivate mutating func privateKeyAttributes(
        of object: ObjectHandle
    ) throws(CallError) -> PrivateKeyAttributes {
        let values = try attributes(
            [
                .sensitive, .extractable, .alwaysSensitive, .neverExtractable, .local, .token, .private, .modifiable,
                .derive, .decrypt, .unwrap, .sign, .keyType, .ecParameters, .modulus,
            ], of: object)
        return PrivateKeyAttributes(
            sensitive: values.flag(.sensitive), extractable: values.flag(.extractable),
            alwaysSensitive: values.flag(.alwaysSensitive), neverExtractable: values.flag(.neverExtractable),
            local: values.flag(.local), token: values.flag(.token), private: values.flag(.private),
            modifiable: values.flag(.modifiable), derive: values.flag(.derive), decrypt: values.flag(.decrypt),
            unwrap: values.flag(.unwrap), sign: values.flag(.sign), algorithm: values.algorithm, bits: values.bits)
    }
}

extension AttributeValues {
    fileprivate var algorithm: KeyAlgorithm? {
        switch keyType {
        case .ec: .ec
        case .rsa: .rsa
        default: nil
        }
    }

    fileprivate var bits: UInt16? {
        switch algorithm {
        case .ec: bytes(.ecParameters) == EllipticCurve.p256Parameters ? 256 : nil
        case .rsa: bytes(.modulus).map(Self.bitCount)
        case nil: nil
        }
    }

    /// The bit length of a big-endian number. Some HSM tokens add leading zeros.
    private static func bitCount(_ number: [UInt8]) -> UInt16 {
        let significant = number.drop { $0 == 0 }
        guard let first = significant.first else { return 0 }
        return UInt16(clamping: significant.count * 8 - first.leadingZeroBitCount)
    }
}
