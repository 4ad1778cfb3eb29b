import Refusals

extension Refusal {
    /// For what cannot happen unless this program is wrong. The caller learns only that.
    static let defect = Refusal(.internalError, "The daemon has a defect; its log says more.")
}
