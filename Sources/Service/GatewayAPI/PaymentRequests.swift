public import DaemonAPI
public import Foundation
public import Refusals

/// The body of `POST /v1/payments/list` on the gateway's admin socket.
public struct PaymentListRequest: StrictRequest {
    public var client: String?
    /// The states, separated by commas.
    public var states: String?
    /// The time at or after which the payments were received.
    public var since: Date?
    /// The maximum number of payments in the list, 1 to 1000, as decimal digits.
    public var limit: String?

    public enum CodingKeys: CodingKey, CaseIterable {
        case client, states, since, limit
    }

    public init(client: String? = nil, states: String? = nil, since: Date? = nil, limit: Int? = nil) {
        self.client = client
        self.states = states
        self.since = since
        self.limit = limit.map(String.init)
    }

    public func validate() throws(Refusal) {
        guard limit.map({ Int($0).map((1...1000).contains) ?? false }) ?? true else {
            throw Refusal(.malformedRequest, "limit is not a number from 1 to 1000.", details: "limit")
        }
    }
}

/// The body of `POST /v1/payments/{transactionId}/resolve` on the gateway's admin socket.
public struct PaymentResolution: StrictRequest {
    /// One of ``statuses``.
    public var status: String
    /// The reason for the resolution, 1 to 200 characters. The payment's history keeps it.
    public var reason: String

    /// The results that a pending payment can be resolved to.
    public static let statuses = ["authorized", "captured", "declined", "error"]

    public enum CodingKeys: CodingKey, CaseIterable {
        case status, reason
    }

    public init(status: String, reason: String) {
        self.status = status
        self.reason = reason
    }

    public func validate() throws(Refusal) {
        guard Self.statuses.contains(status) else {
            throw Refusal(
                .malformedRequest, "status is none of \(Self.statuses.joined(separator: ", ")).", details: "status")
        }
        try validate(reason: reason)
    }
}
