import ArgumentParser
import DaemonAPI
import Foundation

/// Which of the daemon's two sockets a command uses.
enum DaemonSocket {
    case payments
    case admin

    var variable: String {
        switch self {
        case .payments: "PAYTOKEND_SOCKET"
        case .admin: "PAYTOKEND_ADMIN_SOCKET"
        }
    }

    var defaultPath: String {
        switch self {
        case .payments: "/run/paytokend/paytokend.sock"
        case .admin: "/run/paytokend/admin.sock"
        }
    }

    /// The option, then the environment, then the default. An empty variable counts as none, as the shell's
    /// `VARIABLE= command` means it.
    func path(option: String?, environment: [String: String]) -> String {
        if let option { return option }
        if let path = environment[variable], !path.isEmpty { return path }
        return defaultPath
    }
}

/// Asks the daemon, and turns every way of not getting an answer into what the command ends with.
struct DaemonConnection {
    private let client: UnixSocketClient

    init(_ socket: DaemonSocket, option: String?) {
        client = UnixSocketClient(
            path: socket.path(option: option, environment: ProcessInfo.processInfo.environment))
    }

    func send(_ request: ClientRequest) async throws(CommandFailure) -> ClientAnswer {
        let answer: ClientAnswer
        do {
            answer = try await client.send(request)
        } catch {
            throw CommandFailure(error)
        }
        guard !answer.isSuccess else { return answer }
        throw answer.refusal.map { CommandFailure(refusal: $0, httpStatus: answer.status) } ?? notOurs(answer)
    }

    func send<Answer: Decodable>(
        _ request: ClientRequest, for type: Answer.Type
    ) async throws(CommandFailure) -> (answer: Answer, bytes: [UInt8]) {
        let answer = try await send(request)
        do {
            return (try answer.decoded(as: type), answer.body)
        } catch {
            throw notOurs(answer)
        }
    }

    func post<Body: Encodable, Answer: Decodable>(
        _ target: String, _ body: Body, for type: Answer.Type
    ) async throws(CommandFailure) -> (answer: Answer, bytes: [UInt8]) {
        guard let bytes = try? JSONCoding.encode(body) else {
            throw CommandFailure(.defect, "internal_error: the request could not be written.")
        }
        return try await send(.post(target, body: bytes), for: type)
    }

    private func notOurs(_ answer: ClientAnswer) -> CommandFailure {
        CommandFailure(
            .unreachable,
            "What answers on \(client.path) is not paytokend as this program knows it (HTTP \(answer.status)). Is it "
                + "the right socket, and are both of the same version?")
    }
}

struct PaymentsSocketOption: ParsableArguments {
    @Option(help: ArgumentHelp("The daemon's socket; default PAYTOKEND_SOCKET.", valueName: "path"))
    var socket: String?

    var connection: DaemonConnection { DaemonConnection(.payments, option: socket) }
}

struct AdminSocketOption: ParsableArguments {
    @Option(help: ArgumentHelp("The daemon's admin socket; default PAYTOKEND_ADMIN_SOCKET.", valueName: "path"))
    var socket: String?

    var connection: DaemonConnection { DaemonConnection(.admin, option: socket) }
}
