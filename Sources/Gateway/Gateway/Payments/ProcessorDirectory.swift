import AccessControl
import ConfigurationFile
import GooglePayToken
import KeyTypes
import NIOSSL
import Payments
import Processors
import ServerProgram

/// A processor, its name in the configuration, and the merchants whose payments go to it.
struct ConfiguredProcessor: Sendable {
    let name: String
    /// The merchants whose payments with Apple Pay go to the processor.
    let merchants: [MerchantPattern]
    /// The merchants whose payments with Google Pay go to the processor; nil if it takes none.
    var googlePay: GooglePayAccess?
    let processor: any Processor

    /// The kinds of Google Pay's card numbers that both the configuration and the processor permit.
    var googlePayMethods: Set<GooglePayPayload.AuthMethod> {
        (googlePay?.authMethods ?? []).intersection(processor.capabilities.googlePay)
    }

    /// Returns true if the processor accepts a payment of this amount.
    func accepts(_ amount: Amount?) -> Bool { processor.capabilities.takesNoAmount || (amount?.minorUnits ?? 0) > 0 }

    /// The details of a refusal because of ``accepts(_:)``.
    static let noAmount = "no amount, or zero"

    func serves(_ wallet: Wallet) -> Bool { wallet == .applePay ? !merchants.isEmpty : googlePay != nil }

    /// Returns true if the wallet's payments of the merchant go to this processor, unless to an earlier one.
    func takes(_ merchantIdentifier: String, of wallet: Wallet) -> Bool {
        switch wallet {
        case .applePay: merchants.contains { $0.matches(merchantIdentifier) }
        case .googlePay: googlePay?.allows(merchant: merchantIdentifier) ?? false
        }
    }
}

/// The configured processors. A payment goes to the first processor with a pattern that matches the payment token's
/// merchant.
struct ProcessorDirectory: Sendable {
    let processors: [ConfiguredProcessor]

    func processor(for merchantIdentifier: String, of wallet: Wallet) -> ConfiguredProcessor? {
        processors.first { $0.takes(merchantIdentifier, of: wallet) }
    }

    /// Returns the processor of the merchant that a request states; nil if it states none, or if there is no processor.
    func processor(for request: any WalletRequest) -> ConfiguredProcessor? {
        request.statedMerchant.flatMap { processor(for: $0, of: request.wallet) }
    }

    /// Returns the processors to which a payment may go. The merchant of an Apple Pay payment token is known only after
    /// decryption. The result therefore contains the processors of the stated merchant or, without one, of the client's
    /// merchants. If a merchant is a pattern with a star, it contains all processors of the wallet, because the pattern can
    /// match many merchants.
    func candidates(for client: GatewayClient, _ request: any WalletRequest) -> [ConfiguredProcessor] {
        let merchants = request.statedMerchant.map { [$0] } ?? client.merchants.map(\.text)
        guard !merchants.contains(where: { $0.contains("*") }) else {
            return processors.filter { $0.serves(request.wallet) }
        }
        let chosen = merchants.compactMap { processor(for: $0, of: request.wallet)?.name }
        return processors.filter { chosen.contains($0.name) }
    }
}

extension [ConfiguredProcessor] {
    /// The elements that a request must have: those that any of these processors needs.
    var requiredElements: [RequiredElement] {
        var needs: [RequiredElement] = []
        for element in flatMap(\.processor.capabilities.needs) where !needs.contains(element) { needs.append(element) }
        return needs
    }

    /// Returns each element of a request that one of these processors does not accept.
    func unsuitableElements(_ customer: Customer, orderId: String?) -> [UnsuitableElement] {
        flatMap { $0.processor.unsuitable(customer, orderId: orderId) }
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
                ConfiguredProcessor(
                    name: setting.name, merchants: setting.merchants, googlePay: setting.googlePay,
                    processor: processor))
        }
        return ProcessorDirectory(processors: processors)
    }
}
