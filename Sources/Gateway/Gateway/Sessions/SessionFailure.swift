import DaemonAPI
import Refusals

/// The reason why there is no merchant session. ``SessionFailure/answer`` states what the failure means for the caller,
/// and the remedy.
enum SessionFailure: Error, Sendable, Equatable {
    // Failures of paytokend and of the merchant's identity: the cases down to `paytokend`.
    case noActiveIdentity
    /// The certificate is not yet valid according to this host's clock.
    case identityNotYetValid
    case identityExpired
    /// paytokend returned no identity or no signature.
    case paytokend(IdentityFailure)

    // Failures on the route to Apple: the cases down to `tooManyConnections`.
    case nameNotResolved
    case notConnected
    case proxyRefused(status: Int?)
    /// The server's certificate has no path to a trusted root, or is not currently valid.
    case serverUntrusted
    /// The server's certificate is for a different name.
    case serverNameWrong
    /// TLS failed for another reason, before the merchant's certificate was used; the value is BoringSSL's name for the
    /// reason.
    case handshakeFailed(reason: String)
    /// The server ended TLS with this alert after it received the merchant's certificate.
    case identityRefusedInTLS(alert: String)
    case tooManyConnections

    // Failures after the connection was made, and the deadline: all following cases.
    case deadlineExceeded(step: SessionStep)
    /// The connection ended after the request was sent but before the response arrived.
    case connectionLost
    case answerTooLarge
    case notHTTP
    case redirected(status: Int)
    /// Apple's status 417: merchant, domain and certificate do not match.
    case mismatch
    /// Apple responded with status 401 or 403.
    case identityRefused(status: Int)
    /// Apple responded with another 4xx status.
    case requestRefused(status: Int)
    /// Apple responded with status 429. The value is the seconds of Apple's Retry-After; nil if there is none, or it
    /// exceeds an hour.
    case tooManyRequests(retryAfter: Int?)
    case appleUnavailable(status: Int)
    /// Apple's successful response is not a JSON object, or its body may be incomplete because it has neither a length
    /// nor chunks.
    case unexpectedContent
    /// Apple responded with a status for which there is no other case.
    case unexpectedStatus(Int)
}

/// The steps of requesting a session, in order.
enum SessionStep: String, Sendable, CaseIterable, Codable {
    /// The gateway requests the merchant's certificates from paytokend.
    case identity
    /// The gateway resolves the host's name.
    case name
    /// The gateway connects over TCP, and through the proxy if there is one.
    case connection
    /// The gateway makes the TLS handshake, which includes the check of the server's certificate.
    case tls
    /// paytokend signs the handshake with the merchant's key.
    case signature
    /// The server accepts the merchant's certificate and responds to the request.
    case answer
}

/// The codes for merchant sessions that paytokend does not define; they are part of the public contract.
enum SessionCode: String, CaseIterable, Sendable {
    /// Apple's status 417: merchant, domain and certificate do not match.
    case merchantNotAccepted = "merchant_not_accepted"
    case noActiveIdentity = "no_active_identity"
    case identityNotValid = "identity_not_valid"
    case identityRefused = "identity_refused"
    case appleRefused = "apple_refused"
    case appleCertificateUntrusted = "apple_certificate_untrusted"
    case appleTLSFailed = "apple_tls_failed"
    case appleConnectionLost = "apple_connection_lost"
    case appleAnswerUnexpected = "apple_answer_unexpected"
    case appleUnreachable = "apple_unreachable"
    case appleUnavailable = "apple_unavailable"
    case paytokendUnavailable = "paytokend_unavailable"
    case paytokendForbids = "paytokend_forbids"
    case appleTimeout = "apple_timeout"

    /// The HTTP status of the refusal, and the seconds for its Retry-After header; nil if waiting does not help.
    var statusAndRetryAfter: (status: Int, retryAfter: Int?) {
        switch self {
        case .merchantNotAccepted, .noActiveIdentity, .identityNotValid: (422, nil)
        case .identityRefused, .appleRefused, .appleCertificateUntrusted, .appleTLSFailed, .appleConnectionLost,
            .appleAnswerUnexpected:
            (502, nil)
        case .appleUnreachable: (503, 5)
        case .appleUnavailable, .paytokendUnavailable: (503, 2)
        case .paytokendForbids: (503, nil)
        case .appleTimeout: (504, nil)
        }
    }
}

extension SessionFailure {
    /// The refusal that the client receives: the failure's code, meaning and remedy. This is the only table of
    /// failures.
    var answer: GatewayRefusal {
        switch self {
        case .noActiveIdentity:
            GatewayRefusal(
                .session(.noActiveIdentity),
                "This merchant has no active identity certificate in paytokend. Import or activate one, or generate "
                    + "a new identity key there."
            )
        case .identityNotYetValid:
            GatewayRefusal(
                .session(.identityNotValid),
                "The merchant's identity certificate is not valid yet by this host's clock. Check the clock first; a new "
                    + "certificate is valid from its issue.", details: "not yet valid")
        case .identityExpired:
            GatewayRefusal(
                .session(.identityNotValid),
                "The merchant's identity certificate has expired. Rotate the identity key in paytokend; "
                    + "check the host's clock if it should still be valid.", details: "expired")
        case .paytokend(let failure): Self.answer(to: failure)

        case .nameNotResolved:
            GatewayRefusal(
                .session(.appleUnreachable),
                "The name of Apple's host cannot be resolved. Check this host's DNS, or set sessions.proxy.",
                details: "name")
        case .notConnected:
            GatewayRefusal(
                .session(.appleUnreachable),
                "No TCP connection to Apple's host. Check the firewall for port 443, or set sessions.proxy.",
                details: "connection")
        case .proxyRefused(let status):
            GatewayRefusal(
                .session(.appleUnreachable),
                "The proxy opens no tunnel to Apple's host. Check sessions.proxy, and what the proxy allows.",
                details: status.map { "proxy status \($0)" } ?? "the proxy's answer is not HTTP")
        case .serverUntrusted:
            GatewayRefusal(
                .session(.appleCertificateUntrusted),
                "The server that answers as Apple's host shows a certificate that no trusted root has issued, or that is "
                    + "not valid now. Check this host's clock and its root certificates (or sessions.trust), and whether a "
                    + "proxy opens TLS.")
        case .serverNameWrong:
            GatewayRefusal(
                .session(.appleCertificateUntrusted),
                "The server that answers as Apple's host shows a certificate for another name. Check this host's DNS, and "
                    + "whether a proxy opens TLS.", details: "name")
        case .handshakeFailed(let reason):
            GatewayRefusal(
                .session(.appleTLSFailed),
                "No TLS 1.2 or 1.3 with Apple's host. Check whether a proxy or firewall interferes.",
                details: reason)
        case .identityRefusedInTLS(let alert):
            GatewayRefusal(
                .session(.identityRefused),
                "Apple ended TLS after it received the merchant's certificate. Check in Apple's portal that the merchant "
                    + "identity certificate is active and of this environment, and not revoked.", details: alert)
        case .tooManyConnections:
            GatewayRefusal(
                .daemon(.overloaded), "Too many merchant sessions are being requested at once. Try again.")

        case .deadlineExceeded(let step):
            GatewayRefusal(
                .session(.appleTimeout), "Apple gave no merchant session in time. Ask again; this is safe.",
                details: "step \(step.rawValue)")
        case .connectionLost:
            GatewayRefusal(
                .session(.appleConnectionLost),
                "Apple's host ended the connection before its answer. Ask again; this is safe.")
        case .answerTooLarge:
            GatewayRefusal(
                .session(.appleAnswerUnexpected), "Apple's answer is larger than a session.", details: "size")
        case .notHTTP:
            GatewayRefusal(
                .session(.appleAnswerUnexpected), "The server that answers as Apple's host does not speak HTTP/1.1.",
                details: "not HTTP")
        case .redirected(let status):
            GatewayRefusal(
                .session(.appleAnswerUnexpected),
                "Apple's host redirects to another address, and redirects are not followed.",
                details: "status \(status)")
        case .mismatch:
            GatewayRefusal(
                .session(.merchantNotAccepted),
                "Apple says that merchant, domain and certificate do not match (417). In Apple's portal, check this "
                    + "merchant identifier: is the domain registered and verified there, spelled alike? Is the certificate "
                    + "listed there as merchant identity, and not revoked? A session check "
                    + "with another domain of the same merchant shows whether the domain or the certificate is at fault. And is the environment the "
                    + "one in which the merchant is registered?", details: "status 417")
        case .identityRefused(let status):
            GatewayRefusal(
                .session(.identityRefused),
                "Apple does not accept the merchant's certificate for this request. Check in Apple's portal that the "
                    + "merchant identity certificate is active and of this environment.", details: "status \(status)")
        case .requestRefused(let status):
            GatewayRefusal(
                .session(.appleRefused),
                "Apple refuses the request. Check displayName, initiative and initiativeContext against Apple's "
                    + "documentation.", details: "status \(status)")
        case .tooManyRequests(let seconds):
            GatewayRefusal(
                .session(.appleUnavailable), "Apple accepts no more requests at the moment. Ask again later.",
                details: "status 429", retryAfter: seconds)
        case .appleUnavailable(let status):
            GatewayRefusal(
                .session(.appleUnavailable),
                "Apple's host has a fault. Ask again; see https://developer.apple.com/system-status/ if the fault stays.",
                details: "status \(status)")
        case .unexpectedContent:
            GatewayRefusal(
                .session(.appleAnswerUnexpected),
                "Apple's answer is not a session. Check whether a proxy answers in its place.", details: "content")
        case .unexpectedStatus(let status):
            GatewayRefusal(
                .session(.appleAnswerUnexpected), "Apple's answer is not a session.", details: "status \(status)")
        }
    }

    private static func answer(to failure: IdentityFailure) -> GatewayRefusal {
        switch failure {
        case .late: SessionFailure.deadlineExceeded(step: .signature).answer
        case .unreachable(let error):
            GatewayRefusal(
                .session(.paytokendUnavailable),
                "paytokend does not answer. Is it running, is paytokend.socket its payments socket, and may this account "
                    + "use it?", details: error.kind)
        case .unreadable:
            GatewayRefusal(
                .session(.paytokendUnavailable),
                "paytokend's answer cannot be read. Are paytokend and paytoken-gateway of the same version?")
        case .refused(let code, _) where code == "forbidden":
            GatewayRefusal(
                .session(.paytokendForbids),
                "paytokend gives this gateway no identity of this merchant. Give its account role session and this "
                    + "merchant in paytokend's access rules.")
        case .refused(let code, _) where failure.concernsKey:
            GatewayRefusal(
                .session(.noActiveIdentity),
                "No identity key of this merchant can sign now; ask the operator of paytokend for the states of its keys.",
                details: code)
        // A temporary fault (status 503) keeps paytokend's code. paytokend's message is omitted, because it is written
        // for paytokend's own callers.
        case .refused(let code, _):
            if let known = RefusalCode(rawValue: code), ErrorTable.row(for: known).status == 503 {
                GatewayRefusal(
                    .daemon(known),
                    "paytokend could not get the handshake signed. See its log and its GET /v1/status; ask again.")
            } else {
                GatewayRefusal(
                    .session(.paytokendUnavailable),
                    "paytokend refuses what this gateway asks. Are paytokend and paytoken-gateway of the same version?",
                    details: code)
            }
        }
    }

    /// Creates the failure for a request to paytokend that failed.
    ///
    /// - Parameter step: the step that was in progress.
    init(_ failure: IdentityFailure, during step: SessionStep) {
        self = failure == .late ? .deadlineExceeded(step: step) : .paytokend(failure)
    }

    /// The label of metrics and logs: the code.
    var outcome: String { answer.code.rawValue }
}

extension UnixSocketClientError {
    /// The kind of error. The text omits the socket's path, because the client receives it.
    fileprivate var kind: String {
        switch self {
        case .notThere: "there is no socket"
        case .notListening: "no process listens"
        case .busy: "too many connections wait"
        case .notPermitted: "no permission"
        case .pathTooLong: "the path is too long"
        case .cannotConnect: "cannot connect"
        case .deadlineExceeded, .silent: "no answer in time"
        case .answerTooLarge, .notHTTP: "not paytokend's answer"
        case .closed: "the connection was closed before an answer"
        case .cutShort: "the connection ended early"
        case .untrustedPeer: "another account's process listens"
        }
    }
}
