import Foundation
import PKCS11

/// Until when a call may be tried again. Earlier than the daemon's own limit, at which it ends the worker.
struct CallDeadline: Sendable {
    private let end: ContinuousClock.Instant
    private var pause = Self.shortestPause

    private static let shortestPause = 0.004
    private static let longestPause = 0.25

    /// - Parameters:
    ///   - start: When a session began with the call: what it waited for one is no time of the token's.
    ///   - callTimeout: The daemon's limit, in milliseconds.
    init(from start: ContinuousClock.Instant = .now, callTimeout: UInt32) {
        end = start + .milliseconds(Int64(callTimeout) * 3 / 4)
    }

    var isOver: Bool { ContinuousClock.now >= end }

    /// Blocks for a while that doubles from one time to the next; some randomness keeps threads apart.
    /// - Returns: false when there is no time left; it has not waited then.
    mutating func wait() -> Bool {
        let duration = pause * .random(in: 0.5...1)
        guard ContinuousClock.now + .seconds(duration) < end else { return false }
        Thread.sleep(forTimeInterval: duration)
        pause = min(pause * 2, Self.longestPause)
        return true
    }

    /// Makes a call again for as long as the token says that it is busy and there is time.
    mutating func retryingWhileBusy<Value>(_ body: () throws(CallError) -> Value) throws(CallError) -> Value {
        while true {
            do throws(CallError) {
                return try body()
            } catch {
                guard error.isBusy, wait() else { throw error }
            }
        }
    }
}
