import Foundation
import Logging
import NIOCore
import NIOPosix
import Refusals
import Synchronization
import TestSupport

@testable import Daemon

/// Answers with what it was asked: `METHOD /path LENGTH`. Some paths behave in their own way.
struct EchoHandler: RequestHandler {
    /// How many bodies were handed over.
    let answered = SharedCount()
    /// While it is shut, requests to /gate wait.
    let gate = Gate()
    var bodyLimit = 65_536
    /// What the paths answer that are streamed.
    var streams: [String: BodyStream] = [:]

    func admit(_ head: RequestHead, peer: PeerCredentials, socket: SocketKind) -> Admission {
        if head.path == "/forbidden" { return .refuse(HTTPAnswer(refusal: Refusal(.forbidden, "No."))) }
        let answered = answered
        let gate = gate
        let stream = streams[head.path]
        return .accept(bodyLimit: bodyLimit) { body in
            if head.path == "/gate" { await gate.passed() }
            answered.increment()
            if let stream { return HTTPAnswer(status: 200, stream: stream) }
            let query = head.query.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
            let text =
                head.path == "/whoami"
                ? "\(peer.uid) \(peer.gid) \(peer.groups.sorted())"
                : "\(head.method) \(head.path) \(body.count)\(query)"
            return HTTPAnswer(
                status: 200, headers: [.init(name: "Content-Type", value: "text/plain")],
                body: Array((text + (head.path == "/type" ? head.contentType ?? "" : "")).utf8),
                closes: head.path == "/close")
        }
    }

    func answer(for refusal: Refusal, peer: PeerCredentials) -> HTTPAnswer { HTTPAnswer(refusal: refusal) }
}

final class SharedCount: Sendable {
    private let count = Mutex(0)
    func increment() { count.withLock { $0 += 1 } }
    var value: Int { count.withLock { $0 } }
}

/// Shut at first; whoever comes waits until it is opened.
final class Gate: Sendable {
    private let state = Mutex((open: false, waiting: [CheckedContinuation<Void, Never>]()))

    func passed() async {
        await withCheckedContinuation { continuation in
            let open = state.withLock { state in
                if !state.open { state.waiting.append(continuation) }
                return state.open
            }
            if open { continuation.resume() }
        }
    }

    var waiting: Int { state.withLock { $0.waiting.count } }

    func open() {
        let waiting = state.withLock { state in
            state.open = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }
}

/// A listener in a directory of its own.
struct ListenerFixture {
    let directory: FreshDirectory
    let listener: Listener
    let handler: EchoHandler
    let instruments: Instruments

    var socket: String { directory.path("p.sock") }
    var adminSocket: String { directory.path("a.sock") }

    static func settings(in directory: FreshDirectory) -> ListenerSettings {
        ListenerSettings(socket: directory.path("p.sock"), adminSocket: directory.path("a.sock"))
    }

    static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    init(
        directory: FreshDirectory? = nil, inherited: InheritedSockets = .init(), bodyLimit: Int = 65_536,
        request: TimeAmount = .seconds(10), idle: TimeAmount = .seconds(60), streams: [String: BodyStream] = [:],
        change: (inout ListenerSettings) -> Void = { _ in }
    ) async throws {
        self.directory = try directory ?? FreshDirectory()
        var settings = Self.settings(in: self.directory)
        change(&settings)
        handler = EchoHandler(bodyLimit: bodyLimit, streams: streams)
        instruments = Instruments()
        listener = try await Listener.start(
            settings: settings, inherited: inherited, handler: handler, instruments: instruments,
            group: MultiThreadedEventLoopGroup.singleton, logger: Self.quiet,
            requestLimits: .init(idle: idle, request: request))
    }

    func connect() async throws -> RawConnection { try await RawConnection.connect(socket) }

    /// Runs `body` and shuts the listener down whatever comes.
    func use<Result>(_ body: (ListenerFixture) async throws -> Result) async throws -> Result {
        do {
            let result = try await body(self)
            handler.gate.open()
            await listener.shutdown(grace: .seconds(5))
            return result
        } catch {
            handler.gate.open()
            await listener.shutdown(grace: .zero)
            throw error
        }
    }
}
