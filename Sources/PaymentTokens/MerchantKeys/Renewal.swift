public import Foundation
public import KeyTypes
public import PaymentToken

/// The renewal of one merchant's certificate at Apple: its new key, and the changes at Apple that were attempted for it.
///
/// ``next(_:)`` has the rules. They depend on the renewal, and on the circumstances that a daemon reads: the key's state and
/// proofs, and Apple's list.
public struct Renewal: Sendable, Equatable {
    public enum State: String, Sendable, CaseIterable {
        case open
        case finished
        /// A person has ended the renewal before its last step.
        case abandoned
    }

    /// A change at Apple. Apple offers no way back from any of them.
    public enum Change: String, Sendable, CaseIterable {
        case create
        case activate
        case revoke
    }

    /// One attempt at a change. It is stored before the request is made, since Apple may have made the change although
    /// no answer arrived.
    public struct Attempt: Sendable, Equatable {
        public enum Outcome: String, Sendable, CaseIterable {
            /// The request may be on its way. Without an answer after ``Renewal/answerTime``, the outcome is unknown.
            case intended
            case accepted
            case refused
            /// Nothing was sent to Apple.
            case notSent = "not_sent"
            case unknown
        }

        public let change: Change
        /// The number among the attempts at this change, from 1.
        public let number: Int
        public let intendedAt: Date
        public internal(set) var outcome: Outcome
        /// The time at which the answer was stored; nil without one.
        public internal(set) var answeredAt: Date?
        /// The nodes without whose proofs the attempt was approved.
        public let excludedNodes: Set<String>

        public init(
            change: Change, number: Int, intendedAt: Date, outcome: Outcome, answeredAt: Date? = nil,
            excludedNodes: Set<String> = []
        ) {
            (self.change, self.number, self.intendedAt, self.outcome) = (change, number, intendedAt, outcome)
            (self.answeredAt, self.excludedNodes) = (answeredAt, excludedNodes)
        }

        /// The time from which Apple's list counts as showing the attempt's effect, if it had one.
        ///
        /// Nil if a wrong clock gave the attempt's time and its answer's. Then a person decides.
        func certainAt(at now: Date) -> Date? { time(at: now)?.addingTimeInterval(Renewal.doubtTime) }

        /// The time from which the attempt counts: its own, or that of its answer if the first lies so far ahead that a wrong
        /// clock gave it. Without an answer it is `now`, until the outcome unknown is stored. Nil if both lie ahead.
        func time(at now: Date) -> Date? {
            let latest = now.addingTimeInterval(Renewal.largestClockDifference)
            return [intendedAt, answeredAt ?? now].first { $0 <= latest }
        }

        /// Returns true if the answer to the attempt may still arrive.
        public func mayBeAnswered(at now: Date) -> Bool {
            outcome == .intended && time(at: now) == intendedAt
                && now < intendedAt.addingTimeInterval(Renewal.answerTime)
        }
    }

    public let merchantIdentifier: String
    public let use: KeyUse
    public let algorithm: KeyAlgorithm
    public internal(set) var state: State
    /// The key of the new certificate; nil until it is generated.
    public let newKey: PublicKeyHash?
    /// The id at Apple of the new certificate; nil until it is known.
    public internal(set) var certificateId: String?
    /// The id at Apple of the certificate that wallets used when the new one was requested; nil if there was none.
    public internal(set) var previousCertificateId: String?
    public internal(set) var attempts: [Attempt]

    public init(
        merchantIdentifier: String, use: KeyUse, algorithm: KeyAlgorithm, newKey: PublicKeyHash?,
        state: State = .open, certificateId: String? = nil, previousCertificateId: String? = nil,
        attempts: [Attempt] = []
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.use = use
        self.algorithm = algorithm
        self.newKey = newKey
        self.state = state
        self.certificateId = certificateId
        self.previousCertificateId = previousCertificateId
        self.attempts = attempts
    }

    /// The time for which an attempt's answer can arrive. A request waits a minute for the outbound program, its JSON Web
    /// Token is valid for 90 seconds, and the nodes' clocks may differ by some seconds.
    public static let answerTime: TimeInterval = 180
    /// The time after an attempt with an unknown outcome during which only reads follow. Apple's lists may lack a new
    /// certificate for minutes.
    public static let doubtTime: TimeInterval = 30 * 60
    /// The longest age of the read on which a change is decided.
    public static let longestReadAge: TimeInterval = 120
    /// The shortest validity of the certificate in use with which Apple surely does not activate a new one by itself.
    public static let shortestValidity: TimeInterval = 7 * 86_400
    /// The longest age of a proof. An HSM token may be replaced after it.
    public static let longestProofAge: TimeInterval = 86_400
    /// The longest time between the results of a node's HSM tokens for one proof.
    public static let largestProofDuration: TimeInterval = 300
    /// The time after the activation from which the lack of payments is an alarm.
    public static let alarmTime: TimeInterval = 30 * 60
    /// The largest number of a merchant's identity certificates that Apple permits.
    public static let largestIdentityCount = 3
    /// The number of attempts of which nothing was sent, after which a person decides on the next.
    public static let largestUnsentCount = 3
    /// The largest difference between two nodes' clocks. A proof that lies further in the future counts for nothing, and
    /// nothing waits for the time of such an attempt.
    public static let largestClockDifference: TimeInterval = 300
}

/// The parts of a renewal's surroundings on which its next step depends.
public struct RenewalCircumstances: Sendable {
    /// The result of one HSM token that opened a message, or signed, with the new key.
    public struct Proof: Sendable, Equatable {
        public let node: String
        public let hsmToken: String
        /// True if the message was made with the certificate that Apple has issued for the new key.
        public let isWithCertificate: Bool
        public let at: Date
        public let succeeded: Bool

        public init(node: String, hsmToken: String, isWithCertificate: Bool, at: Date, succeeded: Bool) {
            self.node = node
            self.hsmToken = hsmToken
            self.isWithCertificate = isWithCertificate
            self.at = at
            self.succeeded = succeeded
        }
    }

    public var now: Date
    /// The new key's state in the ledger; nil if the ledger does not know it.
    public var keyState: KeyState?
    /// The HSM tokens of the deciding node that show the old key and not the new one.
    public var hsmTokensWithoutKey: [String] = []
    /// The nodes whose HSM tokens must have proved the key.
    public var requiredNodes: Set<String> = []
    /// The nodes that a person excludes. Every change at Apple is approved with their names. After the last change before the
    /// end, those with which it was approved count instead.
    public var excludedNodes: Set<String> = []
    /// The nodes whose daemons are up. None of them is left out of a renewal that was begun here.
    public var upNodes: Set<String> = []
    /// The proofs of the new key on all nodes, in any order.
    public var proofs: [Proof] = []
    /// True if the new key's certificate request is made.
    public var hasRequest = true
    /// True if the new key has the certificate that Apple issued for it.
    public var hasCertificate = false
    /// The last read of Apple's list; nil if there is none. The read began at ``readBeganAt``.
    public var list: PortalList?
    public var readBeganAt: Date?
    /// The nodes on which the new key has opened a payment token that Apple signed.
    public var nodesWithPayments: Set<String> = []
    /// The time since which wallets are known to use the new certificate; nil if unknown.
    public var activatedAt: Date?
    /// True if a person says that a test payment has succeeded.
    public var isTestPaymentMade = false
    /// The attempt that a person wants repeated; nil if there is none.
    public var repeatedAttempt: (change: Renewal.Change, number: Int)?
    /// True if an earlier renewal of this key has an attempt with which Apple may have created a certificate. A person
    /// repeats it under the number 0.
    public var hasEarlierCreation = false
    /// The time before which the ledger may lack attempts, since it was restored from a copy; nil if it lacks none. A person
    /// decides about them as about ``hasEarlierCreation``.
    public var restoreFence: Date?
    /// True if the renewal was begun here. Otherwise a person takes each step, and no approval has the excluded nodes.
    public var isBegun = true
    /// True if a person wants the previous certificate revoked.
    public var isRevocationWanted = false

    public init(now: Date) { self.now = now }

    /// The required nodes that have not proved the key, except excluded ones.
    func unprovedNodes(withCertificate: Bool, without excluded: Set<String>) -> [String] {
        requiredNodes.subtracting(excluded).sorted().filter { !isProved($0, withCertificate: withCertificate) }
    }

    /// Returns true if a node has proved the key: the newest proof of each of its HSM tokens succeeded and is not too old.
    /// A failed proof outweighs another of the same time. A node proves the key in all its HSM tokens at once, so one that
    /// has no result since another one's success no longer belongs to the node.
    public func isProved(_ node: String, withCertificate: Bool) -> Bool {
        let times =
            now.addingTimeInterval(-Renewal.longestProofAge)...now.addingTimeInterval(Renewal.largestClockDifference)
        let recent = proofs.filter { $0.node == node && times.contains($0.at) }
        let newest = Dictionary(grouping: recent, by: \.hsmToken).values.compactMap { ofToken in
            ofToken.max { ($0.at, $0.succeeded ? 0 : 1) < ($1.at, $1.succeeded ? 0 : 1) }
        }
        let success = newest.filter(\.succeeded).map(\.at).max() ?? .distantPast
        let current = newest.filter { $0.at >= success.addingTimeInterval(-Renewal.largestProofDuration) }
        return !current.isEmpty && current.allSatisfy { $0.succeeded && ($0.isWithCertificate || !withCertificate) }
    }

    /// Returns the last list if its read began after the attempt and is recent enough to decide a change.
    func freshList(after attempt: Renewal.Attempt?) -> PortalList? {
        guard let list, let readBeganAt, now.timeIntervalSince(readBeganAt) <= Renewal.longestReadAge else {
            return nil
        }
        return attempt?.time(at: now).map { readBeganAt > $0 } ?? true ? list : nil
    }
}

/// The next step of a renewal.
public enum RenewalStep: Sendable, Equatable {
    /// Generate the new key and its certificate request.
    case generateKey
    /// Wait until these HSM tokens of this node show the new key: it is one key pair, cloned by the vendor's means.
    case distribute(hsmTokens: [String])
    /// Wait until these nodes have proved the key.
    case prove(nodes: [String], withCertificate: Bool)
    /// Wait until a node with the key has made its certificate request.
    case makeRequest
    /// Read Apple's list. The last one is too old to decide a change.
    case read
    /// Wait for the answer to an attempt.
    case awaitAnswer(Renewal.Change, number: Int)
    /// Read Apple's list again and again: the outcome of the attempt is unknown, or the list lacks the certificate.
    case find(Renewal.Change)
    /// A person decides if the attempt is repeated, since it was refused, or its outcome is still unknown.
    case decideRepeat(Renewal.Change, number: Int, Renewal.Attempt.Outcome)
    /// A person decides if a certificate is requested, under the number 0, although Apple may have created one: by an
    /// earlier renewal of the key, or by an attempt that a restored ledger lacks.
    case decideCreation(isRestored: Bool)
    /// Have Apple issue the certificate.
    ///
    /// - Parameters:
    ///   - number: the attempt's number.
    ///   - previous: the id of the certificate that wallets use now; nil if not exactly one is in use.
    ///   - isUsedAtOnce: true if Apple may activate the certificate at once. The key must then be active here before the
    ///     request.
    case create(number: Int, previous: String?, isUsedAtOnce: Bool)
    case importCertificate(id: String)
    /// Make wallets use the certificate. People approve it, always.
    case activate(id: String, number: Int)
    /// Wait for payments with the new key on these nodes.
    ///
    /// - Parameter isAlarming: true if wallets have used the certificate for ``Renewal/alarmTime`` and no node has opened
    ///   a payment token with its key.
    case watch(nodes: [String], isAlarming: Bool)
    /// A person makes a test payment, and says so.
    case makeTestPayment
    /// Deactivate the old key.
    case finish
    /// Revoke the previous certificate, which wallets no longer use.
    case revoke(id: String, number: Int)
    case stop(RenewalObstacle)
    case done
}

/// The reason why a renewal cannot go on until a person has removed it.
public enum RenewalObstacle: Error, Sendable, Equatable {
    /// The new key is suspended, or at its end, or no longer in the ledger; or it is not active, before a revocation.
    case keyState(KeyState?)
    /// No node serves payments, or each that does is excluded. So no proof and no payment would be needed.
    case noRequiredNode
    /// The team has no such merchant identifier.
    case merchantNotListed
    /// Apple does not list the new certificate, or lists its id twice. It may have been revoked in the portal. The id is
    /// nil if the key has Apple's certificate here, and the list has none of the key.
    case notListed(id: String?)
    /// Apple lists the new certificate so that it must not be activated.
    case notActivatable(id: String, PortalWriteRefusal)
    /// Apple already lists ``Renewal/largestIdentityCount`` identity certificates.
    case identityCertificatesExhausted
    /// The previous certificate is unknown, of the new key, or in use.
    case notRevocable(id: String?)
}

/// The reason why an attempt or another step cannot begin. Another operator may have begun it.
public enum RenewalConflict: Error, Sendable, Equatable, CustomStringConvertible {
    case notOpen(Renewal.State)
    /// The ledger has no such renewal or attempt.
    case unknown
    /// The attempt that would be next has this number.
    case otherNumber(Int)
    /// An earlier attempt of the renewal has no outcome yet.
    case unanswered(Renewal.Change, number: Int)
    /// The last attempt at this change was accepted.
    case alreadyAccepted
    /// The outcome of the last attempt has been unknown for less than ``Renewal/doubtTime``, or Apple's list may lack its
    /// effect for that time.
    case inDoubt(until: Date)
    /// The attempt has this outcome already.
    case answered(Renewal.Attempt.Outcome)
    /// The renewal's certificate at Apple, or the one before it, is another than that of the attempt.
    case otherCertificate
    /// Apple may have created a certificate for an earlier renewal of the key, and no person has decided to go on.
    case earlierCreation

    /// The reason, and what to do.
    public var description: String {
        switch self {
        case .notOpen(.open): "A renewal of this merchant's key is open already; continue it."
        case .notOpen(let state): "The renewal is \(state.rawValue), so this step is no longer possible."
        case .unknown: "The ledger has no such renewal or attempt."
        case .otherNumber(let next):
            "Another operator was first: the next attempt has the number \(next). See the renewal's state."
        case .unanswered(let change, let number):
            "Apple's answer to attempt \(number) to \(change.rawValue) may still arrive; wait for it."
        case .alreadyAccepted: "Apple has accepted this change already; see the renewal's state."
        case .inDoubt(let until):
            "Apple may have taken a request whose effect is not in its list yet, so nothing but reading is permitted "
                + "until \(until.formatted(.iso8601))."
        case .answered(let outcome): "The attempt has the outcome \(outcome.rawValue) already."
        case .otherCertificate:
            "Another call has stored this renewal's certificate meanwhile; see the renewal's state."
        case .earlierCreation:
            "An earlier renewal of this key may have led to a certificate; see the renewal's state."
        }
    }
}
