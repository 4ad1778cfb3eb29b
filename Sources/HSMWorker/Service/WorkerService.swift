import Foundation
import PKCS11
import Synchronization
import WorkerProtocol

/// Serves one token to the daemon at the other end of a socket.
///
/// The calling thread reads; every session has a thread of its own; answers leave in the order in which they are ready.
public enum WorkerService {
    /// Exit statuses besides 0, which is the end of the input.
    private enum Status {
        static let unavailable: Int32 = 69
        static let protocolViolation: Int32 = 70
    }

    /// Serves until the input ends. Blocks.
    /// - Parameter descriptor: A connected stream socket.
    /// - Returns: The status to exit with, at once: session threads may still be in the library.
    public static func serve(descriptor: Int32) -> Int32 {
        let stream = FrameStream(descriptor: descriptor)
        var decoder = FrameDecoder(maximumLength: FieldBound.requestFrame)
        var queue: RequestQueue?
        do throws(FrameError) {
            while let piece = next(stream, queue) {
                decoder.append(piece)
                while let frame = try decoder.next() {
                    let request = try WorkerRequest(frame)
                    if let queue {
                        guard case .open = request else {
                            queue.put(frame.identifier, request)
                            continue
                        }
                        return violation("The token is open already.", frame, stream)
                    }
                    guard case .open(let opening) = request else {
                        return violation("The first request must open the token.", frame, stream)
                    }
                    do throws(WorkerFailure) {
                        queue = try open(opening, frame.identifier, stream)
                    } catch {
                        stream.send(.failed(error), for: frame.identifier)
                        return Status.unavailable
                    }
                }
            }
        } catch {
            return Status.protocolViolation
        }
        return decoder.isAtBoundary ? 0 : Status.protocolViolation
    }

    private static func next(_ stream: FrameStream, _ queue: RequestQueue?) -> [UInt8]? {
        queue?.awaitDemand()
        return stream.read()
    }

    private static func violation(_ message: String, _ frame: Frame, _ stream: FrameStream) -> Int32 {
        stream.send(.failed(WorkerFailure(.protocolViolation, message)), for: frame.identifier)
        return Status.protocolViolation
    }

    private static func open(
        _ opening: TokenOpening, _ identifier: UInt64, _ stream: FrameStream
    ) throws(WorkerFailure) -> RequestQueue {
        let token = try OpenToken.open(opening)
        // Twice what the daemon hands over at a time, so that reading never waits for a well-behaved one.
        let queue = RequestQueue(capacity: Int(opening.sessions) * 16, sessions: Int(opening.sessions))
        let sessions = (0..<Int(opening.sessions)).map { _ in TokenSession(token) }
        try openSessions(sessions, opening)
        for (number, session) in sessions.enumerated() {
            let thread = Thread {
                while true {
                    session.waitForSession()
                    session.serve(queue.take(), stream)
                }
            }
            thread.name = "session-\(number)"
            thread.stackSize = 1024 * 1024
            thread.start()
        }
        var description = token.description
        description.sessions = UInt16(clamping: token.openSessions.load(ordering: .relaxed))
        description.unlockedSecrets = UnlockedSecrets.inBytes
        stream.send(.opened(description), for: identifier)
        return queue
    }

    /// Opens the sessions. While a worker takes over from another, the token may have room for some of them only: one
    /// must be had now, the others come when there is room.
    private static func openSessions(_ sessions: [TokenSession], _ opening: TokenOpening) throws(WorkerFailure) {
        var deadline = CallDeadline(callTimeout: opening.callTimeout)
        for (number, session) in sessions.enumerated() {
            do throws(CallError) {
                try session.open(&deadline)
            } catch {
                if error.isBusy, number > 0 { return }
                throw WorkerFailure(
                    .tokenUnavailable, "\(error) for session \(number + 1) of \(opening.sessions).")
            }
            // Only the first is waited for.
            deadline = CallDeadline(callTimeout: 0)
        }
    }
}
