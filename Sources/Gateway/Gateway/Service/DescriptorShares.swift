import HTTPListener
import OutgoingConnections
import Payments

extension GatewayConfiguration {
    /// Returns the part of `limits.max_connections` that fits under a descriptor limit together with the connections
    /// that the gateway makes.
    func connections(under limit: Int) -> Int {
        let toApple = ConnectionPoolLimits()
        var outgoing = paytokend.maxConnections + 1 + toApple.most + toApple.reserved + HostNames.Limits().lookUps
        var submissions = 0
        if let payments {
            if case .postgresql = payments.store { outgoing += PostgreSQLPaymentStore.maximumSessions }
            outgoing += payments.processors.count * PendingQuestions.most
            submissions = clients.count { $0.has(.pay) } * limits.maxPaymentsPerClient
        }
        return DescriptorLimit.connections(
            wanted: limits.maxConnections, limit: limit, outgoing: outgoing, ofRequests: submissions)
    }
}
