import Foundation
import PKCS11
import Synchronization
package import WorkerProtocol

/// The open token with its sessions, a thread for each of them, and the queue that feeds these threads.
///
/// ``WorkerService`` puts a socket in front of it. The measurement of what the process boundary costs uses it without one.
package final class ServedToken: Sendable {
    private let token: OpenToken
    private let sessions: [TokenSession]
    private let queue: RequestQueue

    /// Opens the token and its sessions. Blocks for as long as the library likes.
    package init(_ opening: TokenOpening) throws(WorkerFailure) {
        let token = try OpenToken.open(opening)
        self.token = token
        // Twice what the daemon hands over at a time, so that reading never waits for a well-behaved one.
        queue = RequestQueue(capacity: Int(opening.sessions) * 16, sessions: Int(opening.sessions))
        sessions = (0..<Int(opening.sessions)).map { _ in TokenSession(token) }
        try openSessions()
    }

    /// While a worker takes over from another, the token may have room for some of the sessions only: the first must be
    /// opened now, and the threads of the others open theirs when there is room.
    private func openSessions() throws(WorkerFailure) {
        var deadline = CallDeadline(callTimeout: token.opening.callTimeout)
        for (number, session) in sessions.enumerated() {
            do throws(CallError) {
                try session.open(&deadline)
            } catch {
                if error.isBusy, number > 0 { return }
                throw WorkerFailure(
                    .tokenUnavailable, "\(error) for session \(number + 1) of \(token.opening.sessions).")
            }
            // Only the first is waited for.
            deadline = CallDeadline(callTimeout: 0)
        }
    }

    /// What the token is and can do, with the sessions that are open now.
    var description: TokenDescription {
        var description = token.description
        description.sessions = UInt16(clamping: token.openSessions.load(ordering: .relaxed))
        description.unlockedSecrets = TokenSession.unlockedSecrets
        return description
    }

    /// Starts a thread for each session. They end with the process.
    /// - Parameter answered: called by these threads with a request's identifier and its answer.
    package func startThreads(_ answered: @escaping @Sendable (UInt64, WorkerAnswer) -> Void) {
        for (number, session) in sessions.enumerated() {
            let thread = Thread { [queue] in
                while true {
                    session.waitForSession()
                    let next = queue.take()
                    answered(next.identifier, session.answer(next.request))
                }
            }
            thread.name = "session-\(number)"
            thread.stackSize = 1024 * 1024
            thread.start()
        }
    }

    /// Hands a request to these threads. Blocks while the queue is full.
    package func submit(_ request: WorkerRequest, identifier: UInt64) {
        queue.put(identifier, request)
    }

    /// Returns when the threads will soon have nothing more to do, or after a short while.
    func awaitDemand() {
        queue.awaitDemand()
    }

    /// Answers in the calling thread. Blocks for as long as the token takes.
    /// - Parameter number: of the session, from 0; each for one thread.
    package func answer(_ request: WorkerRequest, in number: Int) -> WorkerAnswer {
        sessions[number].answer(request)
    }
}
