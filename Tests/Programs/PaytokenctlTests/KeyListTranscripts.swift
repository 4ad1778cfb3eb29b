import Foundation
import TestSupport
import Testing

/// Transcripts of key list with Google Pay keys.
extension AdministrationTranscripts {
    @Test("lists a Google Pay key that is nearly a year old in key list --expiring, and the step for an older one")
    func expiringGooglePayKey() async throws {
        func daemon(due: String) async throws -> FakeDaemon {
            let key = Sample.key(merchant: "BCR2DN4TEXAMPLE", notAfter: nil, daysLeft: nil)
                .replacing(#""use":"processing""#, with: #""use":"google-pay","replacementDue":"\#(due)""#)
            return try await FakeDaemon(["GET /v1/keys?limit=1000": .ok(#"{"items":[\#(key)]}"#)])
        }
        let (old, new) = (try await daemon(due: "2020-01-01T00:00:00Z"), try await daemon(due: "2100-01-01T00:00:00Z"))
        let over = try await Command.paytokenctl(["key", "list", "--expiring", "60d"], socket: old.path)
        #expect(over.status == 1 && over.output.contains("google-pay  EC    active  2020-01-01  -"), "\(over)")
        #expect(over.error.hasPrefix("A Google Pay key that is a year old stops nothing"), "\(over)")
        let later = try await Command.paytokenctl(["key", "list", "--expiring", "60d"], socket: new.path)
        #expect(later.status == 0 && later.output == "", "\(later)")
    }
}
