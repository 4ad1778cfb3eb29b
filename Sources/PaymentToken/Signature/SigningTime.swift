internal import Foundation
internal import SwiftASN1

/// The signing-time attribute's value, RFC 5652 §11.3:
///
///     Time ::= CHOICE { utcTime UTCTime, generalizedTime GeneralizedTime }
enum SigningTime {
    /// Dates from 1950 to 2049 must be UTCTime, others GeneralizedTime, both to the second and in UTC.
    static func date(of node: ASN1Node) throws -> Date {
        do {
            switch node.identifier {
            case .utcTime:
                let time = try UTCTime(derEncoded: node)
                return date(
                    year: time.year, month: time.month, day: time.day, hours: time.hours, minutes: time.minutes,
                    seconds: time.seconds)
            case .generalizedTime:
                let time = try GeneralizedTime(derEncoded: node)
                guard !(1950...2049).contains(time.year), time.rawFractionalSeconds.isEmpty
                else { throw CMSDefect("signingTime is a GeneralizedTime that RFC 5652 does not allow") }
                return date(
                    year: time.year, month: time.month, day: time.day, hours: time.hours, minutes: time.minutes,
                    seconds: time.seconds)
            default:
                throw CMSDefect("signingTime is no time")
            }
        } catch let defect as CMSDefect {
            throw defect
        } catch {
            throw CMSDefect("signingTime is malformed")
        }
    }

    /// Days are counted from March, so that the leap day comes last and months need no table.
    private static func date(
        year: Int, month: Int, day: Int, hours: Int, minutes: Int, seconds: Int
    ) -> Date {
        let marchYear = month > 2 ? year : year - 1
        let marchMonth = (month + 9) % 12
        let daysBeforeYear = 365 * marchYear + marchYear / 4 - marchYear / 100 + marchYear / 400
        let daysBeforeMonth = (153 * marchMonth + 2) / 5
        // 1970-01-01 is day 719,468 of that count.
        let days = daysBeforeYear + daysBeforeMonth + day - 1 - 719_468
        return Date(timeIntervalSince1970: Double(((days * 24 + hours) * 60 + minutes) * 60 + seconds))
    }
}
