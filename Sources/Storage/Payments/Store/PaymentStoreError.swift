import DatabaseKit
internal import Encodings
import GRDB
import PostgreSQLClient
import SQLiteFiles

/// The reason why the store did not carry out a request.
public enum PaymentStoreError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The store cannot be used now. Nothing was changed. The reason is for the log and contains no row's value.
    case unavailable(reason: String)
    /// A commit was not acknowledged, but may have been made. Nothing that depends on it is sent.
    case inDoubt(reason: String)
    /// The queue of waiting operations is full. Nothing was changed.
    case overloaded
    /// Another attempt has the payment, or the payment's state no longer permits this change. The value is the state
    /// that was found.
    case superseded(PaymentState)
    /// No payment has this key or this transaction identifier.
    case notFound
    /// A row has values that this version does not know.
    case damaged(reason: String)

    public var description: String {
        switch self {
        case .unavailable(let reason): "The store of payments is not available: \(reason)"
        case .inDoubt(let reason):
            "The store of payments did not acknowledge a change, which may have been stored: \(reason)"
        case .overloaded: "Too many changes wait for the store of payments."
        case .superseded(let state): "The payment is \(state.rawValue) by now."
        case .notFound: "There is no such payment."
        case .damaged(let reason): "The store of payments has values that this version does not know: \(reason)"
        }
    }
}

extension PaymentStoreError: StoreFailure {
    static func timedOut(after timeout: Duration, mayBeWritten: Bool) -> PaymentStoreError {
        let reason = "It has not answered within \(timeout)."
        return mayBeWritten ? .inDoubt(reason: reason) : .unavailable(reason: reason)
    }

    /// Converts an error of a database. The result contains only SQLite's codes, SQLSTATEs and fixed sentences, so that
    /// a statement's values stay out of logs.
    init(_ error: any Error) {
        self =
            switch error {
            case let error as PaymentStoreError: error
            case let error as DatabaseError: .unavailable(reason: "SQLite says \(error.extendedResultCode).")
            case let error as DatabaseFileReplaced: .unavailable(reason: error.description)
            case is TransactionLeftOpen: .unavailable(reason: "A transaction that failed cannot be rolled back.")
            case let error as PostgreSQLFailure: .unavailable(reason: error.reason)
            case let error as UnreadableColumn:
                .damaged(reason: "column \(error.column + 1) of a row is of another type")
            default: .unavailable(reason: "\(type(of: error)).")
            }
    }

    var asPossiblyWritten: PaymentStoreError {
        if case .unavailable(let reason) = self { .inDoubt(reason: reason) } else { self }
    }

    /// The reason without the introductory words of ``description``.
    var reason: String {
        switch self {
        case .unavailable(let reason), .inDoubt(let reason): reason
        case .overloaded, .superseded, .notFound, .damaged: description
        }
    }
}

/// The reason why the store cannot be opened.
public enum PaymentStoreOpeningError: Error, Sendable, Equatable, CustomStringConvertible {
    case noDirectory(path: String)
    case notPrivate(path: String, why: String)
    case inUse(path: String)
    case notDurable(place: String, why: String)
    /// The database at `place` has no store of payments, or `place` has no database.
    case notAStore(place: String)
    case newerSchema(place: String, found: Int, known: Int)
    case cannotOpen(place: String, reason: String)
    /// The store cannot be opened now. A later attempt may succeed without any change to the configuration or the
    /// store.
    case notNow(place: String, reason: String)

    public var description: String {
        switch self {
        case .noDirectory(let path):
            "The directory \(path) of the payments' store does not exist. Make it for the gateway's account: "
                + "install -d -m 0700 -o paytoken-gateway \(ShellWord.of(path))"
        case .notPrivate(let path, let why): "The payments' store would not be private: \(path) \(why)."
        case .inUse(let path):
            "Another process uses the payments' store \(path). One gateway has one file; several gateways share a "
                + "store in PostgreSQL (store.url)."
        case .notDurable(let place, let why):
            "The payments' store \(place) would not survive a loss of power: \(why). Put it on a local file system."
        case .notAStore(let place): "\(place) is not a store of payments. Name another one in store.url."
        case .newerSchema(let place, let found, let known):
            "The payments' store \(place) has schema \(found), which a newer gateway wrote; this one knows schemas up to "
                + "\(known). Run the newer program."
        case .cannotOpen(let place, let reason): "The payments' store \(place) cannot be opened: \(reason)"
        case .notNow(let place, let reason):
            "The payments' store \(place) cannot be opened now: \(reason) Repair that, then try again."
        }
    }
}
