import Foundation

/// The SQL files in `Tests/Storage/OlderLedgers`: ledgers and payment stores of earlier versions.
public enum OlderLedgers {
    /// Reads one of the SQL files.
    ///
    /// - Parameter name: the file's name without `.sql`.
    public static func sql(_ name: String) throws -> String {
        try String(contentsOf: ProjectFiles.url("Tests/Storage/OlderLedgers/\(name).sql"), encoding: .utf8)
    }

    /// Returns the SQL without its BEGIN and COMMIT, for a connection that manages transactions itself.
    public static func sqlWithoutTransaction(_ name: String) throws -> String {
        try sql(name).replacing("BEGIN TRANSACTION;", with: "").replacing("COMMIT;", with: "")
    }
}
