/// The command that prints an HSM token's own counter or log of its keys' uses: `tokens[].use_log`. ``UseLogRun`` runs
/// it.
package struct UseLogProgram: Sendable, Equatable {
    /// The absolute path of the program.
    package var path: String
    package var arguments: [String]
    /// The longest time that the program may run.
    package var timeout: Duration
    /// The program's own environment variables. `PAYTOKEND_NODE`, `PAYTOKEND_TOKEN`, `PAYTOKEND_SINCE` and
    /// `PAYTOKEND_UNTIL`, and the few that every program needs, are set as well.
    package var environment: [String: String]

    package init(path: String, arguments: [String], timeout: Duration, environment: [String: String]) {
        (self.path, self.arguments, self.timeout, self.environment) = (path, arguments, timeout, environment)
    }

    /// Returns the reason why the path must not be run: an account that can change or replace the program could make
    /// the daemon run its code. Continues a sentence that begins with the program.
    ///
    /// - Returns: nil if it may be run.
    package static func objection(to path: String) -> String? {
        do throws(TrustedExecutable.Objection) {
            _ = try TrustedExecutable(path: path)
            return nil
        } catch {
            return error.description
        }
    }
}
