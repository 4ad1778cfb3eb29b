import Foundation
import TestSupport
import Testing

@testable import Ledger

/// The engines that keep the protocol's promises.
enum LedgerEngine: String, CaseIterable {
    case sqlite
    case postgresql

    /// The one that a fixture opens.
    @TaskLocal static var current = LedgerEngine.sqlite
}

/// Runs every test once for each engine: what they say holds for all.
struct EveryEngine: SuiteTrait, TestTrait, TestScoping {
    let isRecursive = true

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        for engine in LedgerEngine.allCases {
            // A failure says with which engine.
            let named = IssueHandlingTrait.compactMapIssues { issue in
                var issue = issue
                issue.comments.append("with \(engine.rawValue)")
                return issue
            }
            try await named.provideScope(for: test, testCase: testCase) {
                try await LedgerEngine.$current.withValue(engine) { try await function() }
            }
        }
    }
}

extension Trait where Self == EveryEngine {
    static var everyEngine: Self { EveryEngine() }
}

/// What tests need of an engine beside its promises.
protocol TestedLedger: Ledger {
    /// Runs on the writer's thread, after what was handed to it before.
    func onWriter(_ body: @escaping @Sendable () -> Void)
    /// How many writes wait for the next batch.
    var waitingWrites: Int { get }
}

extension SQLiteLedger: TestedLedger {
    func onWriter(_ body: @escaping @Sendable () -> Void) { connections.onWriter { _ in body() } }
    var waitingWrites: Int { writer.writes.waiting }
}

extension PostgreSQLLedger: TestedLedger {
    func onWriter(_ body: @escaping @Sendable () -> Void) { writer.onThread(body) }
    var waitingWrites: Int { writer.writes.waiting }
}
