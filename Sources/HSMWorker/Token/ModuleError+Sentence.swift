import Foundation
import PKCS11

extension ModuleError {
    /// For people: what was wrong, and a question where the likeliest cause is known. SoftHSM says no more than
    /// CKR_GENERAL_ERROR of a configuration or a directory that is not there.
    func sentence(
        module path: String, environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> String {
        guard case .call(let error) = self, error.call == "C_Initialize", error.returnValue == .generalError,
            environment["SOFTHSM2_CONF"] != nil || path.lowercased().contains("softhsm")
        else { return "\(self)." }
        return "\(self). Does SOFTHSM2_CONF name a file whose tokendir exists and is writable?"
    }
}
