/// The simulator's behaviour for a submission. The last two digits of the amount in minor units choose it, so that a
/// test selects a scenario by the amount of its payment:
///
///     00–79, 94–99   authorized
///     80             captured
///     81, 82         declined: insufficient_funds, do_not_honor
///     83             error
///     84             recorded as authorized; never answered, and the connection stays open until the peer closes it
///     85             not recorded; the connection is cut when the request has been read
///     86             recorded as authorized; cut without an answer
///     87             recorded as authorized; cut in the middle of the answer
///     88             authorized, answered late
///     89             authorized, answered twice
///     90             recorded as authorized; the answer is not JSON
///     91             recorded as error; answered with status 500
///     92             recorded as authorized; the answer is about another payment
///     93             pending; GET says authorized from the second question on
///
/// The raw values are the log's `outcome`.
package enum Scenario: String, Sendable, CaseIterable {
    case authorized
    case captured
    case insufficientFunds = "insufficient_funds"
    case doNotHonor = "do_not_honor"
    case error
    case noAnswer = "no_answer"
    case cutBeforeRecord = "cut_before_record"
    case cutWithoutAnswer = "cut_without_answer"
    case cutInAnswer = "cut_in_answer"
    case late
    case answeredTwice = "answered_twice"
    case notJSON = "not_json"
    case status500 = "status_500"
    case otherPayment = "other_payment"
    case pendingFirst = "pending_first"

    /// Chooses the scenario by the last two digits of an amount.
    ///
    /// - Parameter minorUnits: the amount, which must not be negative.
    package init(minorUnits: Int64) {
        self =
            switch minorUnits % 100 {
            case 80: .captured
            case 81: .insufficientFunds
            case 82: .doNotHonor
            case 83: .error
            case 84: .noAnswer
            case 85: .cutBeforeRecord
            case 86: .cutWithoutAnswer
            case 87: .cutInAnswer
            case 88: .late
            case 89: .answeredTwice
            case 90: .notJSON
            case 91: .status500
            case 92: .otherPayment
            case 93: .pendingFirst
            default: .authorized
            }
    }

    /// The payment's final status.
    package var status: PaymentStatus {
        switch self {
        case .captured: .captured
        case .insufficientFunds, .doNotHonor: .declined
        case .error, .status500: .error
        case .authorized, .noAnswer, .cutBeforeRecord, .cutWithoutAnswer, .cutInAnswer, .late, .answeredTwice, .notJSON,
            .otherPayment, .pendingFirst:
            .authorized
        }
    }

    /// The answer's `reason`; nil if the payment succeeded.
    package var reason: String? {
        switch self {
        case .insufficientFunds, .doNotHonor: rawValue
        case .error, .status500: "processing_error"
        default: nil
        }
    }

    /// The number of answers that begin as soon as the submission is on disk. A late answer is recorded separately and
    /// does not count.
    var immediateAnswers: Int {
        switch self {
        case .noAnswer, .cutBeforeRecord, .cutWithoutAnswer, .late: 0
        case .answeredTwice: 2
        default: 1
        }
    }

    /// The last two digits of the amounts that choose this scenario, as text for --help.
    package var digits: String {
        let chosen = (0..<100).filter { Scenario(minorUnits: $0) == self }.map { $0 < 10 ? "0\($0)" : "\($0)" }
        return self == .authorized ? "00–79, 94–99" : chosen.joined(separator: ", ")
    }

    /// The scenario's description for --help.
    package var summary: String {
        switch self {
        case .authorized: "authorized"
        case .captured: "captured"
        case .insufficientFunds, .doNotHonor: "declined, reason \(rawValue)"
        case .error: "error, reason processing_error"
        case .noAnswer: "recorded as authorized; never answered, the connection stays open"
        case .cutBeforeRecord: "not recorded; cut when the request has been read"
        case .cutWithoutAnswer: "recorded as authorized; cut without an answer"
        case .cutInAnswer: "recorded as authorized; cut in the middle of the answer"
        case .late: "authorized, answered late (--late)"
        case .answeredTwice: "authorized, answered twice"
        case .notJSON: "recorded as authorized; the answer is not JSON"
        case .status500: "recorded as error; answered with status 500"
        case .otherPayment: "recorded as authorized; the answer is about another payment"
        case .pendingFirst: "pending; GET says authorized from the second question on"
        }
    }
}

/// The status of a payment. The raw values are the answers' `status`.
package enum PaymentStatus: String, Sendable {
    case authorized, captured, declined, error, pending
}
