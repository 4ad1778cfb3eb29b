import HTTPListener
import OutgoingConnections
import Payments

extension GatewayConfiguration {
    /// Returns the number of incoming connections that fit under a limit of file descriptors, at most
    /// `limits.max_connections`. The gateway needs the other descriptors for the connections that it opens itself.
    func connections(under limit: Int) -> Int {
        let toApple = ConnectionPoolLimits()
        var outgoing = paytokend.maxConnections + 1 + toApple.most + toApple.reserved + HostNames.Limits().lookUps
        var submissions = 0
        if let payments {
            if case .postgresql = payments.store { outgoing += PostgreSQLPaymentStore.maximumSessions }
            outgoing += payments.processors.count * PendingPaymentQuestions.maximumPerRound
            submissions = clients.count { $0.has(.pay) } * limits.maxPaymentsPerClient
        }
        return DescriptorLimit.connections(
            wanted: limits.maxConnections, limit: limit, outgoing: outgoing, ofRequests: submissions)
    }
}
