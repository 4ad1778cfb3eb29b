import ConfigurationFile
import NIOSSL
import Processors
import ServerProgram

/// A processor, its name in the configuration, and the merchants whose payments go to it.
struct ConfiguredProcessor: Sendable {
    let name: String
    let merchants: [MerchantPattern]
    let processor: any Processor
}

/// The configured processors. A payment goes to the first processor with a pattern that matches the payment token's
/// merchant.
struct ProcessorDirectory: Sendable {
    let processors: [ConfiguredProcessor]

    func processor(for merchantIdentifier: String) -> ConfiguredProcessor? {
        processors.first { $0.merchants.contains { $0.matches(merchantIdentifier) } }
    }

    /// Returns the elements that a request must have. The payment token's merchant is known only after decryption.
    /// Therefore the result contains the elements that are needed by any of the processors to which the payment may go.
    ///
    /// - Parameter merchant: the merchant that the request expects; nil if it does not state one.
    func requiredElements(for client: GatewayClient, merchant: String?) -> [RequiredElement] {
        var needs: [RequiredElement] = []
        for element in possibleProcessors(for: client, merchant: merchant).flatMap(\.processor.capabilities.needs)
        where !needs.contains(element) {
            needs.append(element)
        }
        return needs
    }

    /// Returns each element of a request that one of the processors to which the payment may go does not accept.
    func unsuitableElements(
        _ customer: Customer, orderId: String?, for client: GatewayClient, merchant: String?
    ) -> [UnsuitableElement] {
        possibleProcessors(for: client, merchant: merchant).flatMap {
            $0.processor.unsuitable(customer, orderId: orderId)
        }
    }

    /// Returns the processors to which a payment may go. These are the processors of the stated merchant or, without
    /// one, of the client's merchants. If a merchant is a pattern with a star, all processors are returned, because the
    /// pattern can match many merchants.
    private func possibleProcessors(for client: GatewayClient, merchant: String?) -> [ConfiguredProcessor] {
        let merchants = merchant.map { [$0] } ?? client.merchants.map(\.text)
        guard !merchants.contains(where: { $0.contains("*") }) else { return processors }
        let chosen = merchants.compactMap { processor(for: $0)?.name }
        return processors.filter { chosen.contains($0.name) }
    }
}

extension ProcessorDirectory {
    /// Creates the configured processors. To add a kind of processor, add a case to `ProcessorSettings.Kind`, and
    /// create its processor here.
    static func configured(by settings: [ProcessorSettings]) throws(StartFailure) -> ProcessorDirectory {
        var processors: [ConfiguredProcessor] = []
        for setting in settings {
            let exchange: ProcessorExchange
            do {
                exchange = try ProcessorExchange(
                    to: setting.endpoint, headers: setting.headers.map { (name: $0.name, value: $0.value) },
                    trust: setting.trust.flatMap { try NIOSSLCertificate.fromPEMFile($0).map { try $0.toDERBytes() } })
            } catch {
                throw StartFailure(.configuration, "processors: TLS for \(setting.name) cannot be set up.")
            }
            let processor: any Processor =
                switch setting.kind {
                case .simulator: SimulatorProcessor(exchange)
                case .radial: RadialProcessor(exchange)
                }
            processors.append(
                ConfiguredProcessor(name: setting.name, merchants: setting.merchants, processor: processor))
        }
        return ProcessorDirectory(processors: processors)
    }
}
