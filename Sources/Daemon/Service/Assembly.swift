import Foundation
import Ledger
import Logging
import MerchantKeys
import NIOCore
import PaymentToken
import WorkerProtocol

/// The daemon's parts, put together from a configuration: the only file that names all concrete types.
struct Assembly: Sendable {
    let catalogue: KeyCatalogue
    let worker: TokenWorker
    let ledger: SQLiteLedger
    let instruments: Instruments
    let router: Router
    let live: LiveConfiguration

    /// Opens the ledger and finds the worker's program; starts nothing that serves.
    static func make(
        _ configuration: Configuration, logger: Logger, clock: WallClock = .system
    ) async throws(StartFailure) -> Assembly {
        let instruments = Instruments()
        let ledger = try await open(configuration.ledger)
        let live = try LiveConfiguration(configuration, instruments: instruments)

        let index = KeyIndex()
        let catalogue = KeyCatalogue(index: index, ledger: ledger, clock: clock, logger: logger)
        do throws(LedgerFailure) {
            try await catalogue.recall()
        } catch {
            await ledger.close()
            throw StartFailure(.tryAgainLater, error.description)
        }
        let worker = try worker(configuration.tokens[0], catalogue: catalogue, instruments: instruments, logger: logger)

        let decryptor = TokenDecryptor(
            policies: live.policies, keys: index, hsm: worker, ledger: ledger, instruments: instruments,
            troubles: TroubleLog(logger: logger), clock: clock)
        let readiness = Readiness(token: worker, ledger: ledger, catalogue: catalogue)
        let summaries = KeySummaries(index: index, tier: worker.tier, clock: clock)
        let administration = KeyAdministration(
            catalogue: catalogue, token: worker, ledger: ledger, people: configuration.approvals.people, clock: clock)
        let endpoints = Endpoints(
            decrypt: DecryptRoute(decryptor: decryptor), verify: VerifyRoute(decryptor: decryptor),
            health: HealthRoutes(readiness: readiness),
            metrics: MetricsRoute(instruments: instruments, index: index, clock: clock),
            status: StatusRoute(
                readiness: readiness, token: worker, index: index, ledger: ledger, live: live, startedAt: clock.now()),
            keys: KeyRoutes(summaries: summaries, index: index),
            imports: ImportRoutes(administration: administration, summaries: summaries, tokenName: worker.name))
        let router = Router(
            endpoints: endpoints.all(bodyLimit: configuration.listener.maxRequestBytes), policies: live.policies,
            journal: RequestJournal(instruments: instruments, logger: logger))
        return Assembly(
            catalogue: catalogue, worker: worker, ledger: ledger, instruments: instruments, router: router, live: live)
    }

    private static func open(_ settings: LedgerSettings) async throws(StartFailure) -> SQLiteLedger {
        do throws(LedgerOpeningError) {
            return try await SQLiteLedger.open(
                SQLiteLedger.Settings(path: settings.path, node: settings.node, repeatFor: settings.repeatFor))
        } catch {
            throw StartFailure(ledger: error)
        }
    }

    private static func worker(
        _ settings: TokenSettings, catalogue: KeyCatalogue, instruments: Instruments, logger: Logger
    ) throws(StartFailure) -> TokenWorker {
        let executable: WorkerExecutable
        do {
            executable = try WorkerExecutable.installed()
        } catch {
            throw StartFailure(.configuration, error.message)
        }
        let token = settings.name
        return TokenWorker(
            name: token, settings: settings, executable: executable, logger: logger,
            events: WorkerEvents(
                keys: { keys in await catalogue.tokenHasOpened(token, showing: keys) },
                waited: { instruments.hsmWaitSeconds.observe($0) },
                called: { instruments.hsmCallSeconds.observe($1, token, $0.rawValue) },
                restarted: { instruments.workerRestarts.increment(token, $0.rawValue) }))
    }
}

extension TokenWorker: TransactionDecrypting, TokenAdministering {
    /// The tier at which tokens for a key of this algorithm are opened now.
    @Sendable func tier(for algorithm: KeyAlgorithm) -> ProtectionTier? {
        guard case .ready(let description) = condition else { return nil }
        return switch algorithm {
        case .ec: description.tierECv1
        case .rsa: description.tierRSAv1
        }
    }
}
