import AuditChain
import FairShares
import HTTPListener
import Logging
import Refusals
import ServerProgram
import WorkerSupervision

/// `GET /v1/tokens/{name}/uses`: what a token's own counter or log says, as the configured command prints it. The look is recorded
/// before the command runs. A caller that leaves ends the command.
struct TokenUseRoutes: Sendable {
    let node: String
    let programs: [String: UseLogProgram]
    let reads: any AuditReadRecording
    let logger: Logger
    /// One run at a time: a command may cost its HSM a lot.
    private let isRunning = AsyncLock()

    init(node: String, hsmTokens: [HSMTokenSettings], reads: any AuditReadRecording, logger: Logger) {
        self.node = node
        self.reads = reads
        self.logger = logger
        programs = Dictionary(
            hsmTokens.compactMap { settings in settings.useLog.map { (settings.name, $0) } },
            uniquingKeysWith: { first, _ in first })
    }

    static let parameters: Set = ["since", "until"]

    func uses(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.auditTokenUses(since: nil, until: nil))
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
        let executable: TrustedExecutable
        do throws(TrustedExecutable.Objection) {
            executable = try TrustedExecutable(path: program.path)
        } catch {
            logger.error("a token's use_log is not run", metadata: ["token": "\(name)", "reason": "it \(error)"])
            throw Refusal(.hsmUnavailable, "The token's use_log is not run: its program \(error).")
        }
        guard let lease = isRunning.lease() else {
            throw Refusal(.overloaded, "Another look at a token's uses is under way; try again when it is done.")
        }
        try await reads.recordRead(.auditTokenUses(since: since, until: until), by: request)
        let variables = [
            "PAYTOKEND_NODE": node, "PAYTOKEND_TOKEN": name, "PAYTOKEND_SINCE": since.text,
            "PAYTOKEND_UNTIL": until.text,
        ]
        let run: UseLogRun
        do throws(UseLogRun.Failure) {
            run = try UseLogRun(program, executable, variables: variables)
        } catch {
            throw refusal(error, name)
        }
        // Until the command is reaped no other runs.
        let pieces = run.pieces(keeping: lease)
        return EndpointAnswer(
            http: HTTPAnswer(
                status: 200, headers: [HTTPAnswer.Header(name: "Content-Type", value: "application/jsonl")],
                stream: BodyStream(ended: { _ in run.stop() }) { [logger] writer in
                    do {
                        for try await piece in pieces {
                            run.took()
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
