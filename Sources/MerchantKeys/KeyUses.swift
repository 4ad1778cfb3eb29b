public import Foundation

/// How often a key opened payments within a span of time.
public struct KeyUses: Sendable, Equatable {
    public var count: Int
    /// The newest; nil when there was none.
    public var last: Date?

    public init(count: Int = 0, last: Date? = nil) {
        self.count = count
        self.last = last
    }
}
