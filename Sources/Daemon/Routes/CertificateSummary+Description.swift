import DaemonAPI
import PaymentToken

extension CertificateSummary {
    init(_ certificate: CertificateDescription) {
        self.init(
            subject: certificate.subject, issuer: certificate.issuer, serialNumber: certificate.serialNumber,
            notBefore: certificate.notBefore, notAfter: certificate.notAfter,
            sha256: certificate.sha256Hex)
    }
}
