import PKCS11
import Synchronization
package import WorkerProtocol

/// The open token with its sessions, and a thread for each of them.
///
/// ``WorkerService`` has the threads read a socket. The measurement of what the process boundary costs uses it without one.
package final class ServedToken: Sendable {
    private let hsmToken: OpenToken
    private let sessions: [TokenSession]

    /// Opens the token and its sessions. Blocks for as long as the library likes.
    package init(_ opening: HSMTokenOpening) throws(WorkerFailure) {
        let hsmToken = try OpenToken.open(opening)
        self.hsmToken = hsmToken
        sessions = (0..<Int(opening.sessions)).map { _ in TokenSession(hsmToken) }
        try openSessions()
    }

    /// While a worker takes over from another, the token may have room for some of the sessions only: the first must be
    /// opened now, and the threads of the others open theirs when there is room.
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
            // Only the first is waited for.
            deadline = CallDeadline(callTimeout: 0)
        }
    }

    /// What the token is and can do, with the sessions that are open now.
    var description: HSMTokenDescription {
        var description = hsmToken.description
        description.sessions = UInt16(clamping: hsmToken.openSessions.load(ordering: .relaxed))
        description.unlockedSecrets = TokenSession.unlockedSecrets
        return description
    }

    /// Starts a thread for each session. They end with the process, or when no more requests come.
    /// - Parameters:
    ///   - read: blocks for further requests with their identifiers; nil when none will come. Called by one thread at a
    ///     time.
    ///   - answered: called by these threads with a request's identifier and its answer.
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

/// Serves one token to the daemon at the other end of a socket. Called by paytokend-hsm and by nobody else.
///
/// This target is everything that the worker process does: it holds the vendor's library, the PIN, the sessions and the
/// key handles, and reads only frames, which it treats as hostile. A merchant's private key never leaves the token; a
/// transaction's symmetric key leaves it in tier C only, and never this process.
///
/// Each session has a thread of its own, which reads a request when it has nothing else to do; the calling thread waits for
/// the end. Answers are written in the order in which they are ready. To follow a decryption, read on at ``ServedToken``
/// (threads), ``RequestQueue`` (who reads), ``TokenSession`` (one session and the requests that it answers), `KeyOperations/DecryptionOperation.swift` (when a call is repeated) and `Tiers` (what the
/// token is asked); to follow a TLS handshake's signature, at `Signatures/TLSSigningOperation.swift`. `KeyOperations/KeyRights.swift`
/// says what keeps a key to its one use. ``OpenToken`` says how a token is opened, `Token/SessionRepair.swift` what is done when it ends
/// sessions or the login.
public enum WorkerService {
    /// Exit statuses besides 0, which is the end of the input.
    private enum Status {
        static let unavailable: Int32 = 69
        static let protocolViolation: Int32 = 70
    }

    /// Serves until the input ends. Blocks.
    /// - Parameter descriptor: A connected stream socket.
    /// - Returns: The status to exit with, at once: session threads may still be in the library, but none of them in a
    ///   login, and none logs in any more.
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
                    // Before any session can answer another request.
                    stream.send(.opened(hsmToken.description), for: first.identifier)
                    hsmToken.startThreads(reading: input.batch) { stream.send($1, for: $0) }
                    input.awaitEnd()
                } catch {
                    stream.send(.failed(error), for: first.identifier)
                    return Status.unavailable
                }
            } else {
                input.reject("The first request must open the token.", first.identifier)
            }
        }
        return input.wasWellFormed() ? 0 : Status.protocolViolation
    }
}
