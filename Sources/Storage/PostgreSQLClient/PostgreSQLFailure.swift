/// The reason why an exchange with the server failed. Only the SQLSTATE of the server's message is kept, because the
/// message's text may quote values of rows.
package enum PostgreSQLFailure: Error, Sendable, Equatable {
    /// The server refused the statement at this position in the exchange, counted from 0. The session continues.
    case refused(SQLState, statement: Int)
    /// The session ended or could not be opened. The SQLSTATE is nil if the server sent none.
    case lost(SQLState?)
    /// The deadline has passed. The connection must not be used again.
    case late
}

/// A PostgreSQL error code of five characters (PostgreSQL documentation, appendix A).
package struct SQLState: Sendable, Hashable, CustomStringConvertible {
    package let code: String

    package init?(_ code: String) {
        guard code.utf8.count == 5, code.utf8.allSatisfy({ (48...57).contains($0) || (65...90).contains($0) }) else {
            return nil
        }
        self.code = code
    }

    /// Makes a known error code without checking it.
    ///
    /// - Parameter code: the code's five characters, which are digits or upper-case letters.
    package init(known code: String) {
        self.code = code
    }

    package static let lockNotAvailable = SQLState(known: "55P03")
    package static let deadlock = SQLState(known: "40P01")
    package static let serializationFailure = SQLState(known: "40001")
    static let failedTransaction = SQLState(known: "25P02")
    package static let readOnly = SQLState(known: "25006")
    package static let undefinedTable = SQLState(known: "42P01")
    package static let invalidSchema = SQLState(known: "3F000")
    package static let insufficientPrivilege = SQLState(known: "42501")
    package static let undefinedObject = SQLState(known: "42704")
    package static let noDatabase = SQLState(known: "3D000")

    /// True if the data caused the error: an invalid value, a violated constraint, or an exception that a function
    /// raised (classes 22, 23 and P0).
    package var blamesTheRow: Bool { ["22", "23", "P0"].contains(code.prefix(2)) }

    /// True if the error may be temporary: the connection failed, the server ran out of resources, is starting or
    /// stopping, or had a system error (classes 08, 53, 57 and 58).
    package var isTransient: Bool { ["08", "53", "57", "58"].contains(code.prefix(2)) }

    /// True if the server refused the login: role, password, certificate or pg_hba.conf (class 28).
    package var refusesLogin: Bool { code.hasPrefix("28") }

    package var description: String {
        guard let meaning = Self.meanings[code] ?? Self.classes[String(code.prefix(2))] else { return code }
        return "\(code) (\(meaning))"
    }

    private static let meanings = [
        "25006": "the server or transaction is read-only", "28000": "the login is refused",
        "28P01": "the password is wrong", "3D000": "there is no such database", "3F000": "there is no such schema",
        "40001": "serialization failure", "40P01": "deadlock", "42501": "a privilege is missing",
        "42P01": "a table is missing", "42883": "a function is missing", "53100": "the disk is full",
        "53200": "out of memory", "53300": "too many connections", "55P03": "another program holds a lock",
        "57014": "the statement was cancelled", "57P01": "an administrator ended the session",
        "57P02": "the server crashed", "57P03": "the server is starting or stopping",
        "PTM01": "the node's own ledger is being moved in", "57P05": "the session was idle for too long",
        "25P02": "the transaction has failed", "25P03": "the transaction was idle for too long",
    ]
    private static let classes = [
        "08": "connection", "22": "a value", "23": "a constraint", "25": "transaction state", "28": "login",
        "42": "the schema is not the one that this version knows", "53": "resources", "57": "intervention",
        "58": "system error", "P0": "a function raised it", "XX": "internal error",
    ]
}
