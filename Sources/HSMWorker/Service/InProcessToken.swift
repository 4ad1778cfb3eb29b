import PKCS11
package import WorkerProtocol

/// A token within the calling process: the worker's work without a process and frames in between. For measuring what
/// these cost; nothing that is installed uses it.
package final class InProcessToken: Sendable {
    private let seats: [SessionSeat]

    /// Opens the token and its sessions, and reads and tests its keys. Blocks.
    package init(_ opening: TokenOpening) throws(WorkerFailure) {
        let token = try OpenToken.open(opening)
        var deadline = CallDeadline(callTimeout: opening.callTimeout)
        seats = (0..<Int(opening.sessions)).map { _ in SessionSeat(token) }
        do {
            for seat in seats { try seat.open(&deadline) }
        } catch {
            throw WorkerFailure(.tokenUnavailable, "\(error).")
        }
        if case .failed(let failure) = answer(.listKeys, in: 0) { throw failure }
    }

    /// What a worker answers, without the frames. Blocks for the token's time.
    /// - Parameter session: from 0; each for one thread.
    package func answer(_ request: WorkerRequest, in session: Int) -> WorkerAnswer {
        seats[session].answer(request, arrival: .now)
    }
}
