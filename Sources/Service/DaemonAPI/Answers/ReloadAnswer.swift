/// The answer of `POST /v1/reload`.
public struct ReloadAnswer: Codable, Sendable, Equatable {
    /// The maximum number of elements of ``changes``.
    public static let maximumChanges = 256

    /// A setting with a new value.
    public struct Change: Codable, Sendable, Equatable {
        /// The setting's name in the record, such as `access.1.name`.
        public var name: String
        /// The value until now; absent if the setting was not set.
        public var before: String?
        /// The new value; absent if the setting is no longer set.
        public var after: String?

        public init(name: String, before: String?, after: String?) {
            self.name = name
            self.before = before
            self.after = after
        }
    }

    /// `reloaded`, or `unchanged` in a dry run.
    public var status: String
    /// The settings that changed, sorted by name; in a dry run those that would change.
    public var changes: [Change]
    /// The number of further changes that ``changes`` has no room for.
    public var omitted: Int
    /// The sections, and `log.format`, whose changes take effect only after a restart.
    public var pending: [String]
    /// The warnings of the configuration, one sentence each.
    public var warnings: [String]

    public init(status: String, changes: [Change], omitted: Int, pending: [String], warnings: [String]) {
        self.status = status
        self.changes = changes
        self.omitted = omitted
        self.pending = pending
        self.warnings = warnings
    }
}
