import Refusals
import Testing

@testable import DaemonAPI

@Suite("Error table")
struct ErrorTableTests {
    /// The error codes of each HTTP status, from the API's contract.
    private static let statuses: [Int: [RefusalCode]] = [
        400: [.malformedRequest, .malformedToken, .unsupportedVersion],
        403: [.forbidden], 404: [.notFound], 405: [.methodNotAllowed], 408: [.requestTimeout],
        409: [.transactionReplayed, .invalidState], 413: [.requestTooLarge], 415: [.unsupportedMediaType],
        422: [
            .signatureInvalid, .certificateUntrusted, .markerOIDMissing, .signingTimeOutsideWindow,
            .unknownPublicKeyHash, .keyNotActive, .decryptionFailed, .merchantMismatch, .currencyMismatch,
            .amountMismatch, .applicationDataMismatch, .messageExpired, .authMethodNotAllowed, .certificateUnsuitable,
            .keyNotFound, .approvalInvalid,
        ],
        500: [.internalError],
        503: [.hsmUnavailable, .ledgerUnavailable, .overloaded, .deadlineExceeded],
    ]

    @Test("gives every code the HTTP status of the contract")
    func codes() {
        for (status, codes) in Self.statuses {
            for code in codes { #expect(ErrorTable.row(for: code).status == status, "\(code.rawValue)") }
        }
        #expect(Set(Self.statuses.values.joined()) == Set(RefusalCode.allCases))
    }

    @Test("states a time to retry after for status 503 only", arguments: RefusalCode.allCases)
    func retryAfter(code: RefusalCode) {
        let row = ErrorTable.row(for: code)
        #expect((row.retryAfter != nil) == (row.status == 503))
        #expect((row.retryAfter ?? 1) >= 1)
    }

    @Test("derives the command line's exit status from the code")
    func exitStatus() {
        #expect(RefusalCode.signatureInvalid.exitStatus == .no)
        #expect(RefusalCode.transactionReplayed.exitStatus == .no)
        #expect(RefusalCode.forbidden.exitStatus == .notPermitted)
        #expect(RefusalCode.ledgerUnavailable.exitStatus == .tryAgainLater)
        #expect(RefusalCode.internalError.exitStatus == .defect)
        #expect(ExitStatus.allCases.map(\.rawValue) == [0, 1, 2, 64, 66, 69, 70, 75, 77, 78])
    }

    @Test("derives the exit status from the HTTP status if a newer daemon's code is unknown")
    func unknownCode() throws {
        let answer = try JSONCoding.decode(
            RefusalAnswer.self,
            from: Array(#"{"code":"brand_new","message":"m","audit":{"node":"n","sequence":7,"shard":1}}"#.utf8))
        #expect(answer.refusalCode == nil)
        #expect(answer.exitStatus(httpStatus: 422) == .no)
        #expect(answer.exitStatus(httpStatus: 403) == .notPermitted)
        #expect(answer.exitStatus(httpStatus: 503) == .tryAgainLater)
        #expect(answer.exitStatus(httpStatus: 500) == .defect)
    }
}
