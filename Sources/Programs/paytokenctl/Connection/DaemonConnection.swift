import ArgumentParser
import DaemonAPI
import Encodings
import Foundation

/// Which socket a command uses: one of the daemon's two, or the gateway's for administration.
enum DaemonSocket {
    case payments
    case admin
    case gatewayAdmin

    /// Nil: the environment does not say.
    var variable: String? {
        switch self {
        case .payments: "PAYTOKEND_SOCKET"
        case .admin: "PAYTOKEND_ADMIN_SOCKET"
        case .gatewayAdmin: nil
        }
    }

    var defaultPath: String {
        switch self {
        case .payments: "/run/paytokend/paytokend.sock"
        case .admin: "/run/paytokend/admin.sock"
        case .gatewayAdmin: "/run/paytoken-gateway/admin.sock"
        }
    }

    /// Whose it is.
    var program: String { self == .gatewayAdmin ? "paytoken-gateway" : "paytokend" }

    /// The option, then the environment, then the default. An empty variable counts as none, as the shell's
    /// `VARIABLE= command` means it.
    func path(option: String?, environment: [String: String]) -> String {
        if let option { return option }
        if let variable, let path = environment[variable], !path.isEmpty { return path }
        return defaultPath
    }
}

/// Asks the daemon, and turns every way of not getting an answer into what the command ends with.
struct DaemonConnection {
    private var client: UnixSocketClient
    private let program: String

    init(_ socket: DaemonSocket, option: String?) {
        program = socket.program
        client = UnixSocketClient(
            path: socket.path(option: option, environment: ProcessInfo.processInfo.environment))
    }

    /// The same daemon, which must be the socket's own (``SocketOwner``): for a request whose answer a private key is trusted to.
    var trusted: DaemonConnection {
        var trusted = self
        trusted.client.checkPeer = { [path = client.path] in try SocketOwner(of: path).check($0) }
        return trusted
    }

    func send(_ request: ClientRequest) async throws(CommandFailure) -> ClientAnswer {
        let answer: ClientAnswer
        do {
            answer = try await client.send(request)
        } catch {
            throw CommandFailure(error, of: program)
        }
        guard !answer.isSuccess else { return answer }
        throw failure(answer.refusal, answer.status)
    }

    /// Asks for what may be long, or have no end.
    ///
    /// - Parameters:
    ///   - deadline: how long the daemon may take to begin its answer.
    ///   - idle: how long it may then be silent; nil for ever.
    func stream(
        _ request: ClientRequest, deadline: Duration = .seconds(30), idle: Duration? = .seconds(60)
    ) async throws(CommandFailure) -> StreamedAnswer {
        let answer: StreamedAnswer
        do {
            answer = try await UnixSocketClient(path: client.path, deadline: deadline).stream(request, idle: idle)
        } catch {
            throw CommandFailure(error, of: program)
        }
        guard !answer.isSuccess else { return answer }
        throw failure(answer.refusal, answer.status)
    }

    /// - Parameter note: what else the person who asked should know, when it waits for a second person.
    func send<Answer: Decodable>(
        _ request: ClientRequest, for type: Answer.Type, whenPending note: (PendingAnswer) -> String? = { _ in nil }
    ) async throws(CommandFailure) -> (answer: Answer, bytes: [UInt8]) {
        let answer = try await send(request)
        if answer.status == 202, let pending = try? answer.decoded(as: PendingAnswer.self) {
            throw CommandFailure(pending, note: note(pending))
        }
        do {
            return (try answer.decoded(as: type), answer.body)
        } catch {
            throw notOurs(answer.status)
        }
    }

    func post<Body: Encodable, Answer: Decodable>(
        _ target: String, _ body: Body, for type: Answer.Type,
        whenPending note: (PendingAnswer) -> String? = { _ in nil }
    ) async throws(CommandFailure) -> (answer: Answer, bytes: [UInt8]) {
        guard let bytes = try? JSONCoding.encode(body) else {
            throw CommandFailure(.defect, "internal_error: the request could not be written.")
        }
        return try await send(.post(target, body: bytes), for: type, whenPending: note)
    }

    private func failure(_ refusal: RefusalAnswer?, _ status: Int) -> CommandFailure {
        refusal.map { CommandFailure(refusal: $0, httpStatus: status) } ?? notOurs(status)
    }

    /// For an answer that is not understood.
    func notOurs(_ status: Int) -> CommandFailure {
        CommandFailure(
            .unreachable,
            "The answer on \(client.path) (HTTP \(status)) is not one that this program understands. Is it the socket of "
                + "\(program), and have \(program) and paytokenctl the same version?")
    }
}

extension StreamedAnswer {
    /// Takes the body piece by piece, as fast as `take` takes them, until it is whole or `take` wants no more.
    func forEachPiece(
        _ take: (_ piece: [UInt8]) throws(CommandFailure) -> Bool
    ) async throws(CommandFailure) {
        var pieces = body.makeAsyncIterator()
        while true {
            let piece: [UInt8]?
            do {
                piece = try await pieces.next()
            } catch {
                throw CommandFailure(error, of: DaemonSocket.admin.program)
            }
            guard let piece, try take(piece) else { return }
        }
    }
}

struct PaymentsSocketOption: ParsableArguments {
    @Option(
        help: ArgumentHelp("The daemon's socket; default PAYTOKEND_SOCKET.", valueName: "path"), completion: .file())
    var socket: String?

    var connection: DaemonConnection { DaemonConnection(.payments, option: socket) }
}

struct AdminSocketOption: ParsableArguments {
    @Option(
        help: ArgumentHelp("The daemon's admin socket; default PAYTOKEND_ADMIN_SOCKET.", valueName: "path"),
        completion: .file())
    var socket: String?

    var connection: DaemonConnection { DaemonConnection(.admin, option: socket) }
    var path: String { DaemonSocket.admin.path(option: socket, environment: ProcessInfo.processInfo.environment) }
}

/// A request's query, RFC 3986 §3.4.
enum QueryText {
    /// `?name=value&…`, or nothing when there is none.
    static func of(_ members: [(name: String, value: String)]) -> String {
        let text = members.map { "\($0.name)=\(PercentEncoding.encoded($0.value))" }.joined(separator: "&")
        return text.isEmpty ? "" : "?" + text
    }
}
