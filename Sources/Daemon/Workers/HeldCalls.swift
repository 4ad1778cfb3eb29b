/// How long a decryption takes at the moment, and how many calls a worker is handed for that.
///
/// A call that a worker holds can be given to no other token and be overtaken by no other caller's. What is handed over
/// beyond the calls that the sessions work on only has to keep them busy until the next call reaches them: a few for a
/// token that takes 150 µs, one for a token that takes a second.
struct CallPace {
    /// From an answer to the next call's arrival in a session, on a busy machine, in seconds.
    private static let roundTrip = 0.005
    /// How much one call counts in the average.
    private static let weight = 0.125

    /// Seconds; nil before the first call.
    private var average: Double?

    /// - Parameter seconds: From a session's beginning with a decryption to its answer.
    mutating func took(_ seconds: Double) {
        let seconds = max(seconds, 0)
        average = average.map { $0 + (seconds - $0) * Self.weight } ?? seconds
    }

    /// Calls that a worker may hold.
    /// - Parameters:
    ///   - sessions: How many of them it works on at a time.
    ///   - most: Never more, however fast the token is.
    func window(sessions: Int, atMost most: Int) -> Int {
        guard sessions < most else { return most }
        guard let average else { return sessions + 1 }
        // More than fit are wanted from a token that takes no time at all.
        let wanted = (Double(sessions) * Self.roundTrip / max(average, 1e-9)).rounded(.up)
        return sessions + Int(min(max(wanted, 1), Double(most - sessions)))
    }
}
