internal import StrictJSON

/// A JSON Web Token for Apple's App Store Connect API that a service key signed, or the request for one.
public struct JWTSignatureDetails: Sendable, Equatable {
    /// The rights that the token gives.
    public enum Access: Sendable, Equatable {
        /// The token's `scope` names one request that reads.
        case read
        /// The token has no `scope`, because Apple's scopes name no request that writes. It gives every right of the key,
        /// and was made for this write.
        case write(PortalWriteDetails)
    }

    public var access: Access
    /// The request that the token is for: as its `scope` names it, or the method and the path of a write.
    public var request: AuditText
    /// The key's identifier at Apple, the token's `kid`.
    public var keyId: AuditText

    public init(access: Access, request: AuditText, keyId: AuditText) {
        self.access = access
        self.request = request
        self.keyId = keyId
    }

    func write(into writer: inout JSONWriter) {
        switch access {
        case .read: writer.member("access", "read")
        case .write: writer.member("access", "write")
        }
        writer.member("request", request.text)
        writer.member("keyId", keyId.text)
        guard case .write(let write) = access else { return }
        writer.member("appleId", write.appleId.text)
        writer.member("certifiedKey", write.certifiedKey.base64)
        writer.member("csrSha256", write.csr?.hex)
        writer.member("attempt", write.attempt.hex)
        writer.member("approval", write.approval?.hex)
    }
}

/// The write at Apple for which a JSON Web Token was signed.
public struct PortalWriteDetails: Sendable, Equatable {
    /// The id of Apple's resource: of the merchant identifier for a new certificate, otherwise of the certificate.
    public var appleId: AuditText
    /// The publicKeyHash of the certificate's key. The record's own publicKeyHash is that of the service key.
    public var certifiedKey: AuditDigest
    /// SHA-256 of the certificate request in DER; nil if the write creates no certificate.
    public var csr: AuditDigest?
    /// The renewal's attempt, for which at most one token is signed.
    public var attempt: RenewalAttemptId
    /// The approval that the attempt used; nil if it needed none.
    public var approval: ApprovalIdentifier?

    public init(
        appleId: AuditText, certifiedKey: AuditDigest, csr: AuditDigest?, attempt: RenewalAttemptId,
        approval: ApprovalIdentifier?
    ) {
        self.appleId = appleId
        self.certifiedKey = certifiedKey
        self.csr = csr
        self.attempt = attempt
        self.approval = approval
    }
}
