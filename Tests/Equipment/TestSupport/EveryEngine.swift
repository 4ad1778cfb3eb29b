public import Testing

/// The database of a ledger or a payment store.
public enum StorageEngine: String, CaseIterable, Sendable {
    case sqlite
    case postgresql

    /// The engine of fixtures and daemons made in this task.
    @TaskLocal public static var current = StorageEngine.sqlite
}

/// Runs every test once for each engine: the behaviour is the same for all.
public struct EveryEngine: SuiteTrait, TestTrait, TestScoping {
    public let isRecursive = true

    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        for engine in StorageEngine.allCases {
            // A failure states its engine.
            let named = IssueHandlingTrait.compactMapIssues { issue in
                var issue = issue
                issue.comments.append("with \(engine.rawValue)")
                return issue
            }
            try await named.provideScope(for: test, testCase: testCase) {
                try await StorageEngine.$current.withValue(engine) { try await function() }
            }
        }
    }
}

extension Trait where Self == EveryEngine {
    public static var everyEngine: Self { EveryEngine() }
}
