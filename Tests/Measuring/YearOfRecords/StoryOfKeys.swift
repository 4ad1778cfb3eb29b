import AuditChain
import Refusals

// The events in the lives of merchants' keys.
extension Story {
    mutating func tellKeys() {
        tellRotation(of: 0, from: 60, by: .carol)
        tellSuspension()
        tellCompromise()
        tellRotation(of: 2, from: 250, by: .bob)
        tellDestruction()
        tellUncommonUse()
        on(330, "10:00", records: 1) { year, now in
            let certificate = year.random.digest()
            try await year.act(
                0, now, .certificateImport(certificate: certificate), .refused(.certificateUnsuitable), by: .carol,
                key: year.merchants[4].current)
        }
    }

    /// Adds a rotation: a new key, its certificate, and two days later the deactivation of the old key, which decrypts
    /// for another day.
    private mutating func tellRotation(of merchant: Int, from day: Int, by person: Person) {
        on(day, "09:00", records: 4) { year, now in try await year.generate(0, now, merchant, by: person) }
        on(day, "09:20", records: 1) { year, now in try await year.requestCertificate(0, now, merchant, by: person) }
        on(day + 1, "10:00", records: 1) { year, now in try await year.activate(0, now, merchant, by: person) }
        on(day + 3, "10:00", records: 1) { year, now in
            guard let key = year.merchants[merchant].former else { throw YearFailure("nothing was rotated") }
            key.cutOff = now + Year.day
            try await year.change(0, now, key, to: .deactivated, by: person, "rotation")
        }
        // These payment tokens were encrypted to the old key. They arrive before and after its cut-off.
        for (node, day, time) in [
            (0, day + 3, "13:00"), (1, day + 3, "18:30"), (2, day + 4, "08:15"), (1, day + 4, "11:40"),
        ] {
            on(day, time, records: 1) { year, now in
                guard let key = year.merchants[merchant].former else { throw YearFailure("nothing was rotated") }
                try await year.payment(node, now, 1, key)
            }
        }
    }

    /// Adds the suspension of a key for a day. The first request to resume it is rejected.
    private mutating func tellSuspension() {
        func key(_ year: Year) throws -> MerchantKey {
            guard let key = year.merchants[3].current else { throw YearFailure("there is no key to suspend") }
            return key
        }
        on(200, "13:00", records: 1) { year, now in
            try await year.change(0, now, key(year), to: .suspended, by: .bob, "the merchant reports a lost laptop")
        }
        on(200, "15:00", records: 1) { year, now in
            try await year.ask("resume", 0, now, .keyResume, by: .bob, key: key(year), reason: "the laptop was found")
        }
        on(200, "15:30", records: 1) { year, now in
            try await year.decide("resume", 0, now, .reject, by: .alice, "its report is not read yet")
        }
        on(201, "09:00", records: 1) { year, now in
            try await year.ask(
                "resume", 0, now, .keyResume, by: .bob, key: key(year), reason: "the report shows no access")
        }
        on(201, "09:20", records: 2) { year, now in
            let approval = try await year.decide("resume", 0, now, .approve, by: .alice)
            try await year.change(
                0, now, key(year), to: .active, by: .alice, "the report shows no access", approval: approval)
        }
    }

    /// Adds an insider's use of a key in the HSM, without the daemon. The key is suspended at once, and marked as
    /// compromised after a second person approves.
    private mutating func tellCompromise() {
        let merchant = 1
        func key(_ year: Year) throws -> MerchantKey {
            guard let key = year.merchants[merchant].current else { throw YearFailure("there is no key to give up") }
            return key
        }
        on(205, "22:10", records: 0) { year, now in try year.useUnrecorded(key(year), 37, now) }
        // The daemons read the keys' attributes once a day, and find the copy that the insider made.
        on(206, "03:00", records: 3) { year, now in
            let key = try key(year)
            key.isCopied = true
            try await year.describe(key, now)
        }
        on(310, "23:05", records: 0) { year, now in
            guard let key = year.merchants[4].current else { return }
            try year.useUnrecorded(key, 5, now)
        }
        on(215, "16:05", records: 2) { year, now in
            let (key, approval) = (try key(year), try year.nextApproval())
            let reason = "uses that are not in the record"
            try await year.change(0, now, key, to: .suspended, by: .alice, reason, approval: approval.hex)
            try await year.ask("compromise", 0, now, .keyCompromise, by: .alice, key: key, reason: reason, as: approval)
        }
        on(215, "16:40", records: 2) { year, now in
            let approval = try await year.decide("compromise", 0, now, .approve, by: .bob)
            try await year.change(
                0, now, key(year), to: .compromised, by: .bob, "uses that are not in the record", approval: approval)
        }
        // This payment token is encrypted to the compromised key.
        on(215, "16:50", records: 1) { year, now in try await year.payment(1, now, 0, key(year)) }
        on(215, "16:55", records: 4) { year, now in try await year.generate(0, now, merchant, by: .carol) }
        on(215, "17:00", records: 1) { year, now in try await year.requestCertificate(0, now, merchant, by: .carol) }
        on(216, "09:00", records: 1) { year, now in try await year.activate(0, now, merchant, by: .carol) }
    }

    /// Adds the destruction of the key that the first rotation replaced. One request is withdrawn, one expires, and the
    /// third is approved and executed.
    private mutating func tellDestruction() {
        func key(_ year: Year) throws -> MerchantKey {
            guard let key = year.merchants[0].former else { throw YearFailure("there is no key to destroy") }
            return key
        }
        on(270, "10:00", records: 1) { year, now in
            try await year.ask(
                "destroy", 0, now, .keyDestroy, by: .alice, key: key(year), reason: "not needed any more")
        }
        on(270, "11:00", records: 1) { year, now in
            try await year.decide("destroy", 0, now, .withdraw, by: .alice, "the retention is not agreed")
        }
        on(271, "10:00", records: 1) { year, now in
            try await year.ask("destroy", 0, now, .keyDestroy, by: .bob, key: key(year), reason: "not needed any more")
        }
        on(272, "10:00:30", records: 1) { year, now in
            try await year.decide("destroy", 0, now, .expire, by: nil)
        }
        on(273, "14:00", records: 1) { year, now in
            try await year.ask("destroy", 0, now, .keyDestroy, by: .alice, key: key(year), reason: "retention is over")
        }
        on(273, "14:01", records: 1) { year, now in try await year.decideAlone("destroy", 0, now, by: .alice) }
        on(273, "15:00", records: 2) { year, now in
            let approval = try await year.decide("destroy", 0, now, .approve, by: .carol)
            try await year.change(
                0, now, key(year), to: .destroyed, by: .carol, "retention is over", approval: approval)
        }
        for node in [1, 2] {
            on(273, "15:00:0\(node)", records: 1) { year, now in
                let key = try key(year)
                let place = try year.kept(await year.act(node, now, .keyObjectsDestroy, key: key, usesToken: true))
                key.life.objectsDestroyed.append(Truth.Step(at: place))
            }
        }
    }

    /// Adds replays on one day, a flood of refused requests that is recorded only as sums, and an afternoon in which the night caller decrypts payment tokens.
    private mutating func tellUncommonUse() {
        for number in 0..<12 {
            on(240, "13:\(10 + number * 3)", records: 1) { year, now in try await year.replay(number % 3, now) }
        }
        for (minute, count) in [(1, 450), (2, 430)] {
            on(280, "10:0\(minute)", records: 1) { year, now in
                let caller = AuditCaller(name: nil, uid: 4001, gid: 4000)
                try await year.record(1, now, refused: [.forbidden: count], by: caller)
            }
        }
        on(320, "14:00", records: 0) { year, now in
            let caller = PaymentCaller.settlementBatch.name
            year.truth.outsideHabit.append(Truth.OutsideHabit(caller: caller, from: year.text(now)))
        }
        for number in 0..<24 {
            on(320, "14:\(10 + number)", records: 1) { year, now in
                guard let key = year.merchants[1].current else { throw YearFailure("there is no key to misuse") }
                try await year.payment(0, now, PaymentCaller.all.count - 1, key)
                year.truth.outsideHabit[0].records += 1
            }
        }
    }
}
