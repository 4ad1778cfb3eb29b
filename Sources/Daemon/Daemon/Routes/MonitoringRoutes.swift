import AuditChain
import DaemonAPI
import Encodings
import Foundation
import HTTPListener
import HostSystem
import Ledger
import MerchantKeys
import PaymentToken
import ProductVersion
import Refusals
import ServerProgram
import Telemetry
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// The handlers of `GET /healthz`, `/readyz`, `/metrics` and `/v1/status`.
struct MonitoringRoutes: Sendable {
    let readiness: Readiness
    let hsmTokens: HSMTokenPool
    let sealing: SealingHSMToken
    let index: KeyIndex
    let ledger: any Ledger
    let ledgerClock: LedgerClock
    let recordCheck: RecordCheck
    let archiving: RecordArchiving?
    let headAge: Stopwatch
    let live: LiveConfiguration
    let instruments: Instruments
    let programs: ProgramFiles
    let auditKeysOfOthers: OtherNodesAuditKeys
    let portal: PortalRoutes
    let clock: WallClock
    let startedAt: Date

    /// Reports that the process serves, without any check. Any peer of either socket may ask.
    func health(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        try .json(HealthAnswer())
    }

    /// Reports if a payment token would be decrypted now. Any peer of either socket may ask, but only a peer that a rule
    /// matches gets the reasons.
    func ready(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let answer = await readiness.answer(for: request.caller)
        return try .json(answer, status: answer.ready ? 200 : 503, outcome: answer.ready ? "ok" : "not_ready")
    }

    // MARK: Metrics

    /// Returns the metrics in Prometheus' text format. Values that change without an event are read at each scrape.
    func metrics(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        showExpiries()
        portal.show()
        instruments.unlockedSecretBytes.set(to: Double(UnlockedMemory(hsmTokens: hsmTokens).total))
        showDatabase()
        showMemory()
        showRecord()
        // Both calls wait for a ledger that hangs, so they run concurrently to keep the scrape short.
        async let isReady = readiness.reasons().isEmpty
        await showLedger()
        showReadiness(await isReady)
        return EndpointAnswer(
            http: HTTPAnswer(
                status: 200,
                headers: [HTTPAnswer.Header(name: "Content-Type", value: MetricsText.contentType)],
                body: Array(instruments.exposition().utf8)))
    }

    /// Sets the metrics with the certificates' expiries, and with the ages of Google Pay keys. Keys that are not renewed are
    /// left out. Otherwise an alert about a retired key would never end.
    private func showExpiries() {
        instruments.keyNotAfter.replaceAll(
            index.entries.filter(\.needsCertificate).compactMap { entry in
                entry.certificate.map {
                    ([entry.publicKeyHash.hex, entry.merchantIdentifier], $0.notAfter.timeIntervalSince1970)
                }
            })
        instruments.googlePayKeyDue.replaceAll(
            GooglePayRotation.reminders(index.entries).map {
                ([$0.publicKeyHash.hex, $0.merchantIdentifier], $0.due.timeIntervalSince1970)
            })
    }

    /// Sets the metric of the daemon's readiness, and that of each HSM token's readiness. The daemon may be ready while
    /// one of several HSM tokens is unavailable.
    private func showReadiness(_ isReady: Bool) {
        instruments.ready.set(to: isReady ? 1 : 0)
        instruments.hsmTokenReady.replaceAll(
            hsmTokens.all.map { hsmToken in
                if case .ready = hsmToken.condition { ([hsmToken.name], 1) } else { ([hsmToken.name], 0) }
            })
    }

    /// Sets the metrics of insecure settings and of the node lease's age. An SQLite ledger has no lease, so the metric
    /// of the age then has no time series.
    private func showDatabase() {
        instruments.show(
            warnings: live.warnings, ledger: ledger.insecureSettings,
            keys: portalKeyPlace.warning == nil ? [] : [PortalKeyPlace.setting])
        guard let lease = ledger.lease else { return instruments.nodeLeaseAgeSeconds.replaceAll([]) }
        instruments.nodeLeaseAgeSeconds.set(to: lease.age.inSeconds)
    }

    private func showMemory() {
        instruments.lockedMemoryBytes.show(LockedMemory.bytes.map(Double.init))
        instruments.lockedMemoryLimitBytes.show(LockedMemory.limit.map(Double.init))
    }

    private func showRecord() {
        instruments.recordCheckVerdict.show(recordCheck.finding.map { $0.fault == nil ? 1 : 0 })
        instruments.recordCheckAgeSeconds.show(recordCheck.age?.inSeconds)
        instruments.recordArchiveAgeSeconds.show(archiving?.age.elapsed.inSeconds)
        instruments.auditHeadAgeSeconds.set(to: headAge.elapsed.inSeconds)
    }

    /// Sets the ledger's metrics, if the ledger answers within two seconds. Otherwise a ledger that hangs would let the
    /// scrape time out.
    private func showLedger() async {
        let reading = Task { await ledgerFigures() }
        let figures = await reading.value(within: .seconds(2)) ?? LedgerFigures()
        instruments.clockBehindLedgerSeconds.show(figures.clockBehind)
        instruments.checkpointAgeSeconds.show(figures.checkpointAge)
        instruments.synchronousStandbys.show(figures.standbys.map(Double.init))
        instruments.ledgerFreeBytes.show(figures.freeBytes.map { Double($0) })
    }

    /// The ledger's figures for metrics; nil for a figure that could not be read.
    private struct LedgerFigures {
        var clockBehind: Double?
        var checkpointAge: Double?
        var standbys: Int?
        var freeBytes: UInt64?
    }

    private func ledgerFigures() async -> LedgerFigures {
        LedgerFigures(
            clockBehind: try? await ledgerClock.compare().secondsBehind, checkpointAge: try? await checkpointAge(),
            standbys: (try? await ledger.synchronousStandbys()) ?? nil,
            freeBytes: (try? await ledger.freeBytes()) ?? nil)
    }

    private func checkpointAge() async throws(LedgerFailure) -> Double {
        let sealed = try await ledger.latestCheckpoint()?.checkpoint
        return Self.checkpointAge(
            of: sealed, recorded: try await ledger.head().sequence, startedAt: startedAt, now: clock.now())
    }

    /// Returns the seconds for which records have waited to be sealed: since the last audit checkpoint, or since the start
    /// if there is none. Returns 0 if all records are sealed.
    static func checkpointAge(of sealed: Checkpoint?, recorded: Int, startedAt: Date, now: Date) -> Double {
        guard recorded > sealed?.sequence ?? 0 else { return 0 }
        let since = sealed.map(\.time.date) ?? startedAt
        return max(0, now.timeIntervalSince(since))
    }

    // MARK: Status

    /// Handles `GET /v1/status`, an overview for operators. It covers the version, the programs, the HSM tokens, the
    /// ledger, the trust settings, all warnings, and all reasons why the daemon is not ready.
    func status(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let findings = await readiness.findings()
        let reasons = findings.reasons
        let head = try? await ledger.head()
        let sealed = try? await ledger.latestCheckpoint()
        let policies = live.policies.current
        let ledgerFault = reasons.first { $0.component == "ledger" }
        let server = (try? await ledger.serverStatus()) ?? nil
        let programs = programs.digests
        return try .json(
            StatusAnswer(
                version: ProductVersion.current, node: ledger.node, startedAt: startedAt,
                programs: ProgramsStatus(
                    paytokendSha256: programs.daemon?.hex, workerSha256: programs.worker?.hex,
                    sbomSha256: programs.sbom?.hex),
                ready: reasons.isEmpty, reasons: reasons,
                tokens: hsmTokens.all.map { hsmToken in
                    var status = status(of: hsmToken, servesGooglePay: policies.googlePay != nil)
                    status.moduleSha256 = programs.modules[hsmToken.name]?.hex
                    return status
                },
                ledger: LedgerStatus(
                    engine: ledger.engine, condition: ledgerFault == nil ? "ready" : "unavailable",
                    message: ledgerFault?.message, schemaVersion: ledger.schemaVersion,
                    lastSequence: head?.sequence, archivedSequence: (try? await ledger.lastArchive())??.last,
                    sealedSequence: sealed?.checkpoint.sequence,
                    sealedAt: sealed.map(\.checkpoint.time.date), sealingToken: sealing.name,
                    sealingAlgorithm: sealed?.checkpoint.algorithm.rawValue,
                    server: server.map(LedgerServerStatus.init), lease: ledger.lease.map(NodeLeaseAnswer.init),
                    nodes: server?.nodes.map(LedgerNodeStatus.init)),
                trust: TrustStatus(
                    roots: policies.roots.compactMap { try? CertificateSummary(CertificateDescription($0)) },
                    distrusted: policies.distrusted,
                    signingTimeWindow: policies.signingTimeWindow.description,
                    googlePay: policies.googlePay?.keys.map(GoogleKeySummary.init)),
                warnings: auditKeysOfOthers.warnings + live.warnings.map { "\($0.place): \($0.message)" }
                    + databaseWarnings + (server?.warnings ?? []) + recordCheck.warnings + (archiving?.warnings ?? [])
                    + findings.warnings + UnlockedMemory(hsmTokens: hsmTokens).warnings + index.warnings
                    + ExpiryWarnings.of(index.entries, now: clock.now())
                    + [portalKeyPlace.warning].compactMap(\.self)))
    }

    private var portalKeyPlace: PortalKeyPlace { PortalKeyPlace(index.entries, live.policies.current.access) }

    /// The insecure settings of the database server. Insecure settings of the configuration are left out, since the
    /// warnings list them with their line in the file.
    private var databaseWarnings: [String] {
        let known = Set(live.warnings.map(\.setting.rawValue))
        return ledger.insecureSettings.filter { !known.contains($0.rawValue) }
            .map(\.description).sorted()
    }

    /// - Parameter servesGooglePay: true if the configuration names Google's root keys. Otherwise a lack that concerns
    ///   Google Pay alone is not mentioned.
    private func status(of hsmToken: HSMToken, servesGooglePay: Bool) -> HSMTokenStatus {
        switch hsmToken.condition {
        case .starting:
            return HSMTokenStatus(name: hsmToken.name, condition: "starting")
        case .unavailable(let failure):
            return HSMTokenStatus(name: hsmToken.name, condition: "unavailable", message: failure.message)
        case .ready(let description):
            return HSMTokenStatus(
                name: hsmToken.name, condition: description.servesNothing ? "unavailable" : "ready",
                message: description.servesNothing
                    ? "serves nothing: it opens no payment tokens and makes no signatures." : nil,
                label: description.label,
                serialNumber: description.serialNumber, manufacturer: description.manufacturer,
                model: description.model, hardwareVersion: description.hardwareVersion,
                firmwareVersion: description.firmwareVersion, library: description.library,
                sessions: Int(description.sessions),
                tierECv1: description.tierECv1?.rawValue, tierRSAv1: description.tierRSAv1?.rawValue,
                tierECv2: description.tierECv2?.rawValue, pss: description.tlsSignatures.pss.name,
                tlsAlgorithms: description.tlsSignatures.algorithms.map(\.rawValue),
                shortcomings: description.shortcomings
                    + (description.shortcomingECv2.isEmpty || !servesGooglePay ? [] : [description.shortcomingECv2]),
                testKeys: description.testKeys.isEmpty ? nil : description.testKeys,
                importKey: Base64.encode(description.importKey),
                keys: index.entries.count { $0.hsmTokens.contains(hsmToken.name) })
        }
    }
}

extension HSMTokenDescription {
    /// True if no operation passed its test, so that no key in the HSM token can be used.
    fileprivate var servesNothing: Bool {
        tierECv1 == nil && tierRSAv1 == nil && tlsSignatures.algorithms.isEmpty
    }
}

extension PSSSignatures {
    /// The value of the member `pss` in the status; nil if the HSM token makes no PSS signatures.
    fileprivate var name: String? {
        switch self {
        case .byToken: "token"
        case .byWorker: "worker"
        case .none: nil
        }
    }
}
