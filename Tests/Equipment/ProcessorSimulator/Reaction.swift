import NIOHTTP1

struct SimulatorRequest: Sendable {
    var head: HTTPRequestHead
    var body: [UInt8] = []
    /// The maximum size of a body in bytes. The simulator answers a larger one with 413.
    static let maximumBodyBytes = 64 * 1024
}

/// The connection's next action after a request has been handled.
enum Reaction: Sendable {
    /// Sends these answers, one after the other.
    case answer([SimulatorAnswer])
    /// Sends these bytes, which are only the beginning of an answer, and closes the connection.
    case cut(after: [UInt8])
    /// Sends nothing, and keeps the connection open.
    case silence
    /// Waits for the delay of late answers, records the answer to this submission in the log, and sends it.
    case late(PaymentRecords.Record)
}

/// Handles requests by their method and path.
struct RequestRoutes: Sendable {
    let log: SubmissionLog

    /// Handles a request, and passes the connection's next action to `then`.
    ///
    /// - Parameter then: called once, on any thread.
    func react(to request: SimulatorRequest, then: @escaping @Sendable (Reaction) -> Void) {
        let path = request.head.uri
        let asked = "/authorizations/"
        switch (request.head.method, path) {
        case (.POST, "/authorizations"): submit(request.body, then: then)
        case (.GET, "/healthz"): then(.answer([.healthy]))
        case (.GET, _) where path.hasPrefix(asked): status(of: String(path.dropFirst(asked.count)), then: then)
        default:
            let isKnown = path == "/authorizations" || path == "/healthz" || path.hasPrefix(asked)
            var answer = isKnown ? SimulatorAnswer.methodNotAllowed : .notFound
            answer.omitsBody = request.head.method == .HEAD
            then(.answer([answer]))
        }
    }

    private func submit(_ body: [UInt8], then: @escaping @Sendable (Reaction) -> Void) {
        let submission: Submission
        do throws(MalformedSubmission) {
            submission = try Submission(body: body)
        } catch {
            return then(.answer([.problem(400, "malformed_request", error.message)]))
        }
        guard submission.scenario != .cutBeforeRecord else { return then(.cut(after: [])) }
        log.submit(submission) { result in
            switch result {
            case .success(let record): then(Reaction(to: record))
            case .failure: then(.answer([.unavailable]))
            }
        }
    }

    private func status(of payment: String, then: @escaping @Sendable (Reaction) -> Void) {
        guard Submission.isPayment(payment) else { return then(.answer([.notFound])) }
        log.status(of: payment) { result in
            switch result {
            case .success(let record?): then(.answer([.status(of: record)]))
            case .success(nil): then(.answer([.notFound]))
            case .failure: then(.answer([.unavailable]))
            }
        }
    }
}

extension Reaction {
    /// The reaction to a recorded submission.
    init(to record: PaymentRecords.Record) {
        let answer = SimulatorAnswer.status(of: record)
        self =
            switch record.scenario {
            case .authorized, .captured, .insufficientFunds, .doNotHonor, .error, .pendingFirst: .answer([answer])
            case .noAnswer: .silence
            case .cutBeforeRecord, .cutWithoutAnswer: .cut(after: [])
            // The cut is in the middle of the body, after the head that states its length.
            case .cutInAnswer: .cut(after: answer.bytes.dropLast(answer.body.count / 2))
            case .late: .late(record)
            case .answeredTwice: .answer([answer, answer])
            case .notJSON: .answer([SimulatorAnswer(status: 200, body: Array("<html>authorized</html>".utf8))])
            case .status500:
                .answer([.problem(500, "internal_error", "What a processor says when it failed while it processed.")])
            case .otherPayment: .answer([.status(of: record, payment: Self.otherPayment(than: record.payment))])
            }
    }

    /// Returns another payment's name: each hexadecimal digit d is replaced by 15 − d, so every digit differs.
    private static func otherPayment(than payment: String) -> String {
        String(payment.map { digit in String(15 - (digit.hexDigitValue ?? 0), radix: 16) }.joined())
    }
}
