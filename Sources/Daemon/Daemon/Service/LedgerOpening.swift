import DaemonConfiguration
import Ledger
import PostgreSQLLedger
import ProductVersion
import SQLiteLedger
import ServerProgram

extension LedgerSettings {
    /// Opens the ledger with the engine that the scheme of `ledger.url` selects.
    ///
    /// - Parameter observe: a function that receives the events of the ledger's writer.
    func open(observe: @escaping @Sendable (LedgerEvent) -> Void) async throws(StartFailure) -> any Ledger {
        do throws(LedgerOpeningError) {
            switch place {
            case .sqlite(let path):
                return try await SQLiteLedger.open(
                    SQLiteLedger.Settings(
                        path: path, node: node, repeatFor: repeatFor, timeout: timeout),
                    observe: observe)
            case .postgresql(let place):
                let wanted = PostgreSQLLedger.Settings(
                    url: place.url, passwordFile: place.passwordFile, node: node ?? "",
                    version: ProductVersion.current, repeatFor: repeatFor, timeout: timeout,
                    requiresStandby: place.requiresStandby)
                return try await SchemaUpgrade.awaited { () async throws(LedgerOpeningError) in
                    try await PostgreSQLLedger.open(wanted, observe: observe)
                }
            }
        } catch {
            throw StartFailure(ledger: error)
        }
    }
}

/// Makes a program wait if it was started before the database's schema was upgraded. Meanwhile the callers' connections
/// wait in the listening socket. If the program exited at once, callers would also have to wait for its next start.
/// After ``longest`` the program exits with status 75, and its service manager starts it again.
enum SchemaUpgrade {
    /// The maximum wait. It is short, so that a start by hand does not seem to hang.
    static let longest = Duration.seconds(10)
    private static let pause = Duration.milliseconds(100)

    static func awaited<Opened>(
        atMost longest: Duration = longest, _ open: () async throws(LedgerOpeningError) -> Opened
    ) async throws(LedgerOpeningError) -> Opened {
        let end = ContinuousClock.now + longest
        while true {
            do throws(LedgerOpeningError) {
                return try await open()
            } catch .olderSchema(let server, let found, let known) {
                guard ContinuousClock.now < end, (try? await Task.sleep(for: pause)) != nil else {
                    throw .olderSchema(server: server, found: found, known: known)
                }
            }
        }
    }
}
