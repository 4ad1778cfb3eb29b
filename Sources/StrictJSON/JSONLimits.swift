/// What a JSON text may cost beside its length, which the reader's caller bounds.
public struct JSONLimits: Sendable, Equatable {
    /// How many arrays and objects may be open within each other, 1 to 512.
    public let maximumDepth: Int

    /// - Parameter maximumDepth: taken as 512 when larger: the reader recurses, and its stack is finite.
    public init(maximumDepth: Int = 16) {
        self.maximumDepth = min(max(maximumDepth, 1), 512)
    }

    /// A depth of 16: requests and tokens need five.
    public static let `default` = JSONLimits()
}
