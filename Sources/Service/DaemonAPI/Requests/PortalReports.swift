public import Refusals

/// The body of `POST /v1/portal/checks`, which requests Apple's list of a merchant's certificates.
public struct PortalCheckRequest: StrictRequest {
    public var merchantIdentifier: String

    public init(merchantIdentifier: String) { self.merchantIdentifier = merchantIdentifier }

    public enum CodingKeys: CodingKey, CaseIterable { case merchantIdentifier }
}

/// The body of `POST /v1/portal/work/{id}`: the result of one request to Apple's API.
///
/// It has `status` if Apple answered, and `fault` if not. The outbound program reports facts; the daemon decides.
public struct PortalReport: StrictRequest {
    public struct Merchant: Codable, Sendable, Equatable {
        /// The id of Apple's resource.
        public var id: String
        public var identifier: String

        public init(id: String, identifier: String) { (self.id, self.identifier) = (id, identifier) }

        enum CodingKeys: CodingKey, CaseIterable { case id, identifier }
    }

    public struct Certificate: Codable, Sendable, Equatable {
        /// The id of Apple's resource.
        public var id: String
        /// Apple's `certificateType`.
        public var type: String
        /// Apple's `activated`; absent if Apple's answer does not have it, which does not mean false.
        public var activated: Bool?
        /// Base64 of the certificate's DER, `certificateContent`.
        public var content: String

        public init(id: String, type: String, activated: Bool?, content: String) {
            self.id = id
            self.type = type
            self.activated = activated
            self.content = content
        }

        enum CodingKeys: CodingKey, CaseIterable { case id, type, activated, content }
    }

    /// The reasons why there is no answer, or why it could not be read. The raw values are part of the public contract.
    public enum Fault: String, Sendable, CaseIterable {
        case nameNotResolved = "name_not_resolved"
        case notConnected = "not_connected"
        case proxyRefused = "proxy_refused"
        case handshakeFailed = "handshake_failed"
        case noAnswerInTime = "no_answer_in_time"
        case connectionLost = "connection_lost"
        case answerTooLarge = "answer_too_large"
        case notHTTP = "not_http"
        case answerNotUnderstood = "answer_not_understood"

        /// True if no byte of the request was sent to Apple, so that it has no effect there.
        public var isBeforeSending: Bool {
            switch self {
            case .nameNotResolved, .notConnected, .proxyRefused, .handshakeFailed: true
            case .noAnswerInTime, .connectionLost, .answerTooLarge, .notHTTP, .answerNotUnderstood: false
            }
        }
    }

    /// The status of Apple's answer.
    public var status: Int?
    /// The code of Apple's first error, such as `NOT_AUTHORIZED`.
    public var code: String?
    /// The merchant identifiers in the answer; absent if there are none.
    public var merchants: [Merchant]?
    /// The certificates in the answer: those of a list, or the one that was created or activated; absent if there are none.
    public var certificates: [Certificate]?
    /// The reason why there is no answer, or why it could not be read: a ``Fault``'s raw value.
    public var fault: String?
    /// The number of requests that Apple still permits within an hour, from `X-Rate-Limit`; absent if it does not say.
    public var requestsRemaining: Int?

    /// True if no byte of the request was sent to Apple. An unknown reason leaves that open.
    public var isUnsent: Bool { fault.flatMap(Fault.init)?.isBeforeSending ?? false }

    /// The largest number of merchant identifiers or certificates: the API's own limit of one answer.
    public static let maximumElements = 200

    public init(
        status: Int? = nil, code: String? = nil, merchants: [Merchant] = [], certificates: [Certificate] = [],
        fault: Fault? = nil, requestsRemaining: Int? = nil
    ) {
        self.status = status
        self.code = code
        self.merchants = merchants.isEmpty ? nil : merchants
        self.certificates = certificates.isEmpty ? nil : certificates
        self.fault = fault?.rawValue
        self.requestsRemaining = requestsRemaining
    }

    public enum CodingKeys: CodingKey, CaseIterable {
        case status, code, merchants, certificates, fault, requestsRemaining
    }

    public func validate() throws(Refusal) {
        guard (status == nil) != (fault == nil), status.map({ (100...599).contains($0) }) ?? true else {
            throw Refusal(.malformedRequest, "The report needs either status, 100 to 599, or fault.", details: "status")
        }
        let listed = (certificates ?? []).flatMap { [$0.id, $0.type] }
        for text in [code, fault].compactMap(\.self) + listed {
            guard (1...100).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
                throw Refusal(
                    .malformedRequest,
                    "code, fault, and a certificate's id and type have 1 to 100 printable characters.", details: "code")
            }
        }
        guard requestsRemaining.map({ (0...1_000_000).contains($0) }) ?? true else {
            throw Refusal(
                .malformedRequest, "requestsRemaining is 0 to 1,000,000.", details: "requestsRemaining")
        }
    }
}
