import Encodings
import PKCS11
import SecretMemory
import TestSupport
import Testing

@Suite("HSM tokens")
struct TokenTests {
    @Test("reports a label without padding and an initialised user PIN after the initialisation")
    func initialised() throws {
        let token = try SoftHSM.shared().freshToken()
        let info = try token.slot.tokenInfo()
        #expect(info.label == token.label)
        #expect(info.serialNumber.count == 16)
        #expect(info.flags.isSuperset(of: [.tokenInitialized, .userPINInitialized, .loginRequired]))
        #expect(info.minimumPINLength == 4)
        #expect(info.maximumPINLength == 255)
    }

    @Test("finds an HSM token by its label, its serial number or both, and by both only if both match")
    func selection() throws {
        let hsm = try SoftHSM.shared()
        let token = try hsm.freshToken()
        let other = try hsm.freshToken()
        let label = token.label.replacing(" ", with: "%20")
        let serial = try token.slot.tokenInfo().serialNumber
        let otherSerial = try other.slot.tokenInfo().serialNumber
        for uri in ["pkcs11:token=\(label)", "pkcs11:serial=\(serial)", "pkcs11:token=\(label);serial=\(serial)"] {
            let found = try hsm.module.slot(holding: TokenURI(uri))
            #expect(found.slot.identifier == token.slot.identifier)
            #expect(found.token.serialNumber == serial)
        }
        for uri in [
            "pkcs11:token=\(label);serial=\(otherSerial)", "pkcs11:token=\(label);model=other", "pkcs11:token=no",
        ] {
            let error = #expect(throws: TokenSelectionError.self) { try hsm.module.slot(holding: TokenURI(uri)) }
            guard case .notFound(let shown) = error else {
                Issue.record("found: \(uri), \(String(describing: error))")
                continue
            }
            #expect(shown.contains("\"\(token.label)\" (serial number \(serial))"))
        }
    }

    @Test("distinguishes two HSM tokens with the same label only by serial number")
    func ambiguous() throws {
        let hsm = try SoftHSM.shared()
        let first = try hsm.freshToken(label: "same-label")
        let second = try hsm.freshToken(label: "same-label")
        let serials = try [first, second].map { try $0.slot.tokenInfo().serialNumber }
        let error = #expect(throws: TokenSelectionError.self) {
            try hsm.module.slot(holding: TokenURI("pkcs11:token=same-label"))
        }
        guard case .ambiguous(let named) = error else {
            Issue.record("not ambiguous: \(String(describing: error))")
            return
        }
        #expect(Set(named) == Set(serials))
        let found = try hsm.module.slot(holding: TokenURI("pkcs11:token=same-label;serial=\(serials[1])"))
        #expect(found.slot.identifier == second.slot.identifier)
    }

    @Test("refuses a label of more than 32 bytes before it changes the HSM token")
    func longLabel() throws {
        let token = try SoftHSM.shared().freshToken()
        let pin = SecretBytes(copying: SoftHSMToken.securityOfficerPIN)
        #expect(throws: CallError.self) {
            try token.slot.initializeToken(label: String(repeating: "a", count: 33), securityOfficerPIN: pin)
        }
        #expect(try token.slot.tokenInfo().label == token.label)
    }

    @Test("fails with CKR_PIN_INCORRECT for a wrong PIN, and logs in all sessions with the right one")
    func login() throws {
        let token = try SoftHSM.shared().freshToken()
        var session = try token.openSession()
        var other = try token.openSession()
        try session.logOut()
        let nobody = try other.loggedInUser()
        #expect(nobody == nil)
        let wrong = SecretBytes(copying: Array("9999".utf8))
        do {
            try session.logIn(.user, pin: wrong)
            Issue.record("logged in with a wrong PIN")
        } catch {
            #expect(error == CallError(call: "C_Login", cause: .returned(.pinIncorrect)))
        }
        try session.logIn(.user, pin: SecretBytes(copying: SoftHSMToken.userPIN))
        let user = try other.loggedInUser()
        #expect(user == .user)
        do {
            try session.logIn(.user, pin: SecretBytes(copying: SoftHSMToken.userPIN))
            Issue.record("logged in twice")
        } catch {
            #expect(error.returnValue == .userAlreadyLoggedIn)
        }
    }
}
