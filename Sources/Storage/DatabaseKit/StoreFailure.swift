/// The failures that the kit finds, as a store's own error has them.
package protocol StoreFailure: Error {
    /// Nothing can be written or read now, or could be made durable.
    static func unavailable(reason: String) -> Self
    /// - Parameter mayStand: whether what was asked for may have been written, or be written yet.
    static func timedOut(after timeout: Duration, mayStand: Bool) -> Self
    /// More wait than may wait. Nothing was written.
    static var overloaded: Self { get }

    /// Only codes and fixed sentences of what was thrown: a statement's values stay out of logs.
    init(_ error: any Error)

    /// The failure of a change that may stand all the same, since it cannot be read back.
    var whereItMayStand: Self { get }
}

extension StoreFailure {
    package var whereItMayStand: Self { self }
}

/// A column that is not there, is NULL where that may not be, or has another type than the program knows: another program has
/// changed the tables. The value is not in it.
package struct UnreadableColumn: Error, Sendable, Equatable {
    /// From 0.
    package let column: Int

    package init(column: Int) { self.column = column }
}
