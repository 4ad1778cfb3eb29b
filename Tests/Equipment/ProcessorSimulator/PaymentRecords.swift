/// The state of all payments, derived from the log's lines in order.
package struct PaymentRecords: Sendable {
    /// The state of a payment's last submission.
    package struct Record: Sendable, Equatable {
        package let payment: String
        package let scenario: Scenario
        /// The number of submissions of this payment.
        package let number: Int
        /// The position of this submission among all in the log, from 1.
        let ordinal: Int
        /// True once a pending payment is authorized.
        var isSettled = false
        /// The number of answers that stated the payment as pending. A restart resets it: the payment then stays
        /// pending for one more question.
        var questions = 0

        var isSettledByNextQuestion: Bool { status == .pending && questions > 0 }

        package var status: PaymentStatus { scenario == .pendingFirst && !isSettled ? .pending : scenario.status }

        /// `sim-000001`: the same after a restart, because the log has the same number of submissions before it.
        package var reference: String { "sim-\(Self.digits(ordinal, 6))" }

        /// Six characters, like processors' codes, if the payment succeeded.
        package var authorizationCode: String? {
            switch status {
            case .authorized, .captured: "S" + Self.digits(ordinal % 100_000, 5)
            case .declined, .error, .pending: nil
            }
        }

        private static func digits(_ number: Int, _ width: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
        }
    }

    private var records: [String: Record] = [:]
    /// The number of submissions, with repetitions.
    package private(set) var submissions = 0
    package private(set) var answers = 0
    package private(set) var submissionsByScenario: [Scenario: Int] = [:]

    package init() {}

    package subscript(payment: String) -> Record? { records[payment] }

    package var payments: Int { records.count }

    /// The payments that were submitted more than once, in the order of their names.
    package var submittedAgain: [Record] {
        records.values.filter { $0.number > 1 }.sorted { $0.payment < $1.payment }
    }

    /// The number of submissions of this payment.
    func submissions(of payment: String) -> Int { records[payment]?.number ?? 0 }

    /// Counts an answer about the payment's status.
    mutating func countQuestion(about payment: String) {
        if records[payment]?.status == .pending { records[payment]?.questions += 1 }
    }

    /// - Returns: false if the line contradicts those before it, which means that a line is missing or changed.
    mutating func apply(_ line: LogLine) -> Bool {
        switch line.event {
        case .submitted(let submission):
            guard line.number == submissions(of: submission.payment) + 1 else { return false }
            submissions += 1
            submissionsByScenario[submission.scenario, default: 0] += 1
            records[submission.payment] = Record(
                payment: submission.payment, scenario: submission.scenario, number: line.number, ordinal: submissions)
        case .answered(let payment):
            guard line.number <= submissions(of: payment) else { return false }
            answers += 1
        case .settled(let payment):
            guard line.number <= submissions(of: payment) else { return false }
            if line.number == submissions(of: payment) { records[payment]?.isSettled = true }
        }
        return true
    }
}
