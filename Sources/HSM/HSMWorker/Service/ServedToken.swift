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
