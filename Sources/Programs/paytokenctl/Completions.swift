import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation

/// The candidates for shell completion: keys, merchants, approvals and HSM tokens that the daemon knows. If the daemon
/// does not respond, there are no candidates and no message.
extension CompletionKind {
    /// A key, by the first 16 hexadecimal digits of its publicKeyHash.
    static let key = CompletionKind.custom { words, _, prefix in await Candidates(words).keys(prefix) }
    static let merchant = CompletionKind.custom { words, _, prefix in await Candidates(words).merchants(prefix) }
    /// An approval on which the command can act.
    static let approval = CompletionKind.custom { words, _, prefix in await Candidates(words).approvals(prefix) }
    /// A node of the ledger, or `all`.
    static let node = CompletionKind.custom { words, _, prefix in await Candidates(words).nodes(prefix) }
    /// An HSM token's name in the configuration.
    static let hsmToken = CompletionKind.custom { words, _, prefix in await Candidates(words).hsmTokens(prefix) }
}

/// One request to the daemon, for an unfinished command line.
private struct Candidates {
    private let words: [String]
    private let client: UnixSocketClient

    /// The maximum number of candidates; more would not help a user.
    private static let most = 100
    /// The maximum number of pages, of a thousand keys each, that are read to find merchants.
    private static let maximumPages = 20

    init(_ words: [String]) {
        self.words = words
        let option = words.firstIndex(of: "--socket").map { words[min($0 + 1, words.endIndex - 1)] }
        client = UnixSocketClient(
            path: DaemonSocket.admin.path(option: option, environment: ProcessInfo.processInfo.environment),
            deadline: .seconds(3))
    }

    func keys(_ prefix: String) async -> [String] {
        let prefix = prefix.lowercased()
        guard Hexadecimal.isLowerCase(prefix.utf8) else { return [] }
        // The list is sorted by hash, and the hashes that begin with the prefix immediately follow it.
        let query = [("limit", String(Self.most))] + (prefix.isEmpty ? [] : [("after", prefix)])
        let found = await items("/v1/keys" + QueryText.of(query), KeySummary.self)?.items ?? []
        return found.filter(suits).compactMap { key in
            guard let hex = Base64.decode(key.publicKeyHash).map({ Hexadecimal.encode($0) }), hex.hasPrefix(prefix)
            else {
                return nil
            }
            return prefix.count > 16 ? hex : String(hex.prefix(16))
        }
    }

    /// Returns true if the command can act on the key.
    private func suits(_ key: KeySummary) -> Bool {
        let verbs = Set(words.dropFirst().prefix(3))
        if verbs.contains("show") || verbs.contains("list") { return true }
        if verbs.contains("added") || verbs.contains("removed") {
            return key.use == "google-pay" && key.state == (verbs.contains("added") ? "pre-activation" : "active")
        }
        if verbs.contains("adopt") { return key.condition == "external" }
        if verbs.contains("suspend") { return ["active", "deactivated"].contains(key.state) }
        if verbs.contains("resume") { return key.state == "suspended" }
        if verbs.contains("retire") { return ["active", "suspended"].contains(key.state) }
        if verbs.contains("destroy") { return !["active", "destroyed"].contains(key.state) }
        return key.state != "destroyed"
    }

    func merchants(_ prefix: String) async -> [String] {
        var merchants: Set<String> = []
        var next: String?
        for _ in 0..<Self.maximumPages {
            let query = [("limit", "1000")] + (next.map { [("after", $0)] } ?? [])
            guard let page = await items("/v1/keys" + QueryText.of(query), KeySummary.self) else { break }
            merchants.formUnion(page.items.compactMap(\.merchantIdentifier).filter { $0.hasPrefix(prefix) })
            next = page.next
            if next == nil { break }
        }
        return Array(merchants.sorted().prefix(Self.most))
    }

    func approvals(_ prefix: String) async -> [String] {
        let wanted = words.contains("import") || words.contains("adopt") ? "approved" : "pending"
        let found = await items("/v1/approvals", ApprovalSummary.self)?.items ?? []
        return found.filter { $0.status == wanted && $0.approval.hasPrefix(prefix) }.map(\.approval)
    }

    func hsmTokens(_ prefix: String) async -> [String] {
        await status()?.tokens.map(\.name).filter { $0.hasPrefix(prefix) } ?? []
    }

    func nodes(_ prefix: String) async -> [String] {
        guard let status = await status() else { return [] }
        let names = status.ledger.nodes?.map(\.name) ?? [status.node]
        return (["all"] + names.prefix(Self.most)).filter { $0.hasPrefix(prefix) }
    }

    private func status() async -> StatusAnswer? {
        guard let answer = try? await client.send(.get("/v1/status")), answer.isSuccess else { return nil }
        return try? answer.decoded(as: StatusAnswer.self)
    }

    private func items<Item: Codable & Sendable>(_ target: String, _ type: Item.Type) async -> ListAnswer<Item>? {
        guard let answer = try? await client.send(.get(target)), answer.isSuccess else { return nil }
        return try? answer.decoded(as: ListAnswer<Item>.self)
    }
}
