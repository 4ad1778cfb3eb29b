import DaemonConfiguration
import Foundation
import HostSystem
import Ledger
import Logging
import MerchantKeys
import NIOCore
import PaymentToken
import ServerProgram
import Telemetry
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// Creates the parts of the daemon from a configuration, and connects them. Only this file names all concrete types.
struct Assembly: Sendable {
    let hsmTokens: HSMTokenPool
    let sealing: SealingHSMToken
    let ledger: any Ledger
    let gate: LedgerGate
    let opening: FirstOpening
    let checkpoints: Checkpoints
    let recordCheck: RecordCheck
    /// The archiving of old records; nil if the ledger keeps all records.
    let archiving: RecordArchiving?
    let lifeRecords: LifecycleRecords
    let refusalSummaries: RefusalSummaries
    let others: ClusterFollower
    let attributeRecords: KeyAttributeRecords
    let keySearch: KeySearch
    let renewalWork: RenewalWork
    let instruments: Instruments
    let router: DaemonRouter
    let live: LiveConfiguration
    let reload: ConfigurationReload
    private let readiness: Readiness
    private let catalogue: KeyCatalogue
    private let clock: WallClock

    /// Opens the ledger, finds the worker's program and creates all parts. Starts none of them.
    ///
    /// - Parameter given: a ledger to use instead of the configured one; nil to open the configured ledger.
    static func make(
        _ configuration: Configuration, logger: Logger, clock: WallClock = .system,
        ledger given: (any Ledger)? = nil
    ) async throws(StartFailure) -> Assembly {
        let instruments = Instruments()
        instruments.begin(hsmTokens: configuration.hsmTokens.map(\.name))
        let faults = FaultLog(logger: logger)
        let unsealed = UnsealedRecords()
        let observe = unsealed.observer(
            batchSizes: instruments.ledgerBatchSize, roundTrips: instruments.ledgerBatchRoundTrips,
            readsBack: instruments.ledgerReadsBack, logger: logger)
        let ledger: any Ledger
        if let given { ledger = given } else { ledger = try await configuration.ledger.open(observe: observe) }
        let known = Set(configuration.warnings.map(\.setting.rawValue))
        for setting in ledger.insecureSettings where !known.contains(setting.rawValue) {
            logger.warning("insecure setting", metadata: ["place": "ledger.url", "reason": "\(setting)"])
        }
        do throws(StartFailure) {
            return try await make(
                configuration, ledger: ledger, unsealed: unsealed, instruments: instruments, faults: faults,
                logger: logger, clock: clock)
        } catch {
            await ledger.close()
            throw error
        }
    }

    private static func make(
        _ configuration: Configuration, ledger: any Ledger, unsealed: UnsealedRecords, instruments: Instruments,
        faults: FaultLog, logger: Logger, clock: WallClock
    ) async throws(StartFailure) -> Assembly {
        let live = try LiveConfiguration(configuration, instruments: instruments)
        let index = KeyIndex()
        let catalogue = KeyCatalogue(
            index: index, ledger: ledger, hsmTokens: configuration.hsmTokens.map(\.name), clock: clock, logger: logger)
        let auditKeys: [StoredAuditKey]
        do throws(LedgerFailure) {
            try await catalogue.loadKeyRecords()
            auditKeys = try await ledger.auditKeys()
        } catch {
            throw StartFailure(.tryAgainLater, error.description)
        }
        let executable: WorkerExecutable
        do {
            executable = try WorkerExecutable.installed()
        } catch {
            throw StartFailure(.configuration, error.message)
        }
        let tally = RefusalTally(clock: clock)
        let recorder = UsageRecorder(ledger: ledger, tally: tally, faults: faults, clock: clock)
        let lifeRecords = LifecycleRecords(
            recorder: recorder,
            programs: ProgramFiles(
                worker: executable,
                modules: Dictionary(configuration.hsmTokens.map { ($0.name, $0.module) }) { first, _ in first }),
            clock: clock)
        let hsmTokens = hsmTokens(
            configuration.hsmTokens, running: executable, catalogue: catalogue, lifeRecords: lifeRecords,
            instruments: instruments, logger: logger)
        let sealing = SealingHSMToken(among: hsmTokens.all, keys: auditKeys)

        let recordCheck = RecordCheck(ledger: ledger, logger: logger)
        let checkpoints = Checkpoints(
            ledger: ledger, hsmToken: sealing, unsealed: unsealed, clock: clock, check: recordCheck, logger: logger)
        let gate = LedgerGate(
            ledger: ledger, hsmToken: sealing, checkpoints: checkpoints, clock: clock, logger: logger,
            widestWindow: { live.widestWindow })
        let rule = TwoPersonRule(people: configuration.approvals.people, expire: configuration.approvals.expire)

        let arrivals = RefusedPaymentTokenCounts()
        let opening = FirstOpening()
        let ledgerClock = LedgerClock(ledger: ledger, clock: clock) { live.widestWindow }
        let commit = UseCommit(
            gate: gate, recorder: recorder, seconds: instruments.ledgerCommitSeconds,
            answerTime: configuration.ledger.timeout)
        let decryptor = TokenDecryptor(
            policies: live.policies, keys: index, hsm: hsmTokens, opening: opening, commit: commit,
            ledgerClock: ledgerClock, arrivals: arrivals, instruments: instruments)
        let signatures = RecordedSignatures(
            keys: index, hsm: hsmTokens, commit: commit, instruments: instruments, clock: clock)
        let proving = KeyProving(
            keys: index, hsm: hsmTokens, gate: gate, recorder: recorder, hsmTokens: hsmTokens.all.map(\.name))
        let readiness = Readiness(
            hsmTokens: hsmTokens, ledger: ledger, gate: gate, catalogue: catalogue, clock: clock,
            ledgerClock: ledgerClock,
            faults: faults)
        let summaries = KeySummaries(index: index, tier: hsmTokens.tier, clock: clock)
        let administration = KeyAdministration(
            catalogue: catalogue, hsmTokens: hsmTokens.all, ledger: ledger, gate: gate, recorder: recorder,
            rule: rule, renewal: configuration.renewal, clock: clock)
        let lifecycle = KeyLifecycle(
            catalogue: catalogue, hsmTokens: hsmTokens, ledger: ledger, rule: rule, recorder: recorder, clock: clock)
        let rotations = KeyRotations(
            administration: administration, arrivals: arrivals,
            servesPayments: { [policies = live.policies] in policies.current.access.permitsDecryption },
            quiet: { live.configuration.current.googlePay.quiet.inSeconds })
        let auditKey = AuditKeyChange(
            ledger: ledger, sealing: sealing, checkpoints: checkpoints, gate: gate,
            rule: rule, recorder: recorder, clock: clock, logger: logger)
        let clockAcceptance = ClockAcceptance(
            ledgerClock: ledgerClock, gate: gate, rule: rule, recorder: recorder, logger: logger)
        let decisions = ApprovalDecisions(
            ledger: ledger, policies: live.policies, lifecycle: lifecycle, gate: gate, auditKey: auditKey,
            clockAcceptance: clockAcceptance, recorder: recorder, clock: clock)
        let auditKeysOfOthers = OtherNodesAuditKeys(ledger: ledger, gate: gate, clock: clock, logger: logger)
        let archiving = RecordArchiving(
            configuration.ledger.archive, ledger: ledger, gate: gate, checkpoints: checkpoints,
            auditKeysOfOthers: auditKeysOfOthers, clock: clock, logger: logger)
        let headAge = Stopwatch()
        let attributes = KeyAttributeReading(hsmTokens.all)
        let reload = ConfigurationReload(live: live, lifeRecords: lifeRecords, hsmTokens: hsmTokens)
        let firstReleases = CallerFirstReleases(ledger: ledger, instruments: instruments, logger: logger)
        let portal = PortalRoutes(
            reads: PortalReads(clock: clock), writes: PortalWrites(clock: clock),
            signer: configuration.renewal.map { JWTSigner(signatures: signatures, renewal: $0) }, keys: index,
            access: { [policies = live.policies] in policies.current.access }, clock: clock, instruments: instruments)
        let plans = RenewalPlans(
            rotations: rotations, reads: portal.reads, hsmTokens: hsmTokens.all.map(\.name), access: portal.access,
            clock: clock)
        let renewalSteps = RenewalSteps(plans: plans, writes: portal.writes, rule: rule, logger: logger)
        let routes = RouteTable(
            payments: DecryptionRoutes(decryptor: decryptor, firstReleases: firstReleases),
            sessions: TLSRoutes(signer: TLSSigner(signatures: signatures, opening: opening)),
            monitoring: MonitoringRoutes(
                readiness: readiness, hsmTokens: hsmTokens, sealing: sealing, index: index, ledger: ledger,
                ledgerClock: ledgerClock, recordCheck: recordCheck,
                archiving: archiving, headAge: headAge,
                live: live, instruments: instruments, programs: lifeRecords.programs,
                auditKeysOfOthers: auditKeysOfOthers, portal: portal, clock: clock, startedAt: clock.now()),
            keys: KeyRoutes(
                administration: administration, lifecycle: lifecycle, summaries: summaries,
                holders: ledger.isShared ? ledger : nil, attributes: attributes,
                proving: proving),
            rotations: RotationRoutes(rotations: rotations, summaries: summaries),
            approvals: ApprovalRoutes(decisions: decisions, summaries: summaries, clock: clock),
            audit: AuditRoutes(
                trail: ledger, nodes: ledger, reads: recorder, checkpoints: checkpoints, headAge: headAge),
            auditKey: AuditKeyRoute(keyChange: auditKey),
            ledger: LedgerRoutes(
                ledger: ledger, path: configuration.ledger.path, reads: recorder, checkpoints: checkpoints,
                restores: RestoreAcceptance(gate: gate, rule: rule, recorder: recorder, clock: clock),
                clocks: clockAcceptance),
            reload: ReloadRoute(reload: reload),
            tokenUses: TokenUseRoutes(
                node: ledger.node, hsmTokens: configuration.hsmTokens, reads: recorder, logger: logger),
            testKeys: TestKeyRoute(hsmTokens: hsmTokens.all, gate: gate, recorder: recorder),
            portal: portal, renewals: RenewalRoutes(plans: plans, steps: renewalSteps))
        let router = Router(
            routes: routes.endpoints(bodyLimit: configuration.listener.maxRequestBytes),
            rules: DaemonRules(policies: live.policies, recorder: recorder),
            log: RequestLog(requests: instruments.requests, seconds: instruments.requestSeconds, logger: logger))
        let keySearch = KeySearch(catalogue: catalogue, hsmTokens: hsmTokens.all, logger: logger, clock: clock)
        let others = ClusterFollower(
            ledger: ledger, gate: gate, catalogue: catalogue, lifecycle: lifecycle, decisions: decisions,
            auditKeys: auditKeysOfOthers, faults: faults)
        return Assembly(
            hsmTokens: hsmTokens, sealing: sealing, ledger: ledger, gate: gate, opening: opening,
            checkpoints: checkpoints, recordCheck: recordCheck, archiving: archiving,
            lifeRecords: lifeRecords,
            refusalSummaries: RefusalSummaries(tally: tally, ledger: ledger), others: others,
            attributeRecords: KeyAttributeRecords(
                ledger: ledger, index: index, reading: attributes, clock: clock, isOpen: { gate.position == .open }),
            keySearch: keySearch,
            renewalWork: RenewalWork(
                administration: administration, proving: proving, search: keySearch,
                gauges: RenewalGauges(instruments: instruments), logger: logger),
            instruments: instruments, router: router, live: live, reload: reload, readiness: readiness,
            catalogue: catalogue, clock: clock)
    }

    func status(of service: ServiceNotification) -> ServiceStatus {
        ServiceStatus(
            service: service, findings: { [readiness] in await readiness.findings() },
            servedKeys: { [catalogue, clock] in
                let now = clock.now()
                return catalogue.index.entries.count { $0.decrypts(at: now) && !$0.hsmTokens.isEmpty }
            })
    }

    private static func hsmTokens(
        _ settings: [HSMTokenSettings], running executable: WorkerExecutable, catalogue: KeyCatalogue,
        lifeRecords: LifecycleRecords, instruments: Instruments, logger: Logger
    ) -> HSMTokenPool {
        // All HSM tokens share the refused inputs. Otherwise an input that has ended two workers of one HSM token could
        // also end the workers of another.
        let refusedInputs = RefusedInputs()
        let workers = settings.map { settings in
            let hsmToken = settings.name
            return HSMToken(
                settings, executable: executable, logger: logger,
                events: WorkerEvents(
                    keys: { keys, began in
                        lifeRecords.opened(hsmToken: hsmToken)
                        await catalogue.hsmTokenHasOpened(hsmToken, showing: keys, asOf: began)
                    },
                    condition: { condition in
                        guard let description = condition.openDescription else { return }
                        lifeRecords.madeTestKeys(Int(description.testKeysMade), hsmToken: hsmToken)
                    },
                    restarted: { instruments.workerRestarts.increment([hsmToken, $0.rawValue]) },
                    metrics: CallMetrics(
                        hsmToken: hsmToken, waits: instruments.hsmWaitSeconds, calls: instruments.hsmCallSeconds)),
                refusedInputs: refusedInputs)
        }
        return HSMTokenPool(first: workers[0], others: workers.dropFirst())
    }
}

extension HSMTokenPool: ProvingHSM {}

extension HSMToken: HSMTokenAdministering {}
