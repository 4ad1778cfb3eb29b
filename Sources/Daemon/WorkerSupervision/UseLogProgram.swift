/// The small command that prints what a token's own counter or log says of its keys' uses: `tokens[].use_log`. ``UseLogRun`` runs it.
package struct UseLogProgram: Sendable, Equatable {
    /// Absolute.
    package var path: String
    package var arguments: [String]
    /// The longest that it may run.
    package var timeout: Duration
    /// In addition to `PAYTOKEND_NODE`, `PAYTOKEND_TOKEN`, `PAYTOKEND_SINCE` and `PAYTOKEND_UNTIL`, and the few that every program needs.
    package var environment: [String: String]

    package init(path: String, arguments: [String], timeout: Duration, environment: [String: String]) {
        (self.path, self.arguments, self.timeout, self.environment) = (path, arguments, timeout, environment)
    }

    /// Why the path is not run: an account that can change the program, or put another in its place, could have the daemon run
    /// it. Continues a sentence that begins with the program.
    ///
    /// - Returns: nil when it may be run.
    package static func objection(to path: String) -> String? {
        do throws(TrustedExecutable.Objection) {
            _ = try TrustedExecutable(path: path)
            return nil
        } catch {
            return error.description
        }
    }
}
