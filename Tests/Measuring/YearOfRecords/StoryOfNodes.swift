import AuditChain
import Refusals

// The events of the nodes: configuration changes, crashes, an upgrade, wrong clocks, a lost ledger and a new audit key.
extension Story {
    mutating func tellNodes() {
        tellConfiguration()
        tellCrashes()
        tellClock()
        tellUpgrade()
        tellLoss()
        tellAuditKey()
        on(290, "13:00", records: 1) { year, now in
            let since = AuditTime(milliseconds: now - 9 * 60_000)
            let place = try year.kept(
                await year.act(
                    0, now, .recordsDropped(count: 137, since: since), .refused(.ledgerUnavailable)))
            year.truth.droppedRecords.append(Truth.Dropped(at: place, count: 137, since: since.text))
        }
    }

    private mutating func tellConfiguration() {
        for (number, day) in [(2, 20), (3, 300)] {
            for node in 0..<3 {
                on(day, "11:0\(node)", records: 2) { year, now in
                    year.configuration = number
                    try await year.configure(node, now, isReload: true)
                }
            }
        }
        on(21, "09:30", records: 1) { year, now in
            try await year.configure(0, now, isReload: true, isRefused: true)
        }
    }

    private mutating func tellCrashes() {
        for (node, day, time) in [(1, 45, "17:30"), (0, 130, "11:15"), (2, 299, "20:40")] {
            on(day, time, records: 3) { year, now in
                year.nodes[node].workerAwayUntil = now + 20_000
                year.truth.workerCrashes.append(
                    Truth.WorkerCrash(node: year.nodes[node].name, time: year.text(now)))
                for merchant in [0, 1, 2] {
                    guard let key = year.merchants[merchant].current else { throw YearFailure("there is no key") }
                    try await year.payment(node, now, 0, key)
                }
            }
        }
        for (node, day, time, version) in [(0, 90, "14:20", Self.version), (2, 230, "06:05", Self.laterVersion)] {
            on(day, time, records: 0) { year, _ in year.nodes[node].isDown = true }
            on(day, time + ":50", records: 3) { year, now in
                try await year.begin(node, now, version, isAfterCrash: true)
            }
        }
    }

    /// Adds a clock that is set three hours ahead and later set back. The node refuses payment tokens by their signing
    /// times until the clock is accepted.
    private mutating func tellClock() {
        let node = 1
        func refused(_ day: Int, _ time: String) {
            on(day, time, records: 1) { year, now in
                guard let key = year.merchants[0].current else { throw YearFailure("there is no key") }
                try await year.payment(node, now, 0, key)
            }
        }
        on(120, "11:00", records: 0) { year, now in
            let standing = year.nodes[node]
            try await standing.setClock(ahead: 3 * Year.hour, at: now)
            standing.refusesBySigningTime = true
            year.truth.clockSteps.append(
                Truth.ClockStep(node: standing.name, secondsAhead: 10_800, lastBefore: standing.sequence))
        }
        refused(120, "11:05")
        refused(120, "11:15")
        on(120, "11:40", records: 0) { year, now in
            try await year.nodes[node].setClock(ahead: 0, at: now)
            year.truth.clockSteps[0].lastAhead = year.nodes[node].sequence
            year.truth.clockSteps[0].seals = year.nodes[node].misdatedSeals
        }
        refused(120, "11:50")
        let reason = "the time server was wrong"
        on(120, "12:10", records: 1) { year, now in
            try await year.ask("clock", node, now, .ledgerAcceptClock, by: .alice, reason: reason)
        }
        on(120, "12:25", records: 2) { year, now in
            let newest = year.nodes[node].newest
            let approval = try await year.decide("clock", node, now, .approve, by: .carol)
            let acceptance = LedgerClockAcceptance(
                newestRecord: newest, reason: AuditReason(reason), approval: ApprovalIdentifier(hex: approval))
            let place = try year.kept(await year.act(node, now, .ledgerAcceptClock(acceptance), by: .carol))
            year.truth.clockSteps[0].accepted = Truth.Step(
                at: place, by: Person.carol.rawValue, approval: approval)
            year.nodes[node].refusesBySigningTime = false
        }
    }

    /// Adds the upgrade of all nodes, one after another.
    private mutating func tellUpgrade() {
        for node in 0..<3 {
            on(140, "05:\(node)0", records: 1) { year, now in try await year.end(node, now, Self.version) }
            on(140, "05:\(node)2", records: 3) { year, now in try await year.begin(node, now, Self.laterVersion) }
        }
    }

    /// Adds the loss of a ledger, which a backup from five days earlier replaces. The records since the backup are
    /// lost, and sequence numbers continue from the backup's last record.
    private mutating func tellLoss() {
        let (node, day) = (2, Self.copy + 5)
        on(day, "02:30", records: 0) { year, now in
            try await year.seal(node, now)
            year.nodes[node].isDown = true
            year.nodes[node].loss?.lostAt = year.text(now)
        }
        on(day, "04:00", records: 3) { year, now in
            guard let loss = year.nodes[node].loss else { throw YearFailure("no ledger was lost") }
            year.truth.losses.append(loss)
            year.nodes[node].loss = nil
            // The restored ledger has no claims of recent releases, so the story must not repeat or replay them.
            year.recent.removeAll()
            try await year.begin(node, now, Self.laterVersion, isAfterCrash: true)
            // The node serves no requests until an administrator accepts the restore.
            year.nodes[node].isDown = true
        }
        let reason = "the disk failed; the last backup of the ledger is restored"
        on(day, "04:10", records: 1) { year, now in
            try await year.ask("restore", node, now, .ledgerAcceptRestore, by: .alice, reason: reason)
        }
        on(day, "04:25", records: 2) { year, now in
            let loss = year.truth.losses[0]
            // The HSM token still has the last audit checkpoint of the lost ledger, which sealed all its records.
            let (ledger, token) = (year.nodes[node].sequence, loss.copyEndsAt + loss.records)
            let servedFrom = AuditTime(milliseconds: now + 5 * 60_000)
            let approval = try await year.decide("restore", node, now, .approve, by: .bob)
            let restore = LedgerRestore(
                ledgerSequence: ledger, hsmTokenSequence: token, servedFrom: servedFrom,
                reason: AuditReason(reason), approval: ApprovalIdentifier(hex: approval))
            let place = try year.kept(await year.act(node, now, .ledgerAcceptRestore(restore), by: .bob))
            try await year.seal(node, now)
            year.truth.restores.append(
                Truth.Restore(
                    at: place, by: Person.bob.rawValue, approval: approval, ledgerSequence: ledger,
                    tokenSequence: token, servedFrom: servedFrom.text))
            year.nodes[node].servedFrom = servedFrom.milliseconds
            year.nodes[node].isDown = false
        }
    }

    private mutating func tellAuditKey() {
        let reason = "yearly change"
        on(175, "10:00", records: 1) { year, now in
            try await year.ask("audit key", 1, now, .auditKeyChange, by: .alice, reason: reason)
        }
        on(175, "10:20", records: 3) { year, now in
            try await year.changeAuditKey("audit key", 1, now, by: .bob, reason)
        }
        for node in [0, 2] {
            on(175, "10:20:0\(node + 1)", records: 1) { year, now in try await year.pinNext(node, now, of: 1) }
        }
    }
}
