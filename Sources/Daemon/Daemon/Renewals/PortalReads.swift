import DaemonAPI
import Encodings
import Foundation
import Locks
import MerchantKeys
import PortalRequests
import Refusals

/// The reads of Apple's lists that people have requested, and their results.
///
/// The daemon dials nothing. The outbound program fetches the next request here, makes it once, and reports the result.
/// Everything is in this process's memory: a read is requested again after a restart.
final class PortalReads: Sendable {
    /// The time for which the outbound program has a request: as long as its JSON Web Token is valid.
    static let workTime: TimeInterval = 90
    /// The time after a finished read during which a further request gets the same result. Apple permits some thousand
    /// requests an hour for one key.
    static let pause: TimeInterval = 60
    /// The same after a failed read, whose cause a person may have removed.
    static let pauseAfterFailure: TimeInterval = 5
    /// The largest number of merchants whose reads are kept. Beyond it, the read that was requested first is dropped.
    private static let capacity = 10_000

    /// A read's progress.
    enum Phase: Sendable {
        case findingMerchant
        case listingCertificates(merchantResource: PortalName)
        case done(PortalList)
        /// The read failed, for this reason, at this time.
        case failed(String, at: Date)
    }

    /// One merchant's read.
    struct Read: Sendable {
        let requestedAt: Date
        fileprivate(set) var phase = Phase.findingMerchant
        /// The request that the outbound program has now.
        fileprivate var work: (id: String, until: Date, scope: TokenScope)?

        var isOpen: Bool {
            switch phase {
            case .findingMerchant, .listingCertificates: true
            case .done, .failed: false
            }
        }

        /// The time at which the read ended, and the pause until another; nil while it is open.
        fileprivate var end: (Date, pause: TimeInterval)? {
            switch phase {
            case .done(let list): (list.readAt, PortalReads.pause)
            case .failed(_, let time): (time, PortalReads.pauseAfterFailure)
            case .findingMerchant, .listingCertificates: nil
            }
        }
    }

    /// A request for the outbound program.
    struct Work: Sendable {
        let id: String
        let merchant: String
        let request: PortalRequest
        let scope: TokenScope
        let deadline: Date
    }

    fileprivate struct State {
        var reads: [PortalName: Read] = [:]
        /// The last list of each merchant. A later read that fails does not remove it.
        var lists: [PortalName: PortalList] = [:]
        /// The form of the scope that the API has accepted, or that is tried now.
        var scope = TokenScope.versionedWithQuery
    }

    private let state = Mutex(State())

    /// Requests a read, unless one is under way or has just ended.
    /// - Returns: the merchant's read.
    func request(_ merchant: PortalName, now: Date) -> Read {
        state.withLock { state in
            if let read = state.reads[merchant] {
                guard let (ended, pause) = read.end, now.timeIntervalSince(ended) >= pause else { return read }
            } else if state.reads.count >= Self.capacity,
                let first = state.reads.min(by: { $0.value.requestedAt < $1.value.requestedAt })
            {
                state.reads[first.key] = nil
                state.lists[first.key] = nil
            }
            let read = Read(requestedAt: now)
            state.reads[merchant] = read
            return read
        }
    }

    func read(of merchant: PortalName) -> Read? { state.withLock { $0.reads[merchant] } }

    /// The last list of each merchant since the process started.
    var lists: [PortalName: PortalList] { state.withLock { $0.lists } }

    /// Takes the next request: that of the oldest open read. The outbound program must report its result.
    func next(now: Date) -> Work? {
        state.withLock { state in
            for (merchant, read) in state.reads {
                guard let work = read.work, work.until <= now else { continue }
                state.reads[merchant]?.work = nil
                state.reads[merchant]?.phase = .failed(
                    "The outbound program did not report the result of a request.", at: now)
            }
            let waiting = state.reads.filter { $0.value.isOpen && $0.value.work == nil }
            guard let (merchant, read) = waiting.min(by: { $0.value.requestedAt < $1.value.requestedAt }) else {
                return nil
            }
            let request: PortalRequest
            switch read.phase {
            case .findingMerchant: request = .findMerchant(identifier: merchant)
            case .listingCertificates(let resource): request = .listCertificates(merchantResource: resource)
            case .done, .failed: return nil
            }
            let work = Work(
                id: Hexadecimal.encode((0..<8).map { _ in UInt8.random(in: .min ... .max) }), merchant: merchant.text,
                request: request, scope: state.scope, deadline: now.addingTimeInterval(Self.workTime))
            state.reads[merchant]?.work = (work.id, work.deadline, work.scope)
            return work
        }
    }

    /// Ends a read whose request could not be made.
    func fail(_ work: Work, _ reason: String, now: Date) {
        state.withLock { state in
            guard let merchant = state.merchant(of: work.id) else { return }
            state.end(merchant, .failed(reason, at: now))
        }
    }

    /// Takes the result of a request.
    /// - Throws: not_found if the request is unknown or its time is over.
    func take(_ report: PortalReport, of id: String, now: Date) throws(Refusal) {
        let isKnown = state.withLock { state in
            guard let merchant = state.merchant(of: id), let read = state.reads[merchant], let work = read.work,
                now < work.until
            else { return false }
            state.take(report, merchant, read.phase, work.scope, now)
            return true
        }
        guard isKnown else { throw Refusal(.notFound, "No request of that name waits for its result.") }
    }
}

extension PortalReads.State {
    fileprivate func merchant(of id: String) -> PortalName? { reads.first { $0.value.work?.id == id }?.key }

    fileprivate mutating func end(_ merchant: PortalName, _ phase: PortalReads.Phase) {
        reads[merchant]?.work = nil
        reads[merchant]?.phase = phase
        if case .done(let list) = phase { lists[merchant] = list }
    }

    fileprivate mutating func take(
        _ report: PortalReport, _ merchant: PortalName, _ phase: PortalReads.Phase, _ used: TokenScope, _ now: Date
    ) {
        func failed(_ reason: String) -> PortalReads.Phase { .failed(reason, at: now) }
        guard let status = report.status else {
            return end(merchant, failed("Apple's API was not reached: \(report.fault ?? "unknown")."))
        }
        let code = report.code.map { " \($0)" } ?? ""
        switch (status, phase) {
        case (200, .findingMerchant):
            end(merchant, Self.afterFinding(merchant, in: report.merchants ?? [], now))
        case (200, .listingCertificates(let resource)):
            let entries = (report.certificates ?? []).map { found in
                PortalList.Entry(
                    identifier: found.id, type: found.type, isActivated: found.activated,
                    content: Base64.decode(found.content) ?? [])
            }
            end(merchant, .done(PortalList(appleId: resource.text, entries: entries, readAt: now)))
        // The API refuses a scope that it does not understand, and its form is not documented. Another form is tried,
        // unless the code names another cause.
        case (401, _), (403, _):
            guard report.code?.hasPrefix("FORBIDDEN.REQUIRED_") != true, let next = used.next else {
                scope = .versionedWithQuery
                return end(merchant, failed("Apple refused the API key: \(status)\(code)."))
            }
            if scope == used { scope = next }
            end(merchant, phase)
        case (429, _): end(merchant, failed("The API key's hourly limit at Apple is used up; try again later."))
        default: end(merchant, failed("Apple answered \(status)\(code)."))
        }
    }

    /// Returns the phase after the search. Apple does not document if it shows identifiers with `merchant.`, so both
    /// forms are accepted.
    private static func afterFinding(
        _ merchant: PortalName, in found: [PortalReport.Merchant], _ now: Date
    ) -> PortalReads.Phase {
        let same = found.filter { $0.identifier == merchant.text || "merchant." + $0.identifier == merchant.text }
        guard let first = same.first else { return .done(PortalList(appleId: nil, entries: [], readAt: now)) }
        guard same.count == 1, let resource = PortalName(first.id) else {
            return .failed("Apple's list of merchant identifiers is not readable.", at: now)
        }
        return .listingCertificates(merchantResource: resource)
    }
}
