public import Testing

/// The database of a ledger or a payment store.
public enum StorageEngine: String, CaseIterable, Sendable {
    case sqlite
    case postgresql

    /// The engine that fixtures and daemons use if this task makes them.
    @TaskLocal public static var current = StorageEngine.sqlite
}

/// Runs every test once for each engine, because all engines must behave the same.
public struct EveryEngine: SuiteTrait, TestTrait, TestScoping {
    public let isRecursive = true

    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        for engine in StorageEngine.allCases {
            // A failure's message names the engine.
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
