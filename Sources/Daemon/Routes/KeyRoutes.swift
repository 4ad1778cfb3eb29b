import DaemonAPI
import Foundation
import MerchantKeys
import Refusals

/// `GET /v1/keys` and `GET /v1/keys/{key}`.
struct KeyRoutes: Sendable {
    let summaries: KeySummaries
    let index: KeyIndex

    /// `limit` keys (100, at most 1,000), by hash, after the one that `after` names; `next` goes into `after`.
    func list(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let limit = try Self.limit(request.query["limit"])
        let entries = request.query["after"].map { index.entries(after: $0) } ?? index.entries[...]
        let page = entries.prefix(limit)
        let answer = ListAnswer(
            items: page.map { summaries.summary($0) },
            next: page.count < entries.count ? page.last?.publicKeyHash.hex : nil)
        return EndpointAnswer(http: .json(status: 200, answer.json()), outcome: "ok")
    }

    func show(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        try .json(summaries.summary(index.entry(named: request.pathArguments[0])))
    }

    private static func limit(_ text: String?) throws(Refusal) -> Int {
        guard let text else { return 100 }
        guard let limit = Int(text), (1...1000).contains(limit) else {
            throw Refusal(.malformedRequest, "The query's limit must be a number from 1 to 1000.")
        }
        return limit
    }
}
