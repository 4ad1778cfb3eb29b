internal import StrictJSON

/// What is signed: that a node's chain had this hash at this sequence.
public struct Checkpoint: Sendable, Equatable {
    public let node: AuditNode
    /// The sequence of the record that it seals, and with it all before.
    public let sequence: Int
    /// That record's hash.
    public let hash: AuditDigest
    /// When it was made.
    public let time: AuditTime
    /// Which key signs it: SHA-256 of the public key's SubjectPublicKeyInfo in DER.
    public let keyId: AuditDigest

    init(node: AuditNode, sequence: Int, hash: AuditDigest, time: AuditTime, keyId: AuditDigest) {
        self.node = node
        self.sequence = sequence
        self.hash = hash
        self.time = time
        self.keyId = keyId
    }

    /// What the signature covers: the bytes of the value of `checkpoint`, as they stand in the line.
    public var signedBytes: [UInt8] {
        var writer = JSONWriter(capacity: 320)
        writer.beginObject()
        writer.member("node")
        writer.string(node.name)
        writer.member("sequence")
        writer.number(sequence)
        writer.member("hash")
        writer.string(hash.hex)
        writer.member("time")
        writer.string(time.text)
        writer.member("keyId")
        writer.string(keyId.hex)
        writer.endObject()
        return writer.bytes
    }

    /// Has it signed.
    ///
    /// - Parameter sign: makes an ECDSA signature on P-256 over the SHA-256 of the bytes it is given.
    public func signed<Failure: Error>(
        by sign: (_ message: [UInt8]) async throws(Failure) -> CheckpointSignature
    ) async throws(Failure) -> SignedCheckpoint {
        SignedCheckpoint(checkpoint: self, signature: try await sign(signedBytes))
    }
}

extension ChainHead {
    /// A checkpoint of the chain up to here; nil before the first record, when there is nothing to seal.
    public func checkpoint(at time: AuditTime, keyId: AuditDigest) -> Checkpoint? {
        guard sequence > 0 else { return nil }
        return Checkpoint(node: node, sequence: sequence, hash: hash, time: time, keyId: keyId)
    }
}
