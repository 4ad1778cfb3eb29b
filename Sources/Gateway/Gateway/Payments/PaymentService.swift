import DaemonAPI
import Foundation
import Logging
import Payments
import Processors
import ServerProgram

/// The parts of the gateway that exist only if processors are configured: the store of payments, the routes that use
/// it, and its upkeep.
struct PaymentService: Sendable {
    let store: any PaymentStore
    let metrics: PaymentMetrics
    let upkeep: PaymentUpkeep
    let underWay: ClientSlots
    let readiness = StoreReadiness()
    let unstored = UnstoredChanges()
    let routes: [GatewayRoute]
    let adminRoutes: [AdminRoute]

    init(
        store: any PaymentStore, paytokend: PaytokendCalls, processors: ProcessorDirectory, deadline: Duration,
        accountNumbers: AccountNumberKey? = nil,
        _ configuration: GatewayConfiguration, logger: Logger
    ) {
        self.store = store
        metrics = PaymentMetrics()
        underWay = ClientSlots(configuration.limits.maxPaymentsPerClient)
        upkeep = PaymentUpkeep(store, processors, metrics, readiness, unstored, logger, accountNumbers: accountNumbers)
        let flow = PaymentFlow(
            store: store, decryption: PaytokendDecryption(paytokend: paytokend), processors: processors,
            deadline: deadline, owner: ProcessInfo.processInfo.hostName, metrics: metrics,
            underWay: underWay, mismatches: ExpectationMismatches(), readiness: readiness, unstored: unstored,
            accountNumbers: accountNumbers,
            logger: logger)
        let maxRequestBytes = configuration.listener.maxRequestBytes
        routes =
            PaymentRoutes(flow: flow, maxRequestBytes: maxRequestBytes).routes
            + RadialRoutes(flow: flow, maxRequestBytes: maxRequestBytes).routes
        adminRoutes = PaymentAdministration(store: store).routes
    }

    /// Opens the store, and returns the service that the configuration describes.
    static func made(
        _ settings: PaymentSettings, _ configuration: GatewayConfiguration, paytokend: PaytokendCalls, logger: Logger
    ) throws(StartFailure) -> PaymentService {
        let store: any PaymentStore
        do throws(PaymentStoreOpeningError) { store = try opened(settings.store, logger: logger) } catch {
            throw StartFailure(error.exitStatus, "store: \(error)")
        }
        return PaymentService(
            store: store, paytokend: paytokend, processors: try .made(settings.processors), deadline: settings.deadline,
            accountNumbers: try .made(settings.accountNumberKey, logger: logger), configuration, logger: logger)
    }
}

extension PaymentService {
    private static func opened(
        _ settings: PaymentSettings.Store, logger: Logger
    ) throws(PaymentStoreOpeningError) -> any PaymentStore {
        switch settings {
        case .sqlite(let path): return try SQLitePaymentStore(path: path)
        case .postgresql(let database):
            let store = try PostgreSQLPaymentStore(database.url, passwordFile: database.passwordFile)
            // The configuration check has already warned of insecure settings that the URL itself shows.
            let unreported = store.insecureSettings.subtracting(InsecureStoreSetting.ofURL(database.url))
            for setting in unreported.sorted(by: { $0.rawValue < $1.rawValue }) {
                logger.warning(
                    "insecure setting",
                    metadata: ["place": "store.url", "setting": "\(setting.rawValue)", "reason": "\(setting)"])
            }
            return store
        }
    }
}

extension PaymentStoreOpeningError {
    fileprivate var exitStatus: ExitStatus {
        switch self {
        case .inUse, .notNow: .tryAgainLater
        case .noDirectory, .notPrivate, .notDurable, .notAStore, .newerSchema, .cannotOpen: .configuration
        }
    }
}
