import KeyTypes
import TestSupport
import Testing

/// Kinds of HSM tokens on which the tests cover every tier and the audit key.
enum TokenKind: String, Sendable, CaseIterable, CustomTestStringConvertible {
    case softHSM = "SoftHSM"
    case nss = "NSS softoken"

    var testDescription: String { rawValue }

    /// The kinds installed on this host.
    static var installed: [TokenKind] { allCases.filter { $0 != .nss || NSSTokenDirectory.isInstalled } }

    func fresh() async throws -> any WorkersToken {
        switch self {
        case .softHSM: try await TokenDirectory()
        case .nss: try await NSSTokenDirectory()
        }
    }

    /// The library's tier for EC_v1, from its documentation and from tests.
    var tierECv1: ProtectionTier { self == .nss ? .b : .c }
    var tierECv2: ProtectionTier { self == .nss ? .b : .c }
    var tierRSAv1: ProtectionTier { self == .nss ? .a : .c }

    func tier(of payment: EncryptedPayment) -> ProtectionTier { payment.otherInfo.isEmpty ? tierRSAv1 : tierECv1 }
}
