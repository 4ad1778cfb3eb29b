import Foundation
import HostSystem
import NIOCore
import ProcessorSimulator
import StrictJSON
import TestSupport

/// A simulator in the test's process, with log and socket in a fresh directory.
struct SimulatorUnderTest {
    let directory: FreshDirectory
    let server: SimulatorServer

    static func start(
        in directory: FreshDirectory? = nil, late: Duration = .milliseconds(50), storage: (any LogStorage)? = nil,
        maximumConnections: Int = 1024
    ) async throws -> SimulatorUnderTest {
        let directory = try directory ?? FreshDirectory()
        let log =
            try storage.map { SubmissionLog(storage: $0) }
            ?? SubmissionLog(path: directory.path("log"), warn: { _ in })
        let server = try await SimulatorServer.start(
            at: .unix(path: directory.path("socket")), log: log, late: late, maximumConnections: maximumConnections)
        return SimulatorUnderTest(directory: directory, server: server)
    }

    func connect() async throws -> RawConnection { try await RawConnection(directory.path("socket")) }

    /// Submits on a separate connection, and returns the answer.
    func submit(_ request: SubmissionRequest) async throws -> RawConnection.Answer {
        let connection = try await connect()
        try await connection.send(request.message)
        return try await connection.answer()
    }

    func ask(for payment: String) async throws -> RawConnection.Answer {
        let connection = try await connect()
        try await connection.send("GET /authorizations/\(payment) HTTP/1.1\r\nHost: x\r\n\r\n")
        return try await connection.answer()
    }

    /// The log's lines in the form `event/outcome/number`.
    var events: [String] {
        get throws {
            try String(contentsOfFile: directory.path("log"), encoding: .utf8).split(separator: "\n").map { line in
                let object = try JSONValue(parsing: String(line)).objectValue
                return [
                    object?["event"]?.stringValue, object?["outcome"]?.stringValue,
                    object?["number"]?.numberValue?.text,
                ].compactMap { $0 }.joined(separator: "/")
            }
        }
    }
}

/// A body for `POST /authorizations` in which a test can change or omit each member.
struct SubmissionRequest {
    var members: [(name: String, json: String)]

    static let payment = String(repeating: "0a", count: 32)
    static let accountNumber = "4111111111111111"
    static let cryptogram = "AgAAAAAABk4DWZ4C28yUQAAAAAA="

    /// Makes a valid submission.
    ///
    /// - Parameter cents: the last two digits of the amount, which is ten dollars plus these cents.
    init(cents: Int = 0, payment: String = Self.payment) {
        let digits = cents < 10 ? "0\(cents)" : "\(cents)"
        members = [
            ("payment", "\"\(payment)\""), ("amount", "\"10.\(digits)\""), ("currency", "\"USD\""),
            ("minorUnits", "10\(digits)"), ("accountNumber", "\"\(Self.accountNumber)\""),
            ("expirationDate", "\"301231\""), ("cryptogram", "\"\(Self.cryptogram)\""), ("eciIndicator", "\"05\""),
        ]
    }

    /// Returns a copy with another value of one member, or without the member if `json` is nil.
    func with(_ member: String, _ json: String?) -> SubmissionRequest {
        var changed = self
        changed.members.removeAll { $0.name == member }
        if let json { changed.members.append((member, json)) }
        return changed
    }

    var body: String { "{" + members.map { "\"\($0.name)\":\($0.json)" }.joined(separator: ",") + "}" }

    var message: String { RawConnection.head("/authorizations", length: body.utf8.count) + body }
}

/// Log storage that fails or hangs when the test requires it.
final class ScriptedStorage: LogStorage {
    struct State {
        var bytes: [UInt8] = []
        var syncs = 0
        /// The number of bytes that the next append writes before it fails.
        var room: Int?
        /// The number of appends that still succeed; unlimited if nil.
        var appendsLeft: Int?
        var failsSync = false
        var failsTruncate = false
    }

    let state = Shared(State())
    let syncHang = Hang()

    func append(_ bytes: [UInt8]) throws(SystemError) {
        let room = (state.current.appendsLeft ?? 1) <= 0 ? 0 : state.current.room
        state.change { $0.appendsLeft? -= 1 }
        state.change { $0.bytes += bytes.prefix(room ?? bytes.count) }
        if let room, room < bytes.count { throw SystemError(call: "write", errno: ENOSPC) }
    }

    func sync() throws(SystemError) {
        syncHang.pass()
        state.change { $0.syncs += 1 }
        if state.current.failsSync { throw SystemError(call: "fdatasync", errno: EIO) }
    }

    func truncate(to size: Int) throws(SystemError) {
        if state.current.failsTruncate { throw SystemError(call: "ftruncate", errno: EIO) }
        state.change { $0.bytes.removeLast($0.bytes.count - size) }
    }

    var lines: [String] { String(decoding: state.current.bytes, as: UTF8.self).split(separator: "\n").map(String.init) }
}
