import Encodings
import Foundation
import PortalRequests
import UsageRecording

/// A request to Apple's API for the outbound program, which makes it once and reports its result.
struct OutboundWork: Sendable, Equatable {
    /// The time for which the outbound program has a request: as long as its JSON Web Token is valid.
    static let time = Duration.seconds(90)

    enum Purpose: Sendable, Equatable {
        case read(PortalRequest, of: PortalName, scope: TokenScope)
        case write(PortalWrite)
    }

    /// The name under which the result is reported.
    let id: String
    let purpose: Purpose
    let deadline: Date

    init(_ purpose: Purpose, _ clock: WallClock) {
        id = Hexadecimal.encode((0..<8).map { _ in UInt8.random(in: .min ... .max) })
        self.purpose = purpose
        deadline = clock.now().addingTimeInterval(TimeInterval(Self.time.components.seconds))
    }

    var request: PortalRequest {
        switch purpose {
        case .read(let request, _, _): request
        case .write(let write): write.request
        }
    }

    /// The merchant identifier that the request is about.
    var merchant: String {
        switch purpose {
        case .read(_, let merchant, _): merchant.text
        case .write(let write): write.merchant
        }
    }

    /// The form of the scope that a read's token has; nil for a write.
    var scope: TokenScope? { if case .read(_, _, let scope) = purpose { scope } else { nil } }
}
