public import PortalRequests

/// A JSON Web Token to be built and signed by a service key, for one request to Apple's App Store Connect API. The
/// worker takes the issuer and the key's identifier from ``HSMTokenOpening``, and the times from its clock.
public struct JWTSigning: Sendable, Equatable, Message {
    /// The service key's CKA_ID, 32 bytes.
    public var publicKeyHash: [UInt8] = []
    public var kind: PortalRequest.Kind = .findMerchant
    /// The merchant identifier or the resource's id, as ``PortalRequest`` permits it. The worker refuses any other text.
    public var name: String = ""
    /// The form of a read's scope; nil for a write, whose token has no scope. The worker refuses any other combination.
    public var scope: TokenScope?

    public init(publicKeyHash: [UInt8], request: PortalRequest, scope: TokenScope?) {
        self.publicKeyHash = publicKeyHash
        kind = request.kind
        name = request.name
        self.scope = scope
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.octets(&publicKeyHash, atMost: FieldBound.identifier)
        try coder.choice(&kind)
        try coder.text(&name, atMost: FieldBound.name)
        try coder.optional(&scope, or: .versioned) { (coder, scope) throws(FrameError) in try coder.choice(&scope) }
    }
}
