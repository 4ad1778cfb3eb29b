import AuditChain
import Dispatch
import HTTPListener
import Logging
import Refusals

/// `GET /v1/tokens/{name}/uses`: what a token's own counter or log says, as the configured command prints it. That somebody looked
/// is recorded before the command runs.
struct TokenUseRoutes: Sendable {
    let node: String
    let programs: [String: UseLogProgram]
    let looks: any AuditLooking
    let logger: Logger
    /// One run at a time: a command may cost its HSM a lot.
    private let isRunning = SingleUse()

    init(node: String, hsmTokens: [HSMTokenSettings], looks: any AuditLooking, logger: Logger) {
        self.node = node
        self.looks = looks
        self.logger = logger
        programs = Dictionary(
            hsmTokens.compactMap { settings in settings.useLog.map { (settings.name, $0) } },
            uniquingKeysWith: { first, _ in first })
    }

    static let parameters: Set = ["since", "until"]

    func uses(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.is(.auditTokenUses(since: nil, until: nil))
        let name = request.pathArguments.first ?? ""
        guard let program = programs[name] else {
            throw Refusal(
                .notFound, "No token of this name has a use_log in the configuration.",
                details: programs.isEmpty ? nil : "tokens with one: \(programs.keys.sorted().joined(separator: ", "))")
        }
        request.draft.used(hsmToken: name)
        func time(_ parameter: String) throws(Refusal) -> AuditTime {
            guard let time = request.query[parameter].flatMap(AuditTime.init(rfc3339:)) else {
                throw Refusal(
                    .malformedRequest, "The query says no time from which and to which uses are asked for.",
                    details: "\(parameter) must be RFC 3339, as in 2026-01-31T12:00:00Z")
            }
            return time
        }
        let (since, until) = (try time("since"), try time("until"))
        // It may have been changed since the configuration was read.
        if let objection = UseLogProgram.objection(to: program.path) {
            logger.error("a token's use_log is not run", metadata: ["token": "\(name)", "reason": "it \(objection)"])
            throw Refusal(.hsmUnavailable, "The token's use_log is not run: its program \(objection).")
        }
        guard let lease = isRunning.take() else {
            throw Refusal(.overloaded, "Another look at a token's uses is under way; try again when it is done.")
        }
        try await looks.look(.auditTokenUses(since: since, until: until), by: request)
        let variables = [
            "PAYTOKEND_NODE": node, "PAYTOKEND_TOKEN": name, "PAYTOKEND_SINCE": since.text,
            "PAYTOKEND_UNTIL": until.text,
        ]
        let run: UseLogRun
        do throws(UseLogRun.Failure) {
            run = try UseLogRun(program, variables: variables)
        } catch {
            throw refusal(error, name)
        }
        let (pieces, ending) = AsyncThrowingStream.makeStream(of: [UInt8].self, bufferingPolicy: .bufferingOldest(4))
        let room = DispatchSemaphore(value: 3)
        // Commands block; tasks' threads are not for that.
        DispatchQueue.global().async {
            do {
                try run.read { piece in
                    room.wait()
                    if case .terminated = ending.yield(piece) { throw CancellationError() }
                }
                ending.finish()
            } catch {
                ending.finish(throwing: error)
            }
        }
        return EndpointAnswer(
            http: HTTPAnswer(
                status: 200, headers: [HTTPAnswer.Header(name: "Content-Type", value: "application/jsonl")],
                stream: BodyStream(ended: { _ in room.signal() }) { [logger] writer in
                    defer { withExtendedLifetime(lease) {} }
                    do {
                        for try await piece in pieces {
                            room.signal()
                            try await writer.write(piece)
                        }
                    } catch let failure as UseLogRun.Failure {
                        logger.error(
                            "a token's use_log failed", metadata: ["token": "\(name)", "reason": "\(failure)"])
                        throw failure
                    }
                }))
    }

    private func refusal(_ failure: UseLogRun.Failure, _ token: String) -> Refusal {
        logger.error("a token's use_log failed", metadata: ["token": "\(token)", "reason": "\(failure)"])
        return Refusal(.hsmUnavailable, "The token's use_log gave nothing: \(failure).")
    }
}
