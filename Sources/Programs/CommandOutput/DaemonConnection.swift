package import DaemonAPI
import Encodings
import Foundation

/// A socket that a command can use: one of the daemon's two sockets, or the gateway's administration socket.
package struct DaemonSocket: Sendable {
    /// The environment variable that may contain the socket's path; nil if no variable does.
    let variable: String?
    package let defaultPath: String
    /// The program that owns the socket.
    package let program: String

    package static let payments = DaemonSocket(
        variable: "PAYTOKEND_SOCKET", defaultPath: "/run/paytokend/paytokend.sock", program: "paytokend")
    package static let admin = DaemonSocket(
        variable: "PAYTOKEND_ADMIN_SOCKET", defaultPath: "/run/paytokend/admin.sock", program: "paytokend")
    package static let gatewayAdmin = DaemonSocket(
        variable: nil, defaultPath: "/run/paytoken-gateway/admin.sock", program: "paytoken-gateway")

    /// Returns the socket's path: the option's value, otherwise the environment variable's, otherwise the default. An
    /// empty variable counts as unset, as in the shell's `VARIABLE= command`.
    package func path(option: String?, environment: [String: String]) -> String {
        if let option { return option }
        if let variable, let path = environment[variable], !path.isEmpty { return path }
        return defaultPath
    }
}

/// Sends requests to the daemon or the gateway. Throws a ``CommandFailure`` if no response arrives, or if the response
/// reports an error.
package struct DaemonConnection: Sendable {
    package var client: UnixSocketClient
    private let program: String

    package init(_ socket: DaemonSocket, option: String?) {
        program = socket.program
        client = UnixSocketClient(
            path: socket.path(option: option, environment: ProcessInfo.processInfo.environment))
    }

    package func send(_ request: ClientRequest) async throws -> ClientAnswer {
        let answer: ClientAnswer
        do {
            answer = try await client.send(request)
        } catch {
            throw CommandFailure(error, of: program)
        }
        guard !answer.isSuccess else { return answer }
        throw failure(answer.refusal, answer.status, to: request.target)
    }

    /// Sends a request whose response may be long or endless.
    ///
    /// - Parameters:
    ///   - deadline: the time within which the daemon must begin its response.
    ///   - idle: the maximum time without further bytes of the response; nil for no limit.
    package func stream(
        _ request: ClientRequest, deadline: Duration = .seconds(30), idle: Duration? = .seconds(60)
    ) async throws -> StreamedAnswer {
        let answer: StreamedAnswer
        do {
            answer = try await UnixSocketClient(path: client.path, deadline: deadline).stream(request, idle: idle)
        } catch {
            throw CommandFailure(error, of: program)
        }
        guard !answer.isSuccess else { return answer }
        throw failure(answer.refusal, answer.status, to: request.target)
    }

    /// Sends a request and decodes the response. Throws a ``CommandFailure`` if the change waits for a second person.
    ///
    /// - Parameter note: returns a further line for the requester if the change waits, or nil.
    package func send<Answer: Decodable>(
        _ request: ClientRequest, for type: Answer.Type, whenPending note: (PendingAnswer) -> String? = { _ in nil }
    ) async throws -> (answer: Answer, bytes: [UInt8]) {
        let answer = try await send(request)
        if answer.status == 202, let pending = try? answer.decoded(as: PendingAnswer.self) {
            throw CommandFailure(pending, note: note(pending))
        }
        do {
            return (try answer.decoded(as: type), answer.body)
        } catch {
            throw unexpectedAnswer(answer.status)
        }
    }

    package func post<Body: Encodable, Answer: Decodable>(
        _ target: String, _ body: Body, for type: Answer.Type,
        whenPending note: (PendingAnswer) -> String? = { _ in nil }
    ) async throws -> (answer: Answer, bytes: [UInt8]) {
        guard let bytes = try? JSONCoding.encode(body) else {
            throw CommandFailure(.defect, "internal_error: the request could not be written.")
        }
        return try await send(.post(target, body: bytes), for: type, whenPending: note)
    }

    private func failure(_ refusal: RefusalAnswer?, _ status: Int, to target: String) -> CommandFailure {
        refusal.map { CommandFailure(refusal: $0, httpStatus: status, to: target) } ?? unexpectedAnswer(status)
    }

    /// The failure for a response that this program does not understand.
    package func unexpectedAnswer(_ status: Int) -> CommandFailure {
        CommandFailure(
            .unreachable,
            "The answer on \(client.path) (HTTP \(status)) is not one that this program understands. Is it the socket of "
                + "\(program), and has \(program) the same version as this program?")
    }
}

extension StreamedAnswer {
    /// Passes the body to `take` piece by piece, until the body ends or `take` returns false. The next piece is read
    /// only after `take` has returned.
    package func forEachPiece(
        _ take: (_ piece: [UInt8]) throws -> Bool
    ) async throws {
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

/// A request's query, RFC 3986 §3.4.
package enum QueryText {
    /// Returns `?name=value&…`; an empty string if there are no members.
    package static func of(_ members: [(name: String, value: String)]) -> String {
        let text = members.map { "\($0.name)=\(PercentEncoding.encoded($0.value))" }.joined(separator: "&")
        return text.isEmpty ? "" : "?" + text
    }
}
