import DaemonAPI

/// Why there is no merchant session. What it means to the caller, and what to do, is in ``SessionFailure/answer``.
public enum SessionFailure: Error, Sendable, Equatable {
    // paytokend and the merchant's identity.
    case noActiveIdentity
    /// Its certificate begins later than this host's clock says.
    case identityNotYetValid
    case identityExpired
    /// Asked for an identity or a signature.
    case paytokend(IdentityFailure)

    // The way to Apple.
    case nameNotResolved
    case notConnected
    case proxyRefused(status: Int?)
    /// The server's certificate has no path to a trusted root, or is not valid now.
    case serverUntrusted
    /// It is for another name.
    case serverNameWrong
    /// TLS failed otherwise, before the merchant's certificate came into it; BoringSSL's name of the reason.
    case handshakeFailed(reason: String)
    /// The server ended TLS with this alert after it was shown the merchant's certificate.
    case identityRefusedInTLS(alert: String)
    case tooManyConnections

    // The answer.
    case deadlineExceeded(step: SessionStep)
    /// The connection ended after the request was sent and before its answer was there.
    case connectionLost
    case answerTooLarge
    case notHTTP
    case redirected(status: Int)
    /// Apple's 417: merchant, domain and certificate do not fit together.
    case mismatch
    /// 401 or 403.
    case identityRefused(status: Int)
    /// Another 4xx.
    case requestRefused(status: Int)
    /// 429, with the seconds of its Retry-After.
    case tooManyRequests(retryAfter: Int?)
    case appleUnavailable(status: Int)
    /// A success that is no JSON object, or without a length.
    case unexpectedContent
    /// A status that is none of the above.
    case unexpectedStatus(Int)
}

/// The steps by which a session is had, in their order.
public enum SessionStep: String, Sendable, CaseIterable, Codable {
    /// paytokend is asked for the merchant's certificates.
    case identity
    /// The host's name is resolved.
    case name
    /// TCP, and the proxy where there is one.
    case connection
    /// TLS, and the server's certificate.
    case tls
    /// The handshake is signed with the merchant's key.
    case signature
    /// The server takes the merchant's certificate and answers the request.
    case answer
}

/// What the caller is told: `{ "code", "message", "details"? }`.
public struct SessionRefusal: Error, Sendable, Equatable {
    public let status: Int
    public let code: String
    /// What is wrong and what to do, in a sentence or two.
    public let message: String
    public let details: String?
    /// Seconds for the Retry-After header.
    public let retryAfter: Int?

    init(_ status: Int, _ code: String, _ message: String, details: String? = nil, retryAfter: Int? = nil) {
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.retryAfter = retryAfter
    }
}

extension SessionFailure {
    /// The one table of what can go wrong: status, code, what it means and what to do.
    public var answer: SessionRefusal {
        switch self {
        case .noActiveIdentity:
            SessionRefusal(
                422, "no_active_identity",
                "This merchant has no active identity certificate here. Import or activate one: "
                    + "`paytokenctl key list` shows what there is, `paytokenctl key generate --use identity` begins anew."
            )
        case .identityNotYetValid:
            SessionRefusal(
                422, "identity_not_valid",
                "The merchant's identity certificate is not valid yet by this host's clock. Check the clock first; a new "
                    + "certificate is valid from its issue.", details: "not yet valid")
        case .identityExpired:
            SessionRefusal(
                422, "identity_not_valid",
                "The merchant's identity certificate has expired. Rotate it with `paytokenctl rotate start MERCHANT`; "
                    + "check the host's clock if it should still be valid.", details: "expired")
        case .paytokend(let failure): Self.answer(to: failure)

        case .nameNotResolved:
            SessionRefusal(
                503, "apple_unreachable",
                "The name of Apple's host cannot be resolved. Check this host's DNS, or set sessions.proxy.",
                details: "name", retryAfter: 5)
        case .notConnected:
            SessionRefusal(
                503, "apple_unreachable",
                "No TCP connection to Apple's host. Check the firewall for port 443, or set sessions.proxy.",
                details: "connection", retryAfter: 5)
        case .proxyRefused(let status):
            SessionRefusal(
                503, "apple_unreachable",
                "The proxy opens no tunnel to Apple's host. Check sessions.proxy, and what the proxy allows.",
                details: status.map { "proxy status \($0)" } ?? "the proxy's answer is not HTTP", retryAfter: 5)
        case .serverUntrusted:
            SessionRefusal(
                502, "apple_certificate_untrusted",
                "The server that answers as Apple's host shows a certificate that no trusted root has issued, or that is "
                    + "not valid now. Check this host's clock and its root certificates (or sessions.trust), and whether a "
                    + "proxy opens TLS.")
        case .serverNameWrong:
            SessionRefusal(
                502, "apple_certificate_untrusted",
                "The server that answers as Apple's host shows a certificate for another name. Check this host's DNS, and "
                    + "whether a proxy opens TLS.", details: "name")
        case .handshakeFailed(let reason):
            SessionRefusal(
                502, "apple_tls_failed",
                "No TLS 1.2 or 1.3 with Apple's host. Check whether a proxy or firewall stands in between.",
                details: reason)
        case .identityRefusedInTLS(let alert):
            SessionRefusal(
                502, "identity_refused",
                "Apple ended TLS when it was shown the merchant's certificate. Check in Apple's portal that the merchant "
                    + "identity certificate is active and of this environment, and revoked by nobody.", details: alert)
        case .tooManyConnections:
            SessionRefusal(
                503, "overloaded", "Too many merchant sessions are being asked for at once. Try again.", retryAfter: 1)

        case .deadlineExceeded(let step):
            SessionRefusal(
                504, "apple_timeout", "There was no merchant session in time. Ask again; it is safe to.",
                details: "step \(step.rawValue)", retryAfter: 1)
        case .connectionLost:
            SessionRefusal(
                502, "apple_connection_lost",
                "Apple's host ended the connection before its answer. Ask again; it is safe to.", retryAfter: 1)
        case .answerTooLarge:
            SessionRefusal(502, "apple_answer_unexpected", "Apple's answer is larger than a session.", details: "size")
        case .notHTTP:
            SessionRefusal(
                502, "apple_answer_unexpected", "What answers as Apple's host does not speak HTTP/1.1.",
                details: "not HTTP")
        case .redirected(let status):
            SessionRefusal(
                502, "apple_answer_unexpected",
                "Apple's host sends to another address; that is not followed.", details: "status \(status)")
        case .mismatch:
            SessionRefusal(
                422, "merchant_not_accepted",
                "Apple says that merchant, domain and certificate do not fit together (417). In Apple's portal, look at this "
                    + "merchant identifier: is the domain registered and verified there, spelled alike? Is the certificate "
                    + "listed there as merchant identity, and not revoked? `paytokenctl session check MERCHANT --domain D` "
                    + "with another domain of the same merchant tells domain from certificate. And is the environment the "
                    + "one in which the merchant is registered?", details: "status 417")
        case .identityRefused(let status):
            SessionRefusal(
                502, "identity_refused",
                "Apple does not accept the merchant's certificate for this request. Check in Apple's portal that the "
                    + "merchant identity certificate is active and of this environment.", details: "status \(status)")
        case .requestRefused(let status):
            SessionRefusal(
                502, "apple_refused",
                "Apple refuses the request. Check displayName, initiative and initiativeContext against Apple's "
                    + "documentation.", details: "status \(status)")
        case .tooManyRequests(let seconds):
            SessionRefusal(
                503, "apple_unavailable", "Apple takes no more requests just now. Ask again later.",
                details: "status 429", retryAfter: seconds ?? 5)
        case .appleUnavailable(let status):
            SessionRefusal(
                503, "apple_unavailable",
                "Apple's host has a fault. Ask again; see https://developer.apple.com/system-status/ if it stays.",
                details: "status \(status)", retryAfter: 2)
        case .unexpectedContent:
            SessionRefusal(
                502, "apple_answer_unexpected",
                "Apple's answer is no session. Check whether a proxy answers in its place.", details: "content")
        case .unexpectedStatus(let status):
            SessionRefusal(
                502, "apple_answer_unexpected", "Apple's answer is no session.", details: "status \(status)")
        }
    }

    private static func answer(to failure: IdentityFailure) -> SessionRefusal {
        switch failure {
        case .unreachable(let error):
            SessionRefusal(
                503, "paytokend_unavailable",
                "paytokend does not answer. Is it running, is paytokend.socket its payments socket, and may this account "
                    + "use it?", details: error.kind, retryAfter: 2)
        case .unreadable:
            SessionRefusal(
                503, "paytokend_unavailable",
                "paytokend's answer cannot be read. Are paytokend and paytoken-gateway of the same version?",
                retryAfter: 2)
        case .refused(let code, _) where code == "forbidden":
            SessionRefusal(
                503, "paytokend_forbids",
                "paytokend gives this gateway no identity of this merchant. Give its account role session and this "
                    + "merchant in paytokend's access rules.")
        case .refused(let code, _) where failure.concernsKey:
            SessionRefusal(
                422, "no_active_identity",
                "No identity key of this merchant signs any more. `paytokenctl key list` shows their states.",
                details: code)
        // Codes of paytokend pass through; its sentence is for its own callers and stays out.
        case .refused(let code, _):
            SessionRefusal(
                503, code,
                "paytokend could not have the handshake signed. See its log and `paytokenctl status`; ask again.",
                retryAfter: 2)
        }
    }

    /// The label of metrics and logs: the code.
    public var outcome: String { answer.code }

    /// Whether asking again at once, as it is, may help.
    var isPassing: Bool { answer.retryAfter != nil }
}

extension UnixSocketClientError {
    /// Without the path.
    fileprivate var kind: String {
        switch self {
        case .notThere: "there is no socket"
        case .notListening: "nobody listens"
        case .busy: "too many connections wait"
        case .notPermitted: "no permission"
        case .pathTooLong: "the path is too long"
        case .cannotConnect: "cannot connect"
        case .deadlineExceeded, .silent: "no answer in time"
        case .answerTooLarge, .notHTTP: "not paytokend's answer"
        case .cutShort: "the connection ended early"
        }
    }
}
