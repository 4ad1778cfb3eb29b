import TestSupport
import Testing
import WorkerProtocol

extension TokenKind {
    /// What the library can do, by its own documents and by trial; see the table of tiers.
    var tierECv1: ProtectionTier { self == .nss ? .b : .c }
    var tierRSAv1: ProtectionTier { self == .nss ? .a : .c }

    func tier(of payment: EncryptedPayment) -> ProtectionTier { payment.otherInfo.isEmpty ? tierRSAv1 : tierECv1 }
}
