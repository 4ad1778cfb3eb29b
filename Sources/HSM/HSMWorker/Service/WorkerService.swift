import Locks
import PKCS11
package import WorkerProtocol

/// The open HSM token with its sessions, and a thread for each of them.
///
/// ``WorkerService`` connects the threads to a socket. The benchmark of the process boundary uses this class without a
/// socket.
package final class ServedToken: Sendable {
    private let hsmToken: OpenToken
    private let sessions: [TokenSession]

    /// Opens the HSM token and its sessions. Blocks for as long as the library takes.
    package init(_ opening: HSMTokenOpening) throws(WorkerFailure) {
        let hsmToken = try OpenToken.open(opening)
        self.hsmToken = hsmToken
        sessions = (0..<Int(opening.sessions)).map { _ in TokenSession(hsmToken) }
        try openSessions()
    }

    /// Opens the sessions. While this worker takes over from a previous one, the HSM token may have room for only some
    /// of them. The first must be opened now; the threads of the others open theirs when there is room.
    private func openSessions() throws(WorkerFailure) {
        var deadline = CallDeadline(callTimeout: hsmToken.opening.callTimeout)
        for (number, session) in sessions.enumerated() {
            do throws(CallError) {
                try session.open(&deadline)
            } catch {
                if error.isBusy, number > 0 { return }
                throw WorkerFailure(
                    .hsmTokenUnavailable, "\(error) for session \(number + 1) of \(hsmToken.opening.sessions).")
            }
            // Only the first session may wait for a busy HSM token. Each other one gets a single attempt here.
            deadline = CallDeadline(callTimeout: 0)
        }
    }

    /// A description of the HSM token, with the number of sessions that are open now.
    var description: HSMTokenDescription {
        var description = hsmToken.description
        description.sessions = UInt16(clamping: hsmToken.openSessions.load(ordering: .relaxed))
        description.unlockedSecrets = TokenSession.unlockedSecrets
        return description
    }

    /// Starts a thread for each session. The threads end with the process, or when no more requests come.
    /// - Parameters:
    ///   - read: Blocks until further requests arrive, and returns them with their identifiers; nil if no more will
    ///     come. One thread at a time calls it.
    ///   - answered: Receives a request's identifier and its answer, in these threads.
    package func startThreads(
        reading read: @escaping () -> [(identifier: UInt64, request: WorkerRequest)]?,
        answered: @escaping @Sendable (UInt64, WorkerAnswer) -> Void
    ) {
        let queue = RequestQueue(read: read)
        for (number, session) in sessions.enumerated() {
            BlockingThread.start("session-\(number)") {
                while true {
                    session.waitForSession()
                    guard let next = queue.take() else { return }
                    answered(next.identifier, session.answer(next.request))
                }
            }
        }
    }
}

/// Serves one HSM token to the daemon at the other end of a socket. Only paytokend-hsm calls it.
///
/// This target is everything that the worker process does. It holds the vendor's library, the PIN, the sessions and the
/// key handles, and reads only frames, which it treats as hostile input. A merchant's private key never leaves the HSM
/// token. A transaction's symmetric key leaves the HSM token in tier C only, and never leaves this process.
///
/// Each session has a thread of its own, and an idle one of these threads reads the requests. The thread that calls
/// ``serve(descriptor:)`` only waits for the end of the stream. Answers are written in the order in which they are
/// ready.
///
/// To follow a decryption, read ``ServedToken`` (threads), ``RequestQueue`` (the reading thread), ``TokenSession``
/// (one session and its requests), `KeyOperations/DecryptionOperation.swift` (repeated calls) and `Tiers` (the calls
/// to the HSM token). To follow a TLS handshake's signature, go on at `Signatures/TLSSigningOperation.swift`.
/// `KeyOperations/KeyRights.swift` restricts each key to its one use. ``OpenToken`` opens an HSM token, and
/// `Token/SessionRepair.swift` repairs lost sessions and logins.
public enum WorkerService {
    /// Exit statuses other than 0. Status 0 means that the input ended.
    private enum Status {
        static let unavailable: Int32 = 69
        static let protocolViolation: Int32 = 70
    }

    /// Serves one HSM token until the daemon closes the stream. Blocks.
    /// - Parameter descriptor: A connected stream socket.
    /// - Returns: The exit status; the caller must exit at once. Session threads may still be in the library, but no
    ///   login is in progress, and none can begin.
    public static func serve(descriptor: Int32) -> Int32 {
        let status = answerRequests(descriptor)
        TokenLogin.finish(within: 10)
        return status
    }

    private static func answerRequests(_ descriptor: Int32) -> Int32 {
        let stream = FrameStream(descriptor: descriptor)
        let input = RequestInput(descriptor, stream: stream)
        if let first = input.first() {
            if case .open(let opening) = first.request {
                do throws(WorkerFailure) {
                    let hsmToken = try ServedToken(opening)
                    // Sent before the session threads start, so that `opened` is always the first answer.
                    stream.send(.opened(hsmToken.description), for: first.identifier)
                    hsmToken.startThreads(reading: input.batch) { stream.send($1, for: $0) }
                    input.waitUntilClosed()
                } catch {
                    stream.send(.failed(error), for: first.identifier)
                    return Status.unavailable
                }
            } else {
                input.reject("The first request must open the HSM token.", first.identifier)
            }
        }
        return input.wasWellFormed() ? 0 : Status.protocolViolation
    }
}
