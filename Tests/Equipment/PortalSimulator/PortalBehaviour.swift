extension PortalSimulator {
    /// The choices that Apple's documents leave open, and faults. A test sets them, or draws them all from a seed.
    public struct Behaviour: Sendable {
        /// True if a scope must name the path with `/v1`.
        public var scopeHasVersion = false
        /// False if the API does not compare a scope's query.
        public var comparesQuery = true
        /// The number of resources that an answer claims beyond those that it has.
        public var unlisted = 0
        /// True if identifiers are shown without `merchant.`.
        public var hidesPrefix = false
        /// An answer to every authorized request instead of the right one: its status and its body.
        public var fault: (status: Int, body: String)?

        /// The largest number of certificates of one merchant identifier and type, and the error beyond it.
        public var maximumCertificates = 2
        public var limitError: (status: Int, code: String) = (409, "ENTITY_ERROR.ATTRIBUTE.INVALID")
        /// True if an activation revokes the certificate that wallets used; false if it stays, inactive.
        public var revokesReplaced = false
        /// False if a key that has a certificate gets no second one.
        public var takesKeyTwice = true
        /// The number of reads in whose lists a created certificate is missing.
        public var readsWithoutNew = 0
        /// The number of reads that still show the certificate used before an activation as `activated`.
        public var readsBeforeActivated = 0
        /// The seconds after an activation in which wallets use the old certificate and the new one.
        public var mixedSeconds = 0.0
        /// The seconds after that in which single late wallets still use the old certificate.
        public var lateSeconds = 0.0
        /// Apple's `activated` of an identity certificate; nil leaves it out.
        public var identityActivation: Bool? = true
        /// The seconds by which the API's clock is ahead.
        public var clockSkew = 0
        /// The number of requests after which every further one is refused with 429.
        public var requestLimit = Int.max
        /// The treatment of the next requests, before anything is drawn.
        public var interruptions: [Interruption] = []
        /// One of this number of requests is interrupted, as the seed has it; 0 for none.
        public var oneInterruptedOf: UInt64 = 0
        /// Acts of people in the portal, each directly before the next request with its method. An act that the portal refuses
        /// has no effect.
        public var acts: [(before: String, act: Act)] = []

        public init() {}

        /// Draws every choice that a renewal must bear.
        public init(seed: UInt64) {
            var draws = Draws(seed: seed)
            scopeHasVersion = draws.next(2) == 0
            comparesQuery = draws.next(2) == 0
            hidesPrefix = draws.next(2) == 0
            maximumCertificates = 2 + Int(draws.next(3))
            limitError =
                [
                    (409, "ENTITY_ERROR.ATTRIBUTE.INVALID"), (409, "STATE_ERROR.CERTIFICATE_LIMIT"),
                    (422, "ENTITY_ERROR"),
                    (403, "FORBIDDEN.LIMIT"),
                ][Int(draws.next(4))]
            revokesReplaced = draws.next(2) == 0
            takesKeyTwice = draws.next(2) == 0
            readsWithoutNew = Int(draws.next(4))
            readsBeforeActivated = Int(draws.next(4))
            mixedSeconds = Double(draws.next(6))
            identityActivation = [true, false, nil][Int(draws.next(3))]
            clockSkew = Int(draws.next(80)) - 9
            oneInterruptedOf = 5 + draws.next(20)
            lateSeconds = Double(draws.next(60))
        }
    }

    /// An act of a person in the portal.
    public enum Act: Sendable {
        /// Requests a certificate for a key that was made by other means.
        case createOther(merchant: String, type: String)
        case activate(String)
        case revoke(String)
    }

    /// A request that does not end with the right answer.
    public enum Interruption: Sendable, Equatable {
        /// The connection ends before the request has an effect.
        case lostBefore
        /// The connection ends after the request had its effect.
        case lostAfter
        /// The request has its effect, and half of the answer's body arrives.
        case cutShort
        /// An answer without an effect, in plain text.
        case answer(status: Int, text: String)
        /// A redirect without an effect.
        case redirect(to: String)

        static let drawn: [Interruption] = [
            .lostBefore, .lostAfter, .cutShort, .answer(status: 406, text: "Not Acceptable"),
            .answer(status: 429, text: #"{"errors":[{"status":"429","code":"RATE_LIMIT_EXCEEDED"}]}"#),
            .answer(status: 500, text: ""),
        ]
    }

    /// Random numbers from a seed: SplitMix64 (Steele, Lea, Flood).
    struct Draws: Sendable {
        private var state: UInt64

        init(seed: UInt64) { state = seed }

        /// Returns a number below `bound`.
        mutating func next(_ bound: UInt64) -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var value = state
            value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
            value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
            return (value ^ (value >> 31)) % bound
        }
    }
}
