import Foundation
import PKCS11
package import WorkerProtocol

/// A token within the calling process: the worker's work, its threads and their queue, without the process, the socket
/// and the frames in between. For measuring what these cost; nothing that is installed uses it.
package final class InProcessToken: Sendable {
    private let sessions: [TokenSession]
    private let queue: RequestQueue

    /// Opens the token and its sessions, and reads and tests its keys. Blocks.
    package init(_ opening: TokenOpening) throws(WorkerFailure) {
        let token = try OpenToken.open(opening)
        var deadline = CallDeadline(callTimeout: opening.callTimeout)
        queue = RequestQueue(capacity: Int(opening.sessions) * 16, sessions: Int(opening.sessions))
        sessions = (0..<Int(opening.sessions)).map { _ in TokenSession(token) }
        do {
            for session in sessions { try session.open(&deadline) }
        } catch {
            throw WorkerFailure(.tokenUnavailable, "\(error).")
        }
        if case .failed(let failure) = answer(.listKeys, in: 0) { throw failure }
    }

    /// Starts a thread for each session. They end with the process.
    /// - Parameter answered: called by these threads with a request's identifier and its answer.
    package func startThreads(_ answered: @escaping @Sendable (UInt64, WorkerAnswer) -> Void) {
        for session in sessions {
            let thread = Thread { [queue] in
                while true {
                    let next = queue.take()
                    answered(next.identifier, session.answer(next.request))
                }
            }
            thread.stackSize = 1024 * 1024
            thread.start()
        }
    }

    /// Hands a request to these threads.
    package func submit(_ request: WorkerRequest, identifier: UInt64) {
        queue.put(identifier, request)
    }

    /// What a worker answers, by the calling thread itself. Blocks for the token's time.
    /// - Parameter number: of the session, from 0; each for one thread.
    package func answer(_ request: WorkerRequest, in number: Int) -> WorkerAnswer {
        sessions[number].answer(request)
    }
}
