import DaemonAPI
import Encodings
import Foundation
import Locks
import MerchantKeys
import PaymentToken
import PortalRequests
import Refusals
import UsageRecording

/// The reads of Apple's lists that people have requested, and their results.
///
/// The daemon dials nothing. The outbound program fetches the next request here, makes it once, and reports the result.
/// Everything is in this process's memory: a read is requested again after a restart. Ages and pauses are measured with
/// a clock that no person can set, since an old list must not look fresh.
final class PortalReads: Sendable {
    /// The time after a finished read during which a further request gets the same result. Apple permits some thousand
    /// requests an hour for one key.
    static let pause = Duration.seconds(60)
    /// The same after a failed read, whose cause a person may have removed.
    static let pauseAfterFailure = Duration.seconds(5)
    /// The largest number of merchants whose reads are kept. Beyond it, the read that was requested first is dropped.
    private static let capacity = 10_000

    /// A read's progress.
    enum Phase: Sendable {
        case findingMerchant
        case listingCertificates(merchantResource: ResourceId)
        case done(PortalList)
        /// The read failed for this reason.
        case failed(String)
    }

    /// One merchant's read.
    struct Read: Sendable {
        /// The time of the request, for people.
        let requestedAt: Date
        /// The same by the clock that no person can set. All requests to Apple follow it.
        let began: ContinuousClock.Instant
        fileprivate(set) var phase = Phase.findingMerchant
        /// The time at which the read ended; nil while it is open.
        fileprivate var ended: ContinuousClock.Instant?
        /// The request that the outbound program has now.
        fileprivate var work: (id: String, until: ContinuousClock.Instant, scope: TokenScope)?

        fileprivate var isFailed: Bool { if case .failed = phase { true } else { false } }
    }

    /// The last list of a merchant.
    fileprivate struct LastList: Sendable {
        let list: PortalList
        let read: ContinuousClock.Instant
        var comparison: Comparison?
    }

    /// The parts of a comparison that change without a new list.
    struct Circumstances: Sendable, Equatable {
        /// The generation of the keys' index.
        let keys: Int
        /// True if this node has a rule that gives `decrypt`.
        let servesPayments: Bool
    }

    /// The findings in a list, as they were in these circumstances.
    fileprivate struct Comparison: Sendable {
        let findings: [PortalFinding]
        let circumstances: Circumstances
        let made: ContinuousClock.Instant
    }

    fileprivate struct State {
        var reads: [PortalName: Read] = [:]
        /// The last list of each merchant. A later read that fails does not remove it.
        var lists: [PortalName: LastList] = [:]
        /// The sum of the lists' sizes in bytes.
        var byteCount = 0
        /// The form of the scope that the API has accepted, or that is tried now.
        var scope = TokenScope.versioned
        /// The time from which each merchant ought to be read, by merchant identifier.
        var expected: [String: ContinuousClock.Instant] = [:]
        /// The keys whose certificates keep their content in lists.
        var renewedKeys: Set<PublicKeyHash> = []
    }

    private let state = Mutex(State())
    private let now: @Sendable () -> ContinuousClock.Instant
    private let clock: WallClock
    private let maximumBytes: Int

    /// - Parameters:
    ///   - clock: for the times that people read, and the deadlines of JSON Web Tokens.
    ///   - maximumBytes: the largest sum of the lists' sizes. A list beyond it is not kept, and its read fails.
    init(
        clock: WallClock = .system, maximumBytes: Int = 64 << 20,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        (self.clock, self.maximumBytes, self.now) = (clock, maximumBytes, now)
    }

    /// Requests a read, unless one is under way or has just ended.
    /// - Returns: the merchant's read.
    func request(_ merchant: PortalName) -> Read {
        request(merchant) { $0 >= ($1 ? Self.pauseAfterFailure : Self.pause) }
    }

    /// - Parameter mayRepeat: returns true if an ended read may be repeated. Its parameters are the time since the end,
    ///   and true if the read failed.
    private func request(_ merchant: PortalName, _ mayRepeat: (Duration, Bool) -> Bool) -> Read {
        let now = now()
        return state.withLock { state in
            if let read = state.reads[merchant] {
                guard let ended = read.ended, mayRepeat(ended.duration(to: now), read.isFailed) else { return read }
            } else if state.reads.count >= Self.capacity,
                let first = state.reads.min(by: { $0.value.began < $1.value.began })
            {
                state.reads[first.key] = nil
                state.keep(nil, of: first.key)
            }
            let read = Read(requestedAt: clock.now(), began: now)
            state.reads[merchant] = read
            return read
        }
    }

    /// Requests a read for a renewal, unless one is under way or began less than `pause` ago.
    ///
    /// - Parameter pause: the shortest time between the beginnings of two such reads.
    func request(_ merchant: PortalName, atMostEvery pause: Duration) {
        let now = now()
        if let read = read(of: merchant), read.began.duration(to: now) < pause { return }
        _ = request(merchant) { !$1 || $0 >= Self.pauseAfterFailure }
    }

    /// Has the lists that are read from now on keep the content of certificates of this key.
    func keepContent(of key: PublicKeyHash) { state.withLock { _ = $0.renewedKeys.insert(key) } }

    /// Returns the time in seconds since a read began, by the clock that no person can set.
    func age(of read: Read) -> TimeInterval { read.began.duration(to: now()) / .seconds(1) }

    func read(of merchant: PortalName) -> Read? { state.withLock { $0.reads[merchant] } }

    /// Takes the next request: that of the oldest open read. The outbound program must report its result.
    func next() -> OutboundWork? {
        let now = now()
        return state.withLock { state in
            for (merchant, read) in state.reads {
                guard let work = read.work, work.until <= now else { continue }
                state.end(merchant, .failed("The outbound program did not report the result of a request."), now)
            }
            let waiting = state.reads.filter { $0.value.ended == nil && $0.value.work == nil }
            guard let (merchant, read) = waiting.min(by: { $0.value.began < $1.value.began }) else {
                return nil
            }
            let request: PortalRequest
            switch read.phase {
            case .findingMerchant: request = .findMerchant(identifier: merchant)
            case .listingCertificates(let resource): request = .listCertificates(merchantResource: resource)
            case .done, .failed: return nil
            }
            let work = OutboundWork(.read(request, of: merchant, scope: state.scope), clock)
            state.reads[merchant]?.work = (work.id, now + OutboundWork.time, state.scope)
            return work
        }
    }

    /// Ends a read whose request could not be made.
    func fail(_ work: OutboundWork, _ reason: String) {
        let now = now()
        state.withLock { state in
            guard let merchant = state.merchant(of: work.id) else { return }
            state.end(merchant, .failed(reason), now)
        }
    }

    /// Takes the result of a request.
    /// - Throws: not_found if the request is unknown or its time is over.
    func take(_ report: PortalReport, of id: String) throws(Refusal) {
        let (now, time) = (now(), clock.now())
        let isKnown = state.withLock { state in
            guard let merchant = state.merchant(of: id), let read = state.reads[merchant], let work = read.work,
                now < work.until
            else { return false }
            switch state.phase(after: report, merchant, read.phase, work.scope, time) {
            case .done(let list) where !state.fits(list, of: merchant, in: maximumBytes):
                state.end(
                    merchant,
                    .failed("Apple's lists need more memory than the daemon permits; restart it to forget old ones."),
                    now)
            case .done(let list):
                state.keep(LastList(list: list, read: now, comparison: nil), of: merchant)
                state.end(merchant, .done(list), now)
            case let phase: state.end(merchant, phase, now)
            }
            return true
        }
        guard isKnown else { throw Refusal(.notFound, "No request of that name waits for its result.") }
    }

    // MARK: Comparisons and ages

    /// The time for which a comparison is used again although nothing has changed. Meanwhile certificates end, and keys
    /// reach their cut-off.
    static let comparisonTime = Duration.seconds(3600)

    /// Returns the findings in the merchant's last list; nil if there is no list. A list is compared once, and again
    /// after the circumstances have changed, or after an hour.
    func findings(
        of merchant: PortalName, in circumstances: Circumstances, by compare: (PortalList) -> [PortalFinding]
    ) -> [PortalFinding]? {
        let now = now()
        guard let last = state.withLock({ $0.lists[merchant] }) else { return nil }
        if let known = last.comparison, known.circumstances == circumstances,
            known.made.duration(to: now) < Self.comparisonTime
        {
            return known.findings
        }
        let findings = compare(last.list)
        state.withLock { state in
            guard state.lists[merchant]?.read == last.read else { return }
            state.lists[merchant]?.comparison = Comparison(findings: findings, circumstances: circumstances, made: now)
        }
        return findings
    }

    /// Returns the time since the list of each merchant was read. For one without a list, it is the time since this
    /// method first received the merchant.
    ///
    /// - Parameter merchants: the identifiers of all merchants that ought to be read.
    func ages(of merchants: Set<String>) -> [String: Duration] {
        let now = now()
        return state.withLock { state in
            state.expected = state.expected.filter { merchants.contains($0.key) }
            return Dictionary(
                uniqueKeysWithValues: merchants.map { merchant in
                    let first = state.expected[merchant] ?? now
                    state.expected[merchant] = first
                    let read = PortalName(merchant).flatMap { state.lists[$0]?.read }
                    return (merchant, (read ?? first).duration(to: now))
                })
        }
    }
}

extension PortalReads.State {
    fileprivate func merchant(of id: String) -> PortalName? { reads.first { $0.value.work?.id == id }?.key }

    /// Ends the work of a read. In the phases `done` and `failed` the read has ended too.
    fileprivate mutating func end(
        _ merchant: PortalName, _ phase: PortalReads.Phase, _ now: ContinuousClock.Instant
    ) {
        reads[merchant]?.work = nil
        reads[merchant]?.phase = phase
        switch phase {
        case .findingMerchant, .listingCertificates: break
        case .done, .failed: reads[merchant]?.ended = now
        }
    }

    fileprivate func fits(_ list: PortalList, of merchant: PortalName, in maximum: Int) -> Bool {
        byteCount - (lists[merchant]?.list.byteCount ?? 0) + list.byteCount <= maximum
    }

    /// Replaces the merchant's last list; nil removes it.
    fileprivate mutating func keep(_ list: PortalReads.LastList?, of merchant: PortalName) {
        byteCount += (list?.list.byteCount ?? 0) - (lists[merchant]?.list.byteCount ?? 0)
        lists[merchant] = list
    }

    /// Returns the phase of a read after the result of its request.
    ///
    /// - Parameters:
    ///   - phase: the phase before.
    ///   - used: the form of the scope that the request had.
    ///   - time: the time of the list, for people.
    fileprivate mutating func phase(
        after report: PortalReport, _ merchant: PortalName, _ phase: PortalReads.Phase, _ used: TokenScope, _ time: Date
    ) -> PortalReads.Phase {
        guard let status = report.status else {
            return .failed("Apple's API was not reached: \(report.fault ?? "unknown").")
        }
        let code = report.code.map { " \($0)" } ?? ""
        switch (status, phase) {
        case (200, .findingMerchant): return Self.phaseAfterFinding(merchant, in: report.merchants ?? [], time)
        case (200, .listingCertificates(let resource)):
            let entries = (report.certificates ?? []).map { found in
                let content = Base64.decode(found.content) ?? []
                var entry = PortalList.Entry(
                    identifier: found.id, type: found.type, isActivated: found.activated, of: merchant.text,
                    content: content)
                if let key = entry.publicKeyHash, renewedKeys.contains(key) { entry.content = content }
                return entry
            }
            return .done(PortalList(appleId: resource.text, entries: entries, readAt: time))
        // The API refuses a scope that it does not understand, and its form is not documented. Another form is tried,
        // unless the code names another cause.
        case (401, _), (403, _):
            guard report.code?.hasPrefix("FORBIDDEN.REQUIRED_") != true, let next = used.next else {
                scope = .versioned
                return .failed("Apple refused the API key: \(status)\(code).")
            }
            if scope == used { scope = next }
            return phase
        case (429, _): return .failed("The API key's hourly limit at Apple is used up; try again later.")
        default: return .failed("Apple answered \(status)\(code).")
        }
    }

    /// Returns the phase after the search. The list is read only for the merchant that was asked for, and only under an
    /// id of the documented form, since the id becomes a part of the next request.
    private static func phaseAfterFinding(
        _ merchant: PortalName, in found: [PortalReport.Merchant], _ time: Date
    ) -> PortalReads.Phase {
        let same = found.filter { MerchantIdentifier.areSame($0.identifier, merchant.text) }
        guard let first = same.first else { return .done(PortalList(appleId: nil, entries: [], readAt: time)) }
        guard same.count == 1, let resource = ResourceId(first.id) else {
            return .failed(
                "Apple's answer names the merchant identifier more than once, or with an id that is not 10 capital letters "
                    + "and digits.")
        }
        return .listingCertificates(merchantResource: resource)
    }
}
