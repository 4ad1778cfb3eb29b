import Foundation
import GRDB
import TestSupport
import Testing

@testable import Ledger
@testable import SQLiteLedger

@Suite("Opening a ledger")
struct OpeningTests {
    @Test("refuses a second opener until the first has closed")
    func secondOpener() async throws {
        let fixture = try await LedgerFixture()
        await #expect(throws: LedgerOpeningError.inUse(path: fixture.settings.path)) {
            _ = try await fixture.reopened()
        }
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        await again.close()
    }

    @Test("gives a new ledger to exactly one of many simultaneous openers", .timeLimit(.minutes(1)))
    func simultaneousFirstStart() async throws {
        let directory = try FreshDirectory()
        let settings = SQLiteLedger.Settings(path: directory.path("ledger.sqlite"), node: "node-1")
        let opened = await withTaskGroup(of: Result<SQLiteLedger, LedgerOpeningError>.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    do throws(LedgerOpeningError) {
                        return .success(try await SQLiteLedger.open(settings))
                    } catch {
                        return .failure(error)
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        var ledgers: [SQLiteLedger] = []
        for result in opened {
            switch result {
            case .success(let ledger): ledgers.append(ledger)
            case .failure(let error): #expect(error == .inUse(path: settings.path))
            }
        }
        #expect(ledgers.count == 1)
        for ledger in ledgers { await ledger.close() }
    }

    @Test("keeps the first opener's locks when the same process tries to open again")
    func locksSurvive() async throws {
        let fixture = try await LedgerFixture()
        try await wait(for: "the first opener's locks") { try locks(fixture.settings.path) > 0 }
        await #expect(throws: LedgerOpeningError.self) { _ = try await fixture.reopened() }
        try await wait(for: "the first opener's locks still") { try locks(fixture.settings.path) > 0 }
    }

    /// The number of the kernel's POSIX locks on a file. A read of /proc/locks may miss locks while other processes
    /// lock and unlock files, so a single reading is not reliable.
    private func locks(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        let inode = try #require(attributes[.systemFileNumber] as? NSNumber)
        // The kernel does not know the size of this file, so it is read to its end.
        let locks = try FileHandle(forReadingFrom: URL(filePath: "/proc/locks")).readToEnd() ?? Data()
        return String(decoding: locks, as: UTF8.self).split(separator: "\n")
            .filter { $0.contains("POSIX") && $0.contains(":\(inode.uint64Value) ") }.count
    }

    @Test("passes the lock to no child process")
    func childrenDoNotHoldTheLock() async throws {
        let fixture = try await LedgerFixture()
        let child = try RunningProgram(Program.installed("sleep"), ["60"])
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        await again.close()
        child.signal(9)
    }

    @Test("refuses a newer schema, and names it")
    func newerSchema() async throws {
        let fixture = try await LedgerFixture()
        await fixture.ledger.close()
        try await DatabaseQueue(path: fixture.settings.path).write { db in
            try db.execute(sql: "UPDATE ledger_meta SET value = '99' WHERE name = 'schema_version'")
        }
        let refusal = LedgerOpeningError.newerSchema(
            path: fixture.settings.path, found: 99, known: SQLiteTables.version)
        await #expect(throws: refusal) {
            _ = try await fixture.reopened()
        }
    }

    @Test("refuses another program's database and arbitrary bytes, and leaves them as they are")
    func notALedger() async throws {
        let directory = try FreshDirectory()
        let other = directory.path("other.sqlite")
        try await DatabaseQueue(path: other).write { try $0.execute(sql: "CREATE TABLE invoice (id INTEGER)") }
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: other)
        await #expect(throws: LedgerOpeningError.notALedger(path: other)) {
            _ = try await SQLiteLedger.open(SQLiteLedger.Settings(path: other))
        }
        let noise = try directory.write([UInt8](repeating: 0x5a, count: 8192), to: "noise.sqlite")
        await #expect(throws: LedgerOpeningError.notALedger(path: noise)) {
            _ = try await SQLiteLedger.open(SQLiteLedger.Settings(path: noise))
        }
        #expect(try Data(contentsOf: URL(filePath: noise)) == Data(repeating: 0x5a, count: 8192))
    }

    @Test("keeps a ledger's node name, and refuses another one in the configuration")
    func nodeMismatch() async throws {
        let fixture = try await LedgerFixture()
        await fixture.ledger.close()
        var settings = fixture.settings
        settings.node = "node-2"
        await #expect(
            throws: LedgerOpeningError.anotherNode(path: settings.path, recorded: "node-1", configured: "node-2")
        ) {
            _ = try await SQLiteLedger.open(settings)
        }
        settings.node = nil
        let again = try await SQLiteLedger.open(settings)
        #expect(again.node == "node-1")
        await again.close()
    }

    @Test("takes the kernel's host name without a configured name")
    func hostName() async throws {
        let directory = try FreshDirectory()
        let ledger = try await SQLiteLedger.open(SQLiteLedger.Settings(path: directory.path("ledger.sqlite")))
        let kernel = try await Program.run(Program.installed("uname"), ["-n"]).output
        #expect(ledger.node == kernel.trimmingCharacters(in: .newlines))
        await ledger.close()
    }

    @Test(
        "refuses a node name that does not fit into a record",
        arguments: ["", "a b", "naïve", "a\n", "x\"y", String(repeating: "n", count: 65)])
    func badNodeName(name: String) async throws {
        let directory = try FreshDirectory()
        await #expect(throws: LedgerOpeningError.nodeName(name)) {
            _ = try await SQLiteLedger.open(SQLiteLedger.Settings(path: directory.path("ledger.sqlite"), node: name))
        }
    }

    @Test("keeps all files of the ledger for the daemon alone")
    func modes() async throws {
        let fixture = try await LedgerFixture()
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: fixture.settings.path + suffix)
            #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600, "\(suffix)")
        }
    }

    @Test("refuses a directory that other accounts can write", arguments: [0o770, 0o707, 0o1777])
    func writableDirectory(mode: Int) async throws {
        let directory = try FreshDirectory()
        let place = try directory.makeDirectory("open")
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: place)
        let error = await #expect(throws: LedgerOpeningError.self) {
            _ = try await SQLiteLedger.open(SQLiteLedger.Settings(path: place + "/ledger.sqlite"))
        }
        guard case .notPrivate = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: place).isEmpty)
    }

    @Test("refuses a ledger file that other accounts can read", arguments: [0o640, 0o604])
    func readableFile(mode: Int) async throws {
        let fixture = try await LedgerFixture()
        await fixture.ledger.close()
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: fixture.settings.path)
        let error = await #expect(throws: LedgerOpeningError.self) {
            _ = try await fixture.reopened()
        }
        guard case .notPrivate = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test("refuses a symbolic link in place of the file or the lock", arguments: ["", ".lock"])
    func symbolicLink(suffix: String) async throws {
        let directory = try FreshDirectory()
        let target = try directory.write("", to: "target")
        let path = directory.path("ledger.sqlite")
        try FileManager.default.createSymbolicLink(atPath: path + suffix, withDestinationPath: target)
        let error = await #expect(throws: LedgerOpeningError.self) {
            _ = try await SQLiteLedger.open(SQLiteLedger.Settings(path: path))
        }
        #expect(error == .notPrivate(path: path + suffix, why: "is not a regular file"))
    }

    @Test("names a missing directory")
    func noDirectory() async throws {
        let directory = try FreshDirectory()
        await #expect(throws: LedgerOpeningError.noDirectory(path: directory.path("missing"))) {
            _ = try await SQLiteLedger.open(SQLiteLedger.Settings(path: directory.path("missing") + "/ledger.sqlite"))
        }
        #expect("\(LedgerOpeningError.noDirectory(path: "/a b"))".hasSuffix("-o paytokend '/a b'"))
    }
}
