import Foundation
import GRDB
import TestSupport
import Testing

@testable import Ledger
@testable import SQLiteLedger

/// WAL checkpoints, which copy the write-ahead log into the file while the writer continues.
@Suite("WAL checkpointing")
struct WALCheckpointingTests {
    /// A database whose rows fill about one page each, so that a commit of `pages` rows adds about as many pages to the
    /// write-ahead log.
    private final class Pages {
        let directory: FreshDirectory
        let path: String
        let writer: DatabaseQueue
        let checkpointing: WALCheckpointing
        private(set) var rows = 0

        init(interval: Int) throws {
            directory = try FreshDirectory()
            path = directory.path + "/pages.sqlite"
            var configuration = Configuration()
            configuration.prepareDatabase { db in
                try db.execute(sql: "PRAGMA journal_mode = WAL")
                try db.execute(sql: "PRAGMA synchronous = FULL")
                try db.execute(sql: "PRAGMA wal_autocheckpoint = 0")
            }
            writer = try DatabaseQueue(path: path, configuration: configuration)
            try writer.write { try $0.execute(sql: "CREATE TABLE page (content BLOB NOT NULL)") }
            checkpointing = try WALCheckpointing(path: path, busyTimeout: 2, interval: interval)
        }

        func commit(pages: Int) throws {
            try writer.writeWithoutTransaction { db in
                try db.inTransaction {
                    for _ in 0..<pages { try db.execute(sql: "INSERT INTO page VALUES (zeroblob(4000))") }
                    return .commit
                }
                checkpointing.committed(db)
            }
            rows += pages
        }

        /// The size of the write-ahead log's file in pages. The file never shrinks while it is in use.
        var logPages: Int {
            get throws {
                let size = try FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int
                return try #require(size) / 4096
            }
        }
    }

    /// A read transaction that stays open.
    private struct StayingReader {
        private let connection: DatabaseQueue

        init(_ path: String) throws {
            var configuration = Configuration()
            configuration.allowsUnsafeTransactions = true
            connection = try DatabaseQueue(path: path, configuration: configuration)
            try execute("BEGIN")
            _ = try rows()
        }

        func rows() throws -> Int? {
            try connection.unsafeRead { try Int.fetchOne($0, sql: "SELECT count(*) FROM page") }
        }

        func integrity() throws -> String? {
            try connection.unsafeRead { try String.fetchOne($0, sql: "PRAGMA integrity_check") }
        }

        func leave() throws { try execute("ROLLBACK") }

        private func execute(_ sql: String) throws {
            try connection.writeWithoutTransaction { try $0.execute(sql: sql) }
        }
    }

    @Test("copies the log concurrently, and starts a new one once the writer has copied the rest")
    func bounded() async throws {
        let pages = try Pages(interval: 100)
        for _ in 0..<20 {
            // Commits until a copy starts, and then continues while it runs.
            repeat { try pages.commit(pages: 10) } while !pages.checkpointing.isCopying && pages.rows % 200 != 0
            try pages.commit(pages: 10)
            try await wait(for: "the log to be copied") { !pages.checkpointing.isCopying }
            try pages.commit(pages: 10)
        }
        #expect(pages.rows > 1000)
        let logPages = try pages.logPages
        #expect(logPages < 600, "\(logPages) pages of log after \(pages.rows) of rows")

        // Another program that opens file and log now finds all committed data.
        let reader = try StayingReader(pages.path)
        #expect(try reader.rows() == pages.rows)
        #expect(try reader.integrity() == "ok")
    }

    @Test("keeps the log for a long reader, and delays neither the reader nor the writer")
    func reader() async throws {
        let pages = try Pages(interval: 50)
        try pages.commit(pages: 1)
        let reader = try StayingReader(pages.path)
        for _ in 0..<30 {
            try pages.commit(pages: 10)
            try await wait(for: "the copying to end") { !pages.checkpointing.isCopying }
        }
        #expect(try pages.logPages > 300, "the log was restarted while a reader used it")
        #expect(try reader.rows() == 1)
        try reader.leave()
        // Without the reader, each copy is complete, so the writer reuses the log and its file keeps its length.
        var longest = 0
        for round in 0..<30 {
            try pages.commit(pages: 10)
            try await wait(for: "the copying to end") { !pages.checkpointing.isCopying }
            if round == 15 { longest = try pages.logPages }
        }
        #expect(try pages.logPages == longest)
    }

    @Test("copies nothing once it is closed, while the writer continues")
    func closed() throws {
        for isCopying in [true, false] {
            let pages = try Pages(interval: 100)
            try pages.commit(pages: isCopying ? 200 : 10)
            try pages.checkpointing.close()
            // A copy that began now would use a closed connection, which would end the process.
            for _ in 0..<50 { try pages.commit(pages: 200) }
            #expect(!pages.checkpointing.isCopying)
            try pages.writer.close()
            #expect(try StayingReader(pages.path).rows() == pages.rows)
        }
    }
}
