import AuditChain

/// The administrators and the auditor.
enum Person: String, CaseIterable {
    case alice, bob, carol
    /// The auditor, who is not an administrator.
    case dora

    var caller: AuditCaller {
        let uid: UInt32 =
            switch self {
            case .alice: 1101
            case .bob: 1102
            case .carol: 1103
            case .dora: 1201
            }
        return AuditCaller(
            name: AuditText(rawValue), uid: uid, gid: self == .dora ? 1200 : 1100, loginUID: uid,
            pid: Int32(uid) * 7, comm: AuditText("paytokenctl"))
    }
}

/// A program that requests decryption of payment tokens, with the distribution of its requests over the day and the
/// week.
struct PaymentCaller {
    let name: String
    let uid: UInt32
    /// The weights of its requests by the hour of the day in UTC.
    let hours: [Double]
    /// The weights of its requests by the day of the week, from Sunday to Saturday.
    let weekdays: [Double]
    /// True if the program also requests signatures with the Merchant Identity key.
    let opensSessions: Bool

    var caller: AuditCaller {
        AuditCaller(name: AuditText(name), uid: uid, gid: 1000, pid: Int32(uid) * 3, comm: AuditText("node"))
    }

    /// Returns the weight of the program's requests in an hour, relative to other hours and other callers.
    func weight(weekday: Int, hour: Int) -> Double { hours[hour] * weekdays[weekday] }

    /// All callers. Their weights are low at night and high on Fridays.
    static let all: [PaymentCaller] = [
        PaymentCaller(
            name: "checkout-web", uid: 1001,
            hours: [
                8, 5, 3, 2, 2, 4, 9, 18, 30, 42, 50, 54, 58, 55, 50, 48, 50, 56, 64, 70, 72, 60, 38, 18,
            ], weekdays: [0.9, 1, 1, 1.05, 1.1, 1.6, 1.2], opensSessions: true),
        PaymentCaller(
            name: "checkout-app", uid: 1002,
            hours: [
                6, 3, 2, 1, 1, 2, 6, 14, 20, 20, 20, 22, 30, 26, 20, 20, 24, 30, 38, 44, 46, 40, 28, 14,
            ], weekdays: [1.1, 0.9, 0.9, 0.95, 1, 1.5, 1.4], opensSessions: false),
        PaymentCaller(
            name: "pos-gateway", uid: 1003,
            hours: [
                0, 0, 0, 0, 0, 0, 1, 4, 12, 18, 20, 22, 26, 22, 18, 18, 20, 26, 24, 12, 4, 1, 0, 0,
            ], weekdays: [0.2, 0.9, 0.95, 1, 1.05, 1.5, 1.6], opensSessions: false),
        settlementBatch,
    ]

    /// A caller whose legitimate requests come only at 03:00.
    static let settlementBatch = PaymentCaller(
        name: "settlement-batch", uid: 1010,
        hours: [
            0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ], weekdays: [1, 1, 1, 1, 1, 1, 1], opensSessions: false)
}
