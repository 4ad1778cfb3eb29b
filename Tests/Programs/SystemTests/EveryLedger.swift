import TestSupport
import Testing

/// Runs every test once with a ledger in a file and once with one in PostgreSQL: what they say of the daemon holds for both.
struct EveryLedger: SuiteTrait, TestTrait, TestScoping {
    let isRecursive = true

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        for ledger in DaemonLedger.allCases {
            // A failure says with which.
            let named = IssueHandlingTrait.compactMapIssues { issue in
                var issue = issue
                issue.comments.append("with a ledger in \(ledger.rawValue)")
                return issue
            }
            try await named.provideScope(for: test, testCase: testCase) {
                try await DaemonLedger.$current.withValue(ledger) { try await function() }
            }
        }
    }
}

extension Trait where Self == EveryLedger {
    static var everyLedger: Self { EveryLedger() }
}
