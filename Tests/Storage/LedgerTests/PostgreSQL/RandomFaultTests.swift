import AuditChain
import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

/// Three nodes, each with a separate connection that breaks at random, before and after commits.
@Suite("Several nodes on a bad network")
struct RandomFaultTests {
    /// A node, and the proxy between it and the server.
    private struct Node: Sendable {
        let ledger: PostgreSQLLedger
        let proxy: PostgreSQLProxy
    }

    private func node(_ name: String, _ fixture: PostgreSQLFixture) async throws -> Node {
        let proxy = try await PostgreSQLProxy(to: fixture.database.server)
        let url = try PostgreSQLURL(proxy.url(fixture.database.name, user: LedgerDatabases.daemon))
        return Node(ledger: try await fixture.node(name) { $0.url = url }, proxy: proxy)
    }

    private struct Answer: Sendable {
        let number: Int
        let verdict: ReleaseVerdict
        /// True if this node failed the same request before. It may have committed the release without learning of it
        /// in time.
        let wasRefused: Bool
    }

    /// Repeats the request until the node decides it.
    private func answer(_ number: Int, _ node: Node, _ fixture: PostgreSQLFixture) async throws -> Answer {
        var wasRefused = false
        while true {
            do {
                let verdict = try await fixture.release(number, reference: nil, on: node.ledger).verdict
                return Answer(number: number, verdict: verdict, wasRefused: wasRefused)
            } catch LedgerFailure.unavailable, LedgerFailure.timedOut {
                wasRefused = true
            }
        }
    }

    @Test(
        "releases no transaction twice and records each answer once, however commits and answers are lost"
    )
    func once() async throws {
        let fixture = try await PostgreSQLFixture { $0.timeout = .seconds(8) }
        let nodes = [
            Node(ledger: fixture.ledger, proxy: fixture.proxy), try await node("node-2", fixture),
            try await node("node-3", fixture),
        ]
        let faults = Task {
            var random = SystemRandomNumberGenerator()
            while !Task.isCancelled {
                let proxy = nodes[Int.random(in: 0..<3, using: &random)].proxy
                proxy.fault = Bool.random(using: &random) ? .loseAcknowledgement(then: .none) : .loseCommit(then: .none)
                let cuts = proxy.cuts
                // Wait until this fault has occurred, or choose another node after 50 ms.
                try? await wait(within: 0.05) { proxy.cuts > cuts }
            }
        }
        func cuts() -> Int { nodes.reduce(0) { $0 + $1.proxy.cuts } }
        var released: [Int: Int] = [:]
        var refused: Set<Int> = []
        var count = 0
        while cuts() < 30 {
            let round = count + 1...count + 10
            count = round.upperBound
            let answers = try await withThrowingTaskGroup(of: Answer.self) { group in
                for number in round {
                    for node in nodes.shuffled() {
                        group.addTask { try await answer(number, node, fixture) }
                    }
                }
                return try await group.reduce(into: [Answer]()) { $0.append($1) }
            }
            for answer in answers {
                if answer.verdict == .released { released[answer.number, default: 0] += 1 }
                if answer.wasRefused { refused.insert(answer.number) }
            }
        }
        faults.cancel()
        await faults.value
        for node in nodes { node.proxy.fault = .none }
        #expect(released.values.allSatisfy { $0 == 1 })
        #expect(try await fixture.count("claim") == count)
        let recorded = try await fixture.database.sql(
            """
            SELECT count(*), count(DISTINCT transaction_id) FROM audit_record
            WHERE event = 'decrypt' AND outcome = 'ok'
            """)
        #expect(recorded == "\(count)|\(count)")
        // If no caller received a transaction, the node that wrote it had failed the request, because it could not read
        // the commit back in time. The number of such transactions depends on the machine.
        #expect(refused.isSuperset(of: Set(1...count).subtracting(released.keys)))
        // On a slow host, the faults may have lost every answer above. Without faults, the release must succeed.
        #expect(try await answer(count + 1, nodes[0], fixture).verdict == .released)
        let signer = CheckpointSigner()
        for node in nodes {
            try await signer.seal(node.ledger)
            #expect(try await signer.verdict(of: node.ledger).intactRecords != nil)
        }
        for node in nodes.dropFirst() { await node.ledger.close() }
    }
}
