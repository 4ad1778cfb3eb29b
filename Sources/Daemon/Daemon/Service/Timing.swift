import Foundation

/// Where the daemon's one notion of the present comes from, so that tests can stand at any time.
struct WallClock: Sendable {
    let now: @Sendable () -> Date

    static let system = WallClock { Date() }
}
