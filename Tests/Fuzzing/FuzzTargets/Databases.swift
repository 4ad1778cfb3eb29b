import Foundation
import PostgreSQLClient

extension FuzzTarget {
    /// PostgreSQL's answer to one statement. A second reader of the protocol must find the same rows and warnings, and each
    /// value is what its bytes say.
    ///
    /// The first octet is the part of the bytes, in 256ths, that is sent first.
    static let databaseAnswers = FuzzTarget(
        name: "database-answers", longest: 1024,
        sources: ["PostgreSQLClient/PostgreSQLConnection.swift", "PostgreSQLClient/PostgreSQLValues.swift"]
    ) { input in
        guard let first = input.first else { return }
        let bytes = Array(input.dropFirst())
        let server = try DatabaseServer.shared.get()
        // A login begins with its own length. A pipeline ends with Sync.
        server.play([
            .init(DatabaseServer.login) { $0.count >= 4 && Int($0[2]) << 8 | Int($0[3]) == $0.count },
            .init(bytes, firstPiece: first) { $0.suffix(5) == [UInt8(ascii: "S"), 0, 0, 0, 4] },
        ])
        let deadline = ContinuousClock.now + .seconds(20)
        let connection: PostgreSQLConnection
        do {
            connection = try PostgreSQLConnection(
                [
                    "host": ScratchFolder.path, "port": "5432", "user": "fuzzing", "dbname": "fuzzing",
                    "sslmode": "disable", "gssencmode": "disable",
                ], passwordFile: nil, until: deadline)
        } catch {
            throw Disagreement("the login fails: \(error)")
        }
        let results: [PostgreSQLResult]
        do throws(PostgreSQLFailure) {
            results = try connection.exchange([PostgreSQLStatement("SELECT 1")], until: deadline)
        } catch {
            return try expect(error != .late, "the client waits although the server has ended the connection")
        }
        try expect(results.count == 1, "one statement has \(results.count) results")
        var reader = MessageReader(bytes)
        guard let expected = reader.answer() else {
            throw Disagreement("a result is read from messages that are none")
        }
        try expect(results[0].rows.map(\.cells) == expected.rows, "the rows are not the server's")
        try expect(
            results[0].rows.allSatisfy { $0.types == expected.types }, "the columns' types are not the server's")
        try expect(results[0].tag == expected.tag, "the command's tag is not the server's")
        try expect(connection.hasWarned == expected.hasWarning, "a warning is lost or invented")
        for row in results[0].rows { try check(row) }
    }

    private static func check(_ row: PostgreSQLRow) throws {
        for (column, cell) in row.cells.enumerated() {
            let (type, bytes) = (row.types[column], cell.map { Data($0) })
            let number = bytes.flatMap { integer($0, ofType: type) }
            try expect(
                (try? row.integer(column)) == number, "the integer in column \(column) is not its bytes'")
            // The server sends UTF-8, as the session asks it to.
            let text = type == 25 ? cell : nil
            let isText = text.map { String(validating: $0, as: UTF8.self) != nil } ?? true
            try expect(
                !isText || (try? row.text(column)).map { Array($0.utf8) } == text,
                "the text in column \(column) is not its bytes'")
            try expect((try? row.bytes(column)) == (type == 17 ? cell : nil), "the bytes in column \(column) differ")
            let boolean = type == 16 && bytes?.count == 1 ? bytes?.first.map { $0 != 0 } : nil
            try expect((try? row.boolean(column)) == boolean, "the boolean in column \(column) is not its byte's")
        }
    }

    /// The number in PostgreSQL's binary format: 8 bytes of `int8`, or 4 bytes of `int4`.
    private static func integer(_ bytes: Data, ofType type: UInt32) -> Int64? {
        switch (type, bytes.count) {
        case (20, 8): bytes.reduce(0) { $0 << 8 | Int64($1) }
        case (23, 4): Int64(Int32(truncatingIfNeeded: bytes.reduce(0) { $0 << 8 | Int64($1) }))
        default: nil
        }
    }
}

private enum DatabaseServer {
    static let shared = Result { try AnsweringSocket(named: ".s.PGSQL.5432") }

    /// AuthenticationOk, ParameterStatus, BackendKeyData, ReadyForQuery (PostgreSQL documentation, *Message Formats*).
    static let login: [UInt8] = {
        var bytes = message("R", [0, 0, 0, 0])
        for (name, value) in [("server_version", "15.18"), ("client_encoding", "UTF8")] {
            bytes += message("S", Array("\(name)\0\(value)\0".utf8))
        }
        return bytes + message("K", [0, 0, 0, 1, 0, 0, 0, 2]) + message("Z", [UInt8(ascii: "I")])
    }()

    private static func message(_ type: Character, _ content: [UInt8]) -> [UInt8] {
        Array(String(type).utf8) + [0, 0, 0, UInt8(content.count + 4)] + content
    }
}

/// A second reader of the messages that answer a pipeline with one statement, written without libpq.
private struct MessageReader {
    struct Answer {
        var types: [UInt32] = []
        var rows: [[[UInt8]?]] = []
        var tag = ""
        var hasWarning = false
    }

    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    /// The answer up to ReadyForQuery; nil if the messages are none of an executed statement.
    mutating func answer() -> Answer? {
        var answer = Answer()
        var isComplete = false
        while let type = rest.popFirst(), let length = number(4), length >= 4, rest.count >= length - 4 {
            let end = rest.dropFirst(length - 4)
            switch UnicodeScalar(type) {
            // After the command's completion, rows would be those of a second result, which has no end.
            case "T" where isComplete, "D" where isComplete: break
            case "T":
                answer.types = []
                for _ in 0..<(number(2) ?? 0) {
                    // After the name come the table, the column, the type, its size, its modifier and the format.
                    guard text() != nil, number(4) != nil, number(2) != nil, let type = number(4), number(2) != nil,
                        number(4) != nil, number(2) != nil
                    else { return nil }
                    answer.types.append(UInt32(type))
                }
            case "D":
                var row: [[UInt8]?] = []
                for _ in 0..<(number(2) ?? 0) {
                    guard let length = number(4) else { return nil }
                    // The server sends -1 for NULL. libpq reads every negative length as NULL.
                    if length >= 0x8000_0000 {
                        row.append(nil)
                    } else {
                        guard rest.count >= length else { return nil }
                        row.append(Array(rest.prefix(length)))
                        rest = rest.dropFirst(length)
                    }
                }
                answer.rows.append(row)
            case "C":
                answer.tag = text() ?? ""
                isComplete = true
            case "N": answer.hasWarning = answer.hasWarning || isWarning()
            case "E": return nil
            case "Z": return answer
            default: break
            }
            rest = end
        }
        return nil
    }

    /// Reads the fields of a notice. A message without a severity counts as a warning.
    private mutating func isWarning() -> Bool {
        var severity: String?
        while let field = rest.popFirst(), field != 0, let value = text() {
            if field == UInt8(ascii: "V") { severity = value }
        }
        return !["NOTICE", "INFO", "LOG", "DEBUG"].contains(severity)
    }

    private mutating func number(_ count: Int) -> Int? {
        guard rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count).reduce(0) { $0 << 8 | Int($1) }
    }

    private mutating func text() -> String? {
        guard let end = rest.firstIndex(of: 0) else { return nil }
        defer { rest = rest[(end + 1)...] }
        return String(decoding: rest[..<end], as: UTF8.self)
    }
}
