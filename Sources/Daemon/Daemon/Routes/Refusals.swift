import Refusals

extension Refusal {
    /// For what cannot happen unless this program is wrong. The caller learns only that.
    static let defect = Refusal(.internalError, "The daemon has a defect; its log says more.")

    /// For a request whose work was not begun, or not taken to the HSM, because no answer can be delivered.
    static let peerHasLeft = Refusal(
        .deadlineExceeded, "The caller closed its connection before the HSM was asked; nothing was released.")
}
