import Foundation

/// The ledgers and stores of earlier versions, as SQL, in `Tests/Storage/OlderLedgers`.
public enum OlderLedgers {
    /// - Parameter name: the file's name without `.sql`.
    public static func sql(_ name: String) throws -> String {
        try String(contentsOf: ProjectFiles.url("Tests/Storage/OlderLedgers/\(name).sql"), encoding: .utf8)
    }

    /// Returns the same SQL for a connection that begins and ends the transaction itself.
    public static func sqlWithoutTransaction(_ name: String) throws -> String {
        try sql(name).replacing("BEGIN TRANSACTION;", with: "").replacing("COMMIT;", with: "")
    }
}
