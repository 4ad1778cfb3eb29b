import PaymentToken
import Synchronization
import X509

/// What SIGHUP can replace: who may do what, whom to trust, and how old a signature may be.
struct Policies: Sendable {
    let access: AccessPolicy
    let trust: TrustPolicy
    /// The certificates at which a chain may end, and how many others are refused by their fingerprint: for people.
    let roots: [Certificate]
    let distrusted: Int
    let signingTimeWindow: SigningTimeWindow
}

/// The policies in force. A request takes one look and is judged by that to its end; a reload replaces all of them at
/// once, so no request sees half of one.
final class CurrentPolicies: Sendable {
    private let policies: Mutex<Policies>

    init(_ policies: Policies) {
        self.policies = Mutex(policies)
    }

    var current: Policies { policies.withLock { $0 } }

    func replace(with new: Policies) {
        policies.withLock { $0 = new }
    }
}
