package import PostgreSQLClient

/// The schema of payments in PostgreSQL. `paytoken-gateway store create` creates and upgrades it with an owner's
/// account; a gateway's role cannot do this.
package enum PostgreSQLPaymentSchema: StoreSchema {
    package typealias OpeningError = PaymentStoreOpeningError
    package typealias Failure = PaymentStoreError

    package static let name = PostgreSQLPaymentTables.schema
    package static let versionTable = "payment_store"
    package static let steps = PostgreSQLPaymentTables.steps
    package static let creator = "paytoken-gateway"
    package static let creationLimit = Duration.seconds(60)
    package static let users = "the gateways"
    package static let tables = ["payment_store", "payment", "payment_change"]
    package static let rights: [PostgreSQLRight] = [
        .select, .insert(table: "payment"), .insert(table: "payment_change"),
        .update(table: "payment", columns: PaymentRows.changing), .execute("prune_payments(bigint)"),
    ]

    /// The command that creates the schema, for messages.
    static let command = "\(creator) store create URL"
}

extension PaymentStoreOpeningError: StoreOpeningError {
    package init(of error: any Error, server: String) {
        if let error = error as? PaymentStoreOpeningError {
            self = error
            return
        }
        let command = PostgreSQLPaymentSchema.command
        self =
            switch PostgreSQLRefusal(of: error, url: "store.url") {
            case .notOurs: .notAStore(place: server)
            case .noTables:
                .cannotOpen(
                    place: server,
                    reason: "it has no tables of payments: run \(command) --grant ROLE with the owner's account.")
            case .newer(let found):
                .newerSchema(place: server, found: found, known: PostgreSQLPaymentSchema.version)
            case .older:
                .cannotOpen(
                    place: server, reason: "its schema is older: run \(command) with the owner's account.")
            case .missingRight:
                .cannotOpen(
                    place: server,
                    reason: "its role lacks a right: run \(command) --grant ROLE with the owner's account.")
            case .temporary(let reason): .notNow(place: server, reason: reason)
            case .permanent(let reason): .cannotOpen(place: server, reason: reason)
            case nil: .cannotOpen(place: server, reason: "this version does not know its tables.")
            }
    }
}
