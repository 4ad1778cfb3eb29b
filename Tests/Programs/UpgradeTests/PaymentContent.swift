import TestSupport

@testable import Payments

/// Random content of a payment store, as a gateway of its schema version could have written it.
struct PaymentContent: Sendable {
    let engine: StorageEngine
    let version: Int
    let now: Int64
    private(set) var tables: Content

    /// - Parameter now: the present time in milliseconds. Payments that the gateway removes are older than seven days.
    init(_ engine: StorageEngine, version: Int, seed: UInt64, now: Int64) {
        (self.engine, self.version, self.now) = (engine, version, now)
        tables = ["payment": [], "payment_change": []]
        var state: StoredRow = ["schema_version": .integer(Int64(version))]
        if engine == .postgresql { state["only_row"] = .boolean(true) }
        tables["payment_store"] = [state]
        var random = RandomValues(seed: seed)
        // Each state occurs, most of them several times.
        let states =
            PaymentState.allCases + (0..<random.count(0...20)).map { _ in random.any(of: PaymentState.allCases) }
        for (number, state) in states.enumerated() { add(state, number, &random) }
    }

    func rows(_ table: String) -> [StoredRow] { tables[table] ?? [] }

    private mutating func add(_ state: PaymentState, _ number: Int, _ random: inout RandomValues) {
        let path = Self.path(to: state, &random)
        let age = random.isTrue(percent: 20) ? 8 * 86_400_000 : random.number(0...86_400_000)
        let (received, isReleased) = (now - age, path.contains(.decrypted))
        let isOutcome = [.authorized, .captured, .declined, .error].contains(state)
        let attempt = Cell.bytes(random.bytes(8))
        let (client, token) = (Cell.text(random.text(longest: 64)), Cell.bytes(random.unique(32)))
        let owner = Cell.text(random.text(longest: 64, canBeEmpty: false))
        func printable(_ random: inout RandomValues) -> Cell {
            random.any(of: [.null, .text("x"), .text("approved '\\\"%"), .text(String(repeating: "~", count: 100))])
        }
        let reason =
            isOutcome || state == .pending || state == .notSent || state == .refused ? printable(&random) : .null
        var row: StoredRow = [
            "client": client, "token_digest": token,
            "purpose": .text(state == .released ? "release" : "payment"), "request_digest": .bytes(random.bytes(32)),
            "order_id": .text(ifAny: random.isTrue(percent: 70) ? random.text(longest: 100) : nil),
            "state": .text(state.rawValue), "attempt": attempt, "owner": owner,
            "deadline": .integer(received + 20_000), "reason": reason, "received_at": .integer(received),
            "changed_at": .integer(received + Int64(path.count)),
            "authorization_code": isOutcome ? printable(&random) : .null,
            "processor_reference": isOutcome ? printable(&random) : .null,
            "processed_at": isOutcome ? .integer(received + 1) : .null,
        ]
        if isReleased {
            let hasAmount = random.isTrue(percent: 80)
            row["transaction_id"] = .bytes(random.unique(32))
            row["merchant_identifier"] = .text(random.text(longest: 255))
            row["minor_units"] = hasAmount ? .integer(random.any(of: [0, 1, 1099, Amount.most])) : .null
            row["currency"] = hasAmount ? .text(random.any(of: ["USD", "JPY", "BHD"])) : .null
            row["processor"] = .text(ifAny: state == .released ? nil : random.any(of: ["acquirer", "gone"]))
            if version >= 2, [.submitting, .pending].contains(state) { row["account_digest"] = random.bytesIfAny(33) }
        }
        tables["payment"]?.append(row)
        for (step, state) in path.enumerated() {
            var change: StoredRow = [
                "client": client, "token_digest": token, "state": .text(state.rawValue), "attempt": attempt,
                "at": .integer(received + Int64(step)), "by": owner, "reason": state == path.last ? reason : .null,
            ]
            // PostgreSQL assigns the numbers.
            if engine == .sqlite { change["number"] = .integer(Int64(number * 100 + step + 1)) }
            tables["payment_change"]?.append(change)
        }
    }

    /// The states of a payment up to this one, in one of their orders.
    private static func path(to state: PaymentState, _ random: inout RandomValues) -> [PaymentState] {
        let sent: [PaymentState] = [.received, .decrypted, .submitting]
        switch state {
        case .received: return random.isTrue(percent: 30) ? [.received, .notSent, .received] : [.received]
        case .decrypted: return [.received, .decrypted]
        case .submitting: return sent
        case .authorized, .captured, .declined, .error:
            return sent + (random.isTrue(percent: 30) ? [.pending] : []) + [state]
        case .pending: return sent + [.pending]
        case .notSent: return random.isTrue(percent: 50) ? sent + [.notSent] : [.received, .notSent]
        case .released: return [.received, .decrypted, .released]
        case .refused: return random.isTrue(percent: 50) ? [.received, .decrypted, .refused] : [.received, .refused]
        }
    }
}
