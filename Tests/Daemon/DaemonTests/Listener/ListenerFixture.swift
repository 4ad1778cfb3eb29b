import AccessControl
import Foundation
import Logging
import NIOCore
import NIOPosix
import Refusals
import ServerProgram
import TestSupport

@testable import Daemon
@testable import DaemonConfiguration
@testable import HTTPListener

/// Answers each request with a summary, `METHOD /path LENGTH`. Some paths behave differently.
struct EchoHandler: PeerRequestHandler {
    /// The number of requests that the handler has answered. Requests that were refused before their body do not count.
    let answered = Shared(0)
    /// A latch at which requests to /held wait while the latch is closed.
    let latch = Latch(isOpen: false)
    var bodyLimit = 65_536
    /// The bodies of streamed responses, by path.
    var streams: [String: BodyStream] = [:]

    func admit(_ head: RequestHead, from peer: DaemonPeer) -> Admission {
        if head.path == "/forbidden" { return .refuse(HTTPAnswer(refusal: Refusal(.forbidden, "No."))) }
        let answered = answered
        let latch = latch
        let stream = streams[head.path]
        return .accept(bodyLimit: bodyLimit) { body in
            if head.path == "/held" { await latch.pass() }
            answered.increment()
            if let stream { return HTTPAnswer(status: 200, stream: stream) }
            let query = head.query.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
            let text =
                head.path == "/whoami"
                ? "\(peer.credentials.uid) \(peer.credentials.gid) \(peer.credentials.groups.sorted())"
                : "\(head.method) \(head.path) \(body.count)\(query)"
            return HTTPAnswer(
                status: 200, headers: [.init(name: "Content-Type", value: "text/plain")],
                body: Array((text + (head.path == "/type" ? head.contentType ?? "" : "")).utf8),
                closes: head.path == "/close")
        }
    }

    /// The lowest uid that no rule names.
    static let firstSubordinateUID: UInt32 = 100_000

    func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts? {
        peer.uid >= Self.firstSubordinateUID ? .group(7) : nil
    }

    func answer(to condition: HTTPCondition, from peer: DaemonPeer) -> HTTPAnswer {
        HTTPAnswer(refusal: Refusal(condition))
    }
}

/// A listener in its own directory.
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

    /// - Parameters:
    ///   - request: the time limit for a request's head and body. The defaults of `request` and `idle` are longer than
    ///     the daemon's, because a busy machine may pause a test for many seconds. Tests of these limits set their own
    ///     values.
    init(
        directory: FreshDirectory? = nil, inherited: InheritedSockets = .init(), bodyLimit: Int = 65_536,
        request: TimeAmount = .minutes(10), idle: TimeAmount = .minutes(10),
        firstRequestWhileDraining: TimeAmount = .milliseconds(1), streams: [String: BodyStream] = [:],
        change: (inout ListenerSettings) -> Void = { _ in }
    ) async throws {
        self.directory = try directory ?? FreshDirectory()
        var settings = Self.settings(in: self.directory)
        change(&settings)
        handler = EchoHandler(bodyLimit: bodyLimit, streams: streams)
        instruments = Instruments()
        var limits = RequestLimits(idle: idle, request: request)
        limits.firstRequestWhileDraining = firstRequestWhileDraining
        listener = try await Listener.start(
            settings.sockets(
                inherited: inherited, handler: handler, instruments: instruments, logger: Self.quiet,
                requestLimits: limits),
            group: MultiThreadedEventLoopGroup.singleton, logger: Self.quiet)
    }

    func connect() async throws -> RawConnection { try await RawConnection(socket, staysOpen: true) }

    /// Runs `body`, and then shuts the listener down, even if `body` throws.
    func use<Result>(_ body: (ListenerFixture) async throws -> Result) async throws -> Result {
        do {
            let result = try await body(self)
            handler.latch.open()
            await listener.shutdown(grace: .seconds(5))
            return result
        } catch {
            handler.latch.open()
            await listener.shutdown(grace: .zero)
            throw error
        }
    }
}
