/// The program that prints an HSM token's own counter or log of its keys' uses, from `tokens[].use_log`. ``UseLogRun`` runs
/// it.
package struct UseLogProgram: Sendable, Equatable {
    /// The absolute path of the program.
    package var path: String
    package var arguments: [String]
    /// The maximum time that the program may run.
    package var timeout: Duration
    /// The program's configured environment variables. The daemon also sets `PATH`, `LANG`, `PAYTOKEND_NODE`,
    /// `PAYTOKEND_TOKEN`, `PAYTOKEND_SINCE` and `PAYTOKEND_UNTIL`.
    package var environment: [String: String]

    package init(path: String, arguments: [String], timeout: Duration, environment: [String: String]) {
        (self.path, self.arguments, self.timeout, self.environment) = (path, arguments, timeout, environment)
    }

    /// Returns the reason why the daemon must not run the program; nil if it may. An account that can change or replace the
    /// program could make the daemon run its code. The reason continues a sentence that begins with the program's path.
    package static func objection(to path: String) -> String? {
        do throws(TrustedExecutable.Objection) {
            _ = try TrustedExecutable(path: path)
            return nil
        } catch {
            return error.description
        }
    }
}
