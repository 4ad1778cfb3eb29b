import AuditChain
import FairShares
import HTTPListener
import Logging
import Refusals
import ServerProgram
import UsageRecording
import WorkerSupervision

/// The handler of `GET /v1/tokens/{name}/uses`. It returns the output of the program in `use_log`, which reads the
/// HSM's own counter or log of key uses. The request is recorded before the program runs. If the caller disconnects,
/// the program is killed.
struct TokenUseRoutes: Sendable {
    let node: String
    let programs: [String: UseLogProgram]
    let reads: any AuditReadRecording
    let logger: Logger
    /// Allows one run of a `use_log` program at a time, since a run may keep the HSM busy for long.
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
                .notFound, "No HSM token of this name has a use_log in the configuration.",
                details: programs.isEmpty
                    ? nil : "HSM tokens with one: \(programs.keys.sorted().joined(separator: ", "))")
        }
        request.draft.used(hsmToken: name)
        func time(_ parameter: String) throws(Refusal) -> AuditTime {
            guard let time = request.query[parameter].flatMap(AuditTime.init(rfc3339:)) else {
                throw Refusal(
                    .malformedRequest, "The query must give the times since and until.",
                    details: "\(parameter) must be RFC 3339, as in 2026-01-31T12:00:00Z")
            }
            return time
        }
        let (since, until) = (try time("since"), try time("until"))
        // The program is checked again, since its file may have changed after the configuration was read.
        let executable: TrustedExecutable
        do throws(TrustedExecutable.Objection) {
            executable = try TrustedExecutable(path: program.path)
        } catch {
            logger.error(
                "an HSM token's use_log was not run", metadata: ["token": "\(name)", "reason": "it \(error)"])
            throw Refusal(.hsmUnavailable, "The HSM token's use_log was not run: its program \(error).")
        }
        guard let lease = isRunning.lease() else {
            throw Refusal(
                .overloaded, "Another request for an HSM token's uses is in progress; try again when it is done.")
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
        // The lease lasts until the program has been reaped, so no other run starts before that.
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
                            "an HSM token's use_log failed", metadata: ["token": "\(name)", "reason": "\(failure)"])
                        throw failure
                    }
                }))
    }

    private func refusal(_ failure: UseLogRun.Failure, _ token: String) -> Refusal {
        logger.error("an HSM token's use_log failed", metadata: ["token": "\(token)", "reason": "\(failure)"])
        return Refusal(.hsmUnavailable, "The HSM token's use_log returned nothing: \(failure).")
    }
}
