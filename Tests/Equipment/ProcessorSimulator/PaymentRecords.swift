/// What the log says of all payments: in memory what its lines say one after the other.
package struct PaymentRecords: Sendable {
    /// What became of a payment's last submission.
    package struct Record: Sendable, Equatable {
        package let payment: String
        package let scenario: Scenario
        /// How many submissions of this payment there were.
        package let number: Int
        /// Which of all submissions in the log this was, from 1.
        let ordinal: Int
        /// Pending no more, where it was pending first.
        var isSettled = false
        /// How often somebody was told that it is pending. Forgotten with a restart: then it stays pending for one more question.
        var questions = 0

        var isSettledByNextQuestion: Bool { status == .pending && questions > 0 }

        package var status: PaymentStatus { scenario == .pendingFirst && !isSettled ? .pending : scenario.status }

        /// `sim-000001`: the same after a restart, for the log has as many submissions before it.
        package var reference: String { "sim-\(Self.digits(ordinal, 6))" }

        /// Six characters as processors' codes have, where the payment succeeded.
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
    /// All submissions, repeated ones counted again.
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

    /// How many of this payment there have been.
    func submissions(of payment: String) -> Int { records[payment]?.number ?? 0 }

    /// Somebody is told what became of it.
    mutating func countQuestion(about payment: String) {
        if records[payment]?.status == .pending { records[payment]?.questions += 1 }
    }

    /// - Returns: false where the line contradicts those before it, so that one of them is missing or was changed.
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
