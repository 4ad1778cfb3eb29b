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
    let paymentSlots: ClientSlots
    let readiness = StoreReadiness()
    let unstoredChanges = UnstoredChanges()
    let routes: [GatewayRoute]
    let adminRoutes: [AdminRoute]

    init(
        store: any PaymentStore, paytokend: PaytokendCalls, processors: ProcessorDirectory, deadline: Duration,
        accountNumberKey: AccountNumberKey? = nil,
        _ configuration: GatewayConfiguration, logger: Logger
    ) {
        self.store = store
        metrics = PaymentMetrics()
        paymentSlots = ClientSlots(configuration.limits.maxPaymentsPerClient)
        upkeep = PaymentUpkeep(
            store, processors, metrics, readiness, unstoredChanges, logger, accountNumberKey: accountNumberKey)
        let flow = PaymentFlow(
            store: store, decryption: PaytokendDecryption(paytokend: paytokend, processors: processors),
            processors: processors,
            timeLimit: deadline, gatewayName: ProcessInfo.processInfo.hostName, metrics: metrics,
            paymentSlots: paymentSlots, mismatches: ExpectationMismatches(), readiness: readiness,
            unstoredChanges: unstoredChanges,
            accountNumberKey: accountNumberKey,
            logger: logger)
        let maxRequestBytes = configuration.listener.maxRequestBytes
        routes =
            PaymentRoutes(flow: flow, maxRequestBytes: maxRequestBytes).routes
            + RadialRoutes(flow: flow, maxRequestBytes: maxRequestBytes).routes
        adminRoutes = PaymentAdministration(store: store).routes
    }

    /// Opens the store, and returns the service that the configuration describes.
    static func configured(
        by settings: PaymentSettings, _ configuration: GatewayConfiguration, paytokend: PaytokendCalls, logger: Logger
    ) throws(StartFailure) -> PaymentService {
        let store: any PaymentStore
        do throws(PaymentStoreOpeningError) { store = try openStore(settings.store, logger: logger) } catch {
            throw StartFailure(error.exitStatus, "store: \(error)")
        }
        return PaymentService(
            store: store, paytokend: paytokend, processors: try .configured(by: settings.processors),
            deadline: settings.deadline,
            accountNumberKey: try .loaded(from: settings.accountNumberKey, logger: logger), configuration,
            logger: logger)
    }
}

extension PaymentService {
    private static func openStore(
        _ settings: PaymentSettings.Store, logger: Logger
    ) throws(PaymentStoreOpeningError) -> any PaymentStore {
        switch settings {
        case .sqlite(let path): return try SQLitePaymentStore(path: path)
        case .postgresql(let database):
            let store = try PostgreSQLPaymentStore(database.url, passwordFile: database.passwordFile)
            // The configuration check has already warned of insecure settings that the URL itself shows, so the gateway
            // warns only of the others here.
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
