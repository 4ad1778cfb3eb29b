import DaemonAPI
import Encodings
import Foundation
import Logging
import OutgoingConnections
import PortalRequests
import StrictJSON

/// Fetches requests from paytokend, makes each once, and reports its result.
///
/// The daemon decides everything, and this program keeps nothing: it may end at any time. A request whose result is not
/// reported in time fails in the daemon. Neither a JSON Web Token nor the body of an answer is logged.
struct WorkLoop: Sendable {
    let paytokend: UnixSocketClient
    let appStoreConnect: AppStoreConnect
    let logger: Logger
    /// The pause after a question to which the daemon had no work.
    static let pause = Duration.seconds(1)
    /// The pause after a fault.
    static let pauseAfterFault = Duration.seconds(5)

    /// Runs until the task is cancelled.
    func run() async {
        var lastFault: String?
        while !Task.isCancelled {
            do throws(Fault) {
                let worked = try await step()
                if lastFault != nil { logger.notice("paytokend answers again") }
                lastFault = nil
                if !worked { try? await Task.sleep(for: Self.pause) }
            } catch {
                if lastFault != error.message {
                    logger.warning("no work from paytokend", metadata: ["reason": "\(error.message)"])
                }
                lastFault = error.message
                try? await Task.sleep(for: Self.pauseAfterFault)
            }
        }
    }

    struct Fault: Error {
        let message: String
    }

    /// Reads the daemon's answer to the question for work; nil if there is none.
    ///
    /// An answer that is not understood is a fault. Read as no work, it would stop all reads without a line in the log.
    static func work(in body: [UInt8]) throws(Fault) -> (work: PortalWork, request: PortalRequest)? {
        guard let answer = try? JSONCoding.decode(PortalWorkAnswer.self, from: body) else {
            throw Fault(message: "The daemon's answer is not understood. Is it of this program's version?")
        }
        guard let work = answer.work else { return nil }
        let new = work.certificateType.flatMap(CertificateType.init).flatMap { type in
            work.csr.flatMap { Base64.decode($0) }.flatMap { NewCertificate(type: type, csr: $0) }
        }
        guard let kind = PortalRequest.Kind.allCases.first(where: { $0.name == work.kind }),
            let request = PortalRequest(kind, of: work.name, new: new),
            (new != nil) == (work.certificateType != nil || work.csr != nil)
        else { throw Fault(message: "The daemon hands out a request that this version does not know.") }
        return (work, request)
    }

    /// Fetches one request, makes it and reports its result.
    /// - Returns: false if there was no work.
    private func step() async throws(Fault) -> Bool {
        guard let (work, request) = try Self.work(in: await send("/v1/portal/work", Array("{}".utf8))) else {
            return false
        }
        let deadline = ContinuousClock.now + .seconds(max(0, min(work.deadline.timeIntervalSinceNow, 60)))
        let report: PortalReport
        do throws(HTTPFault) {
            report = try await appStoreConnect.send(request, token: work.jwt, before: deadline)
        } catch {
            report = PortalAnswerReader.report(of: error)
        }
        logger.info(
            "asked Apple",
            metadata: [
                "request": "\(request.kind.name)", "status": "\(report.status.map(String.init) ?? "-")",
                "code": "\(report.code ?? "-")", "fault": "\(report.fault ?? "-")",
            ])
        guard let body = try? JSONCoding.encode(report) else { throw Fault(message: "The report cannot be written.") }
        _ = try await send("/v1/portal/work/\(work.id)", body)
        return true
    }

    /// Sends a request to the daemon, and returns the body of its answer with status 200.
    private func send(_ path: String, _ body: [UInt8]) async throws(Fault) -> [UInt8] {
        let answer: ClientAnswer
        do throws(UnixSocketClientError) {
            answer = try await paytokend.send(.post(path, body: body))
        } catch {
            throw Fault(message: "\(error)")
        }
        guard answer.status == 200 else {
            let refusal = try? JSONCoding.decode(RefusalAnswer.self, from: answer.body)
            throw Fault(message: refusal.map { "\($0.code): \($0.message)" } ?? "status \(answer.status)")
        }
        return answer.body
    }
}
