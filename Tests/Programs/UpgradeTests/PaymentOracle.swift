import DatabaseKit
import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Payments

extension UpgradeRound {
    /// Checks what an upgraded store answers through its interface, against the content from before.
    func verify(_ content: PaymentContent, in store: UpgradedStore) async throws {
        let payments: any PaymentStore
        switch store.place {
        case .file(let path): payments = try SQLitePaymentStore(path: path)
        case .database(let server, let name, _):
            let url = try PostgreSQLURL(server.url(name, user: kind.role))
            payments = try await onThread { () throws(PaymentStoreOpeningError) in
                try PostgreSQLPaymentStore(url, passwordFile: nil, timeout: .seconds(60))
            }
        }
        for row in content.rows("payment") { try await verify(row, payments) }
        check(payments.unreadablePayments == 0, "\(payments.unreadablePayments) payments cannot be read")
        await payments.close()
    }

    private func verify(_ row: StoredRow, _ store: any PaymentStore) async throws {
        let state = try #require(row[column: "state"].text.flatMap(PaymentState.init))
        let later = Date().addingTimeInterval(3600)
        let client = row[column: "client"].text ?? ""
        let transaction = row[column: "transaction_id"].bytes
        if let transaction {
            let found = try await store.payment(transaction: transaction)
            let isSame =
                found?.key.client == client && found?.key.tokenDigest == row[column: "token_digest"].bytes
                && found?.requestDigest == row[column: "request_digest"].bytes
                && found?.orderId == row[column: "order_id"].text
                && found?.transaction?.amount?.minorUnits == row[column: "minor_units"].integer
                && (state == .submitting || found?.state == state)
            check(isSame, "payment \(String(describing: found)), not \(row)")
        }
        // The client sends the payment token again, and another client sends one with the same transaction.
        let arrival = { (client: String, digest: [UInt8]) in
            PaymentArrival(
                key: .init(client: client, tokenDigest: digest),
                purpose: state == .released ? .release : .payment,
                requestDigest: row[column: "request_digest"].bytes ?? [], orderId: row[column: "order_id"].text,
                statedTransaction: transaction,
                attempt: PaymentAttempt(owner: "gateway-2", deadline: later.addingTimeInterval(3600)))
        }
        let again = try await store.begin(arrival(client, row[column: "token_digest"].bytes ?? []), at: later)
        if state.mayHaveBeenSent || state == .released {
            guard case .known(let payment) = again else {
                check(false, "a payment that is \(state): \(again)")
                return
            }
            check(payment.state == state || state == .submitting, "a payment that is \(state): \(payment.state)")
            let history = try await store.history(of: payment.key)
            check(
                history.last?.state == payment.state,
                "the history of a payment that is \(state): \(history.map(\.state))")
        } else {
            guard case .begun = again else {
                check(false, "a payment that is \(state): \(again)")
                return
            }
        }
        guard let transaction, state != .refused, state != .notSent, state != .decrypted else { return }
        guard
            case .begun(let other, _) = try await store.begin(
                arrival("another client", Array(transaction.reversed())), at: later)
        else {
            check(false, "another client's payment token is not new")
            return
        }
        let details = PaymentTransaction(
            identifier: transaction, merchantIdentifier: "m", amount: nil, processor: "acquirer")
        let claim = try await store.claim(other, details, as: .submitting, nil, at: later)
        check(claim == .usedBefore, "a transaction of a payment that is \(state) is claimed by another: \(claim)")
    }
}
