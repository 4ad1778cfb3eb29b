import AuditChain
import DaemonAPI
import Encodings
import Foundation
import KeyTypes
import Locks
import MerchantKeys
import PaymentToken
import PortalRequests
import Refusals
import UsageRecording

/// One change at Apple, which a renewal has decided and recorded as an attempt.
struct PortalWrite: Sendable, Equatable {
    let attempt: RenewalAttemptId
    /// The approval that the attempt used; nil if it needed none.
    let approval: ApprovalIdentifier?
    /// The merchant identifier as the ledger has it.
    let merchant: String
    let use: KeyUse
    let request: PortalRequest
    /// The key of the certificate that is created, activated or revoked.
    let publicKeyHash: PublicKeyHash

    /// Returns nil for a request that the daemon never makes: a read in this place, a certificate of another use, a
    /// certificate request of another key, and the activation of an identity certificate.
    init?(
        attempt: RenewalAttemptId, approval: ApprovalIdentifier?, merchant: String, use: KeyUse, request: PortalRequest,
        publicKeyHash: PublicKeyHash
    ) {
        switch request {
        case .findMerchant, .listCertificates: return nil
        case .createCertificate(let new, _):
            guard new.type.use == use, CertificateRequest.publicKeyHash(in: new.csr) == publicKeyHash else {
                return nil
            }
        case .activateCertificate: guard use == .processing else { return nil }
        case .revokeCertificate: guard use.hasCertificate else { return nil }
        }
        self.attempt = attempt
        self.approval = approval
        self.merchant = merchant
        self.use = use
        self.request = request
        self.publicKeyHash = publicKeyHash
    }

    /// Checks the ledger's record of the key, as ``check(in:)`` does with the index.
    func check(_ known: KeyRecord?) throws(Refusal) {
        guard request.kind != .revokeCertificate else { return }
        guard let known, known.state == .preActivation || known.state == .active else {
            throw Refusal(
                .invalidState,
                "Nothing is requested from Apple for this key, which is \(known?.state.rawValue ?? "not in the ledger")."
            )
        }
    }

    /// Checks that the key may have a certificate created or activated. The certificate of any key may be revoked.
    ///
    /// - Throws: key_not_active if the ledger does not know the key; invalid_state for any other reason.
    func check(in keys: KeyIndex) throws(Refusal) {
        guard request.kind != .revokeCertificate else { return }
        guard let key = keys.entry(publicKeyHash), key.condition != .external else {
            throw Refusal(.keyNotActive, "The ledger does not know the key of the certificate.")
        }
        do {
            try key.checkNewCertificate(request.new?.type, of: merchant)
        } catch {
            throw Refusal(.invalidState, "Nothing is requested from Apple for this key. \(error.text)")
        }
    }
}

/// The result of a change at Apple.
enum PortalWriteResult: Sendable, Equatable {
    /// Apple has made the change.
    ///
    /// - Parameters:
    ///   - certificate: the id of the certificate that was created, activated or revoked.
    ///   - content: a created certificate in DER. Its key is the write's; Apple's signature was not verified.
    ///   - isActivated: Apple's `activated`; nil if Apple does not say, and after a revocation.
    case accepted(certificate: CertificateId, content: [UInt8]?, isActivated: Bool?)
    /// Apple has refused the change, with this status and the code of its first error.
    case refused(status: Int, code: String?)
    /// Nothing was sent to Apple, for this reason.
    case notSent(String)
    /// Apple may have made the change. Only reads may follow, and a certificate that is missing from a list proves
    /// nothing.
    case unknown(String)
}

/// The changes at Apple that wait for the outbound program.
///
/// Each is handed out at most once, and there is at most one for each merchant and use. Everything is in this process's
/// memory: after a restart the queue is empty, and the result of an attempt that was in it is unknown. Times are measured
/// with a clock that no person can set.
final class PortalWrites: Sendable {
    /// The time for which a write waits for the outbound program. The list on which it was decided is then old.
    static let waitingTime = Duration.seconds(60)

    typealias ResultHandler = @Sendable (PortalWriteResult) async -> Void

    private struct Entry: Sendable {
        let write: PortalWrite
        /// The time until which the entry waits for the outbound program, and once it was handed out, for its result.
        var until: ContinuousClock.Instant
        /// The name under which the result is reported; nil until the write is handed out.
        var workId: String?
        let onResult: ResultHandler
    }

    private struct State {
        var entries: [Entry] = []
        /// All attempts that were ever queued. People approve each, so they are few.
        var attempts: Set<RenewalAttemptId> = []

        mutating func remove(where matches: (Entry) -> Bool) -> [Entry] {
            let removed = entries.filter(matches)
            entries.removeAll(where: matches)
            return removed
        }
    }

    private let state = Mutex(State())
    private let clock: WallClock
    private let now: @Sendable () -> ContinuousClock.Instant

    /// - Parameter clock: for the deadlines of JSON Web Tokens.
    init(clock: WallClock = .system, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        (self.clock, self.now) = (clock, now)
    }

    /// Queues a write for the outbound program.
    ///
    /// - Parameter onResult: receives the result, once, at the latest 150 seconds after this call.
    /// - Returns: false, without any effect, if the attempt was queued before, or if another write of the same merchant
    ///   and use has no result yet.
    func enqueue(_ write: PortalWrite, onResult: @escaping ResultHandler) -> Bool {
        let until = now() + Self.waitingTime
        let isQueued = state.withLock { state in
            let isAlone = state.entries.allSatisfy {
                $0.write.use != write.use || !MerchantIdentifier.areSame($0.write.merchant, write.merchant)
            }
            guard isAlone, state.attempts.insert(write.attempt).inserted else { return false }
            state.entries.append(Entry(write: write, until: until, onResult: onResult))
            return true
        }
        if isQueued { expire(at: until) }
        return isQueued
    }

    /// Takes the write that has waited longest. The outbound program must report its result.
    ///
    /// The call does not wait for the storing of other results, during which its own JSON Web Token would grow old.
    func next() -> OutboundWork? {
        expireLater()
        let until = now() + OutboundWork.time
        let work = state.withLock { state -> OutboundWork? in
            // A write whose time has just ended is left for the next expiry.
            guard let index = state.entries.firstIndex(where: { $0.workId == nil && now() < $0.until }) else {
                return nil
            }
            let work = OutboundWork(.write(state.entries[index].write), clock)
            (state.entries[index].workId, state.entries[index].until) = (work.id, until)
            return work
        }
        if work != nil { expire(at: until) }
        return work
    }

    /// Ends a write whose JSON Web Token was not signed.
    func fail(_ work: OutboundWork, _ reason: String) async {
        for entry in state.withLock({ $0.remove { $0.workId == work.id } }) { await entry.onResult(.notSent(reason)) }
    }

    /// Takes the result of a write, and waits until it is stored.
    /// - Returns: false if no write of that name waits for its result, or its time is over.
    func take(_ report: PortalReport, of id: String) async -> Bool {
        let now = now()
        let entry = state.withLock { $0.remove { $0.workId == id && now < $0.until } }.first
        expireLater()
        guard let entry else { return false }
        await entry.onResult(PortalWriteResult(report, of: entry.write))
        return true
    }

    /// Ends the writes whose time is over.
    func expire() async {
        let now = now()
        for entry in state.withLock({ $0.remove { $0.until <= now } }) {
            await entry.onResult(
                entry.workId == nil
                    ? .notSent("The outbound program did not fetch the request.")
                    : .unknown("The outbound program did not report the result of the request."))
        }
    }

    private func expireLater() { Task { await expire() } }

    private func expire(at time: ContinuousClock.Instant) {
        Task { [weak self] in
            try? await Task.sleep(until: time, clock: .continuous)
            await self?.expire()
        }
    }
}

extension PortalWriteResult {
    /// The statuses with which Apple refuses a request. Every other status leaves open if the request had an effect.
    private static let refusals: Set = [400, 401, 403, 404, 405, 406, 409, 410, 415, 422, 429]

    init(_ report: PortalReport, of write: PortalWrite) {
        guard let status = report.status else {
            let fault = report.fault ?? "unknown"
            self = report.isUnsent ? .notSent(fault) : .unknown(fault)
            return
        }
        guard !Self.refusals.contains(status) else {
            self = .refused(status: status, code: report.code)
            return
        }
        self =
            Self.confirmation(in: report, status, of: write)
            ?? .unknown("Apple answered \(status), and not as its specification says.")
    }

    /// Returns the result if the answer is that of the specification.
    private static func confirmation(
        in report: PortalReport, _ status: Int, of write: PortalWrite
    ) -> PortalWriteResult? {
        let certificate = report.certificates?.count == 1 ? report.certificates?.first : nil
        let id = certificate.flatMap { CertificateId($0.id) }
        switch (write.request, status, certificate, id) {
        case (.createCertificate(let new, _), 201, let certificate?, let id?):
            guard let content = Base64.decode(certificate.content), certificate.type == new.type.rawValue,
                (try? MerchantCertificate(der: content))?.publicKeyHash == write.publicKeyHash
            else { return .unknown("Apple's answer has a certificate of another key or type.") }
            return .accepted(certificate: id, content: content, isActivated: certificate.activated)
        case (.activateCertificate(let requested), 200, let certificate?, let id?) where id == requested:
            return .accepted(certificate: requested, content: nil, isActivated: certificate.activated)
        case (.revokeCertificate(let requested), 204, _, _):
            return .accepted(certificate: requested, content: nil, isActivated: nil)
        default: return nil
        }
    }
}
