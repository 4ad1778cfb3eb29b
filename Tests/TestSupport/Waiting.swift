/// What a test waited for did not happen.
public struct WaitedInVain: Error, CustomStringConvertible {
    public let description: String
}

/// Asks again and again, every 20 ms, until `condition` holds; throws ``WaitedInVain`` past the deadline.
public func wait(
    for what: String, within seconds: Double = 180, until condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + .seconds(seconds)
    while ContinuousClock.now < deadline {
        if try await condition() { return }
        try await Task.sleep(for: .milliseconds(20))
    }
    throw WaitedInVain(description: "waited \(seconds) s in vain for \(what)")
}
