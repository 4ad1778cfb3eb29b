import Foundation
import PostgreSQLClient

/// One change of the store: what it reads, under locks; what follows from that; and what it writes, with the commit.
///
/// Two round trips. What fails before the commit was sent has changed nothing, and is begun again where that may help. What
/// fails after it is in doubt: the session is given up, and the server may still commit.
struct PostgreSQLPaymentTransaction<Value: Sendable>: Sendable {
    let reading: [PostgreSQLStatement]
    /// - Returns: what is answered once `writing` is durable; nothing is written where that is empty.
    let decide: @Sendable ([PostgreSQLResult]) throws -> (value: Value, writing: [PostgreSQLStatement])

    /// Deadlocks, and rows that another transaction has put in the way, go away by themselves.
    private static var mostTries: Int { 5 }

    func perform(
        on connections: PostgreSQLPaymentSessions.Connections, until deadline: ContinuousClock.Instant
    ) throws -> Value {
        for number in 1... {
            let wasOld = connections.isOld
            do {
                return try once(on: connections.connection(until: deadline), connections, until: deadline)
            } catch let fault as Undone {
                let isLast = number >= Self.mostTries || ContinuousClock.now >= deadline
                switch fault.failure {
                // A server that was restarted since the session was used last: nothing was asked of the new one yet.
                case .lost where wasOld && !isLast: connections.drop()
                case .refused(let state, _) where state.passesByItself && !isLast: continue
                default: throw PaymentStoreError.unavailable(reason: fault.failure.reason)
                }
            }
        }
        preconditionFailure("The last try returns or throws.")
    }

    /// Nothing was changed, for certain.
    private struct Undone: Error {
        let failure: PostgreSQLFailure
    }

    private func once(
        on connection: PostgreSQLConnection, _ connections: PostgreSQLPaymentSessions.Connections,
        until deadline: ContinuousClock.Instant
    ) throws -> Value {
        let read: [PostgreSQLResult]
        do throws(PostgreSQLFailure) {
            read = try connection.exchange([Self.begin] + reading, until: deadline)
            connections.keep()
        } catch {
            try rollBack(connection, connections, after: error, until: deadline)
            throw Undone(failure: error)
        }
        let decided: (value: Value, writing: [PostgreSQLStatement])
        do { decided = try decide(Array(read.dropFirst())) } catch {
            try rollBack(connection, connections, after: nil, until: deadline)
            throw error
        }
        guard !decided.writing.isEmpty else {
            try rollBack(connection, connections, after: nil, until: deadline)
            return decided.value
        }
        do throws(PostgreSQLFailure) {
            let results = try connection.exchange(decided.writing + [Self.commit], until: deadline)
            // The server says ROLLBACK where it could not commit, and warns where it did and a standby may not have it.
            guard results.last?.tag == "COMMIT" else { throw .refused(SQLState(known: "25P02"), statement: 0) }
        } catch {
            // Of what the server refused nothing stands. Of what it did not answer anything may.
            guard case .refused = error else {
                connections.drop()
                throw PaymentStoreError.inDoubt(reason: error.reason)
            }
            try rollBack(connection, connections, after: error, until: deadline)
            throw Undone(failure: error)
        }
        guard !connection.hasWarned else {
            throw PaymentStoreError.inDoubt(reason: "PostgreSQL warned at the commit: a standby may not have it.")
        }
        return decided.value
    }

    /// Leaves the session as it was, or drops it.
    private func rollBack(
        _ connection: PostgreSQLConnection, _ connections: PostgreSQLPaymentSessions.Connections,
        after failure: PostgreSQLFailure?, until deadline: ContinuousClock.Instant
    ) throws {
        switch failure {
        case nil, .refused:
            do throws(PostgreSQLFailure) {
                _ = try connection.exchange([Self.rollback], until: deadline)
            } catch { connections.drop() }
        case .lost, .late: connections.drop()
        }
    }

    private static var begin: PostgreSQLStatement {
        PostgreSQLStatement("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", prepared: "begin")
    }
    private static var commit: PostgreSQLStatement { PostgreSQLStatement("COMMIT", prepared: "commit") }
    private static var rollback: PostgreSQLStatement { PostgreSQLStatement("ROLLBACK", prepared: "rollback") }
}

extension SQLState {
    /// Another transaction was first: the next try sees what it did (unique violation, deadlock, serialization failure).
    fileprivate var passesByItself: Bool {
        self == .deadlock || self == .serializationFailure || code == "23505"
    }
}

extension PaymentStoreError {
    /// Only SQLSTATEs and fixed sentences: a row's values stay out of logs.
    init(postgreSQL error: any Error) {
        self =
            switch error {
            case let error as PaymentStoreError: error
            case let error as PostgreSQLFailure: .unavailable(reason: error.reason)
            case let error as PostgreSQLRowError:
                .damaged(reason: "column \(error.column + 1) of a row is of another type")
            default: .unavailable(reason: "\(type(of: error)).")
            }
    }
}
