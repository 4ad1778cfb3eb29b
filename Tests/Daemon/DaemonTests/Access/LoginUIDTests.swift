import Foundation
import Glibc
import Locks
import TestSupport
import Testing

@testable import AccessControl
@testable import Daemon
@testable import HTTPListener

@Suite("The login uid of the process that connected")
struct LoginUIDTests {
    /// A process with a given login uid. Each read of its state returns the next of the given states.
    private final class ScriptedProcess: ConnectedProcess {
        private let lives: Mutex<[ProcessLife?]>
        private let text: String?

        /// - Parameter lives: the process's state before and after its login uid is read.
        init(_ text: String?, lives: [ProcessLife?] = [.runs, .runs]) {
            self.text = text
            self.lives = Mutex(lives)
        }

        func life() -> ProcessLife? { lives.withLock { $0.isEmpty ? nil : $0.removeFirst() } }
        func loginUID() -> String? { text }
    }

    @Test(
        "is the file's value for a process that runs before and after the read; 4294967295 means unset",
        arguments: [("1000\n", .set(1000)), ("0", .set(0)), ("4294967295", .unset)] as [(String, LoginUID)])
    func runningProcess(text: String, expected: LoginUID) {
        #expect(LoginUID(of: ScriptedProcess(text), isKept: true) == expected)
        #expect(LoginUID(of: ScriptedProcess(text, lives: [.startedAt(7), .startedAt(7)]), isKept: true) == expected)
    }

    @Test("is unknown if the process ended before or during the read, or if another process has its number by then")
    func endedProcess() {
        for lives: [ProcessLife?] in [
            [nil, nil], [nil, .runs], [.runs, nil], [.startedAt(7), nil], [.startedAt(7), .startedAt(8)],
        ] {
            #expect(LoginUID(of: ScriptedProcess("1000", lives: lives), isKept: true) == .unreadable, "\(lives)")
        }
    }

    @Test(
        "is unknown if the file is missing or contains no number", arguments: [nil, "", "root", "-1", "4294967296"])
    func unreadableFile(text: String?) {
        #expect(LoginUID(of: ScriptedProcess(text), isKept: true) == .unreadable)
    }

    @Test("is unset if the kernel keeps no login uids, even for a process that has ended")
    func noLoginUIDs() {
        #expect(LoginUID(of: ScriptedProcess(nil, lives: []), isKept: false) == .unset)
    }

    /// A listening socket that has not accepted a connection yet.
    private struct PendingSocket {
        let directory: FreshDirectory
        let descriptor: CInt
        var path: String { directory.path("s") }

        init() throws {
            directory = try FreshDirectory()
            descriptor = try SocketFile.listen(path: directory.path("s"), mode: 0o600, group: nil).descriptor
        }

        /// Waits for a connection, and accepts it.
        func accept() async throws -> CInt {
            let accepted = Shared(CInt(-1))
            try await wait(for: "a connection") {
                let connection = Glibc.accept(descriptor, nil, nil)
                accepted.change { $0 = connection }
                return connection >= 0
            }
            return accepted.current
        }
    }

    private static let connect = """
        import socket, sys
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(sys.argv[1])
        sys.argv[2] == "stay" and connection.recv(1)
        """

    @Test("is unknown for a peer whose process ended before the accept; its uid and its data remain")
    func endedPeer() async throws {
        let pending = try PendingSocket()
        defer { close(pending.descriptor) }
        let child = try await Program.run(
            Program.installed("python3"), ["-B", "-c", Self.connect, pending.path, "end"])
        try #require(child.status == 0, "\(child)")
        let connection = try await pending.accept()
        defer { close(connection) }
        let peer = try PeerCredentials(connectedSocket: connection)
        #expect(peer.uid == geteuid())
        #expect(peer.loginUID == (LoginUID.isKept ? .unreadable : .unset))
        #expect(peer.comm == nil)
    }

    @Test("is that of the peer's process while the process runs")
    func runningPeer() async throws {
        let pending = try PendingSocket()
        defer { close(pending.descriptor) }
        let child = try RunningProgram(
            Program.installed("python3"), ["-B", "-c", Self.connect, pending.path, "stay"])
        let connection = try await pending.accept()
        let peer = try PeerCredentials(connectedSocket: connection)
        let own = try? String(contentsOfFile: "/proc/self/loginuid", encoding: .utf8)
        let expected = own.flatMap { UInt32($0) }.map { $0 == .max ? LoginUID.unset : .set($0) } ?? .unset
        #expect(peer.loginUID == expected)
        #expect(peer.pid == child.processIdentifier)

        // Before Linux 6.5, the daemon finds the process by its pid, and requires that the process runs with the peer's
        // uid.
        let numbered = NumberedProcess(pid: peer.pid, uid: peer.uid)
        #expect(LoginUID(of: numbered) == expected)
        #expect(numbered.life() == NumberedProcess(pid: peer.pid, uid: peer.uid).life())
        #expect(NumberedProcess(pid: getpid(), uid: geteuid()).life() != numbered.life())
        #expect(NumberedProcess(pid: peer.pid, uid: peer.uid + 1).life() == nil)
        close(connection)
        _ = try await child.result(within: 60)
        #expect(numbered.life() == nil)
        #expect(LoginUID(of: numbered, isKept: true) == .unreadable)
    }

    @Test("is unknown for a zombie, although the file with its login uid still exists")
    func zombieProcess() async throws {
        let script = "import os, signal\npid = os.fork()\npid or os._exit(0)\nprint(pid, flush=True)\nsignal.pause()"
        let parent = try RunningProgram(Program.installed("python3"), ["-B", "-c", script])
        let child = Shared<Int32?>(nil)
        try await wait(for: "the child's end") {
            let text = String(decoding: parent.outputBytes, as: UTF8.self)
            guard text.hasSuffix("\n"), let pid = Int32(text.dropLast()) else { return false }
            child.change { $0 = pid }
            let stat = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)
            return stat?.contains(") Z") == true
        }
        let pid = try #require(child.current)
        #expect(NumberedProcess(pid: pid, uid: geteuid()).life() == nil)
        parent.signal(SIGKILL)
        _ = try await parent.result(within: 60)
    }
}
