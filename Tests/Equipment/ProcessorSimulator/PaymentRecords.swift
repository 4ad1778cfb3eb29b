/// The state of all payments, derived by applying the log's lines in order.
package struct PaymentRecords: Sendable {
    /// The state of a payment's last submission.
    package struct Record: Sendable, Equatable {
        package let payment: String
        package let scenario: Scenario
        /// The number of submissions of this payment.
        package let number: Int
        /// The position of the last submission among all submissions in the log, counted from 1.
        let ordinal: Int
        /// True once a pending payment is authorized.
        var isSettled = false
        /// The number of status requests that were answered with pending. A restart resets it, so the payment then
        /// stays pending for one more request.
        var questions = 0

        var isSettledByNextQuestion: Bool { status == .pending && questions > 0 }

        package var status: PaymentStatus { scenario == .pendingFirst && !isSettled ? .pending : scenario.status }

        /// The processor's reference, such as `sim-000001`. A restart does not change it, because it is made of
        /// ``ordinal``.
        package var reference: String { "sim-\(Self.digits(ordinal, 6))" }

        /// The authorization code, six characters as real processors use, or nil if the payment did not succeed.
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
    /// The number of submissions, including repeated ones of a payment.
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

    /// Counts a status request that was answered.
    mutating func countStatusRequest(about payment: String) {
        if records[payment]?.status == .pending { records[payment]?.questions += 1 }
    }

    /// Changes the records as the next line of the log states.
    ///
    /// - Returns: false if the line contradicts earlier ones, which means that a line is missing or changed.
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
